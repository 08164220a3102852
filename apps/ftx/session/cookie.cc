// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/cookie.h"

#include <algorithm>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/security/key_schedule.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

/// Where the secret begins; HMAC-SHA256 gains nothing by more.
constexpr std::size_t key_bytes = 32;

/// Null: OpenSSL failed.
std::optional<Cookie> make(ConstBytes secret, std::uint64_t time_ns, const Peer& peer, std::uint64_t connection) {
  std::array<std::byte, Peer::address_bytes_max + 16> input{};
  Writer message(input);
  message.number(time_ns).number(connection).bytes(peer.address());
  // RFC 5869 section 2.2: "HKDF-Extract(salt, IKM) -> PRK", "PRK = HMAC-Hash(salt, IKM)"
  const auto mac = hkdf_extract(secret.first(key_bytes), ConstBytes(input).first(message.size()));
  if (!mac) {
    return std::nullopt;
  }
  Cookie cookie;
  Writer(cookie).number(time_ns).bytes(mac->bytes().first(cookie_bytes - sizeof time_ns));
  return cookie;
}

}  // namespace

CookieJar::CookieJar(std::uint64_t seed) {
  Prng prng(seed);
  Writer writer(secret_);
  while (writer.size() < secret_.size()) {
    writer.number(prng());
  }
}

Cookie CookieJar::issue(TimePoint now, const Peer& peer, std::uint64_t connection) const {
  return make(secret_, nanoseconds(now), peer, connection).value_or(Cookie{});
}

bool CookieJar::accepts(TimePoint now, const Peer& peer, std::uint64_t connection, const Cookie& cookie) const {
  const auto time_ns = load_big_endian<std::uint64_t>(cookie.data());
  const std::uint64_t age_ns = nanoseconds(now) - time_ns;  // a time in the future wraps to a huge age
  if (age_ns > static_cast<std::uint64_t>(lifetime.count())) {
    return false;
  }
  const auto good = make(secret_, time_ns, peer, connection);
  return good && Secret::equal(cookie, *good);
}

}  // namespace sluice::ftx
