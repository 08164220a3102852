// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stateless cookie: proves that whoever states an address receives there, without remembering anybody.
//
//   cookie = time (u64 nanoseconds) | XXH3-128(secret, address | connection | time)
//
// XXH3 is no cryptographic hash: this keeps spoofed addresses from costing memory or from reflecting traffic, it does
// not authenticate. The secure session replaces it by the TLS 1.3 handshake's own cookie.
//
// Not thread-safe.

#include <array>
#include <cstdint>

#include "apps/ftx/endpoint.h"
#include "apps/ftx/message.h"
#include "base/time.h"

namespace sluice::ftx {

class CookieJar {
 public:
  static constexpr Duration lifetime = std::chrono::seconds(30);

  explicit CookieJar(std::uint64_t seed);

  [[nodiscard]] Cookie bake(TimePoint now, const Peer& peer, std::uint64_t connection) const;
  /// True when bake() made it for this peer and connection, and not longer than `lifetime` ago.
  [[nodiscard]] bool accepts(TimePoint now, const Peer& peer, std::uint64_t connection, const Cookie& cookie) const;

 private:
  std::array<std::byte, 192> secret_{};  // XXH3_SECRET_DEFAULT_SIZE
};

}  // namespace sluice::ftx
