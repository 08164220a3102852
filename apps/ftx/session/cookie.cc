// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/cookie.h"

#include <xxhash.h>

#include "apps/ftx/protocol/cursor.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

std::uint64_t nanoseconds(TimePoint time) { return static_cast<std::uint64_t>(time.time_since_epoch().count()); }

Cookie make(ConstBytes secret, std::uint64_t time_ns, const Peer& peer, std::uint64_t connection) {
  std::array<std::byte, Peer::address_bytes_max + 16> input{};
  Writer message(input);
  message.number(time_ns).number(connection).bytes(peer.address());
  const XXH128_hash_t hash = XXH3_128bits_withSecret(input.data(), message.size(), secret.data(), secret.size());
  Cookie cookie;
  Writer(cookie).number(time_ns).number(std::uint64_t{hash.high64}).number(std::uint64_t{hash.low64});
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
  return make(secret_, nanoseconds(now), peer, connection);
}

bool CookieJar::accepts(TimePoint now, const Peer& peer, std::uint64_t connection, const Cookie& cookie) const {
  const auto time_ns = load_big_endian<std::uint64_t>(cookie.data());
  const std::uint64_t age_ns = nanoseconds(now) - time_ns;  // a time in the future wraps to a huge age
  return age_ns <= static_cast<std::uint64_t>(lifetime.count()) && cookie == make(secret_, time_ns, peer, connection);
}

}  // namespace sluice::ftx
