// SPDX-License-Identifier: Apache-2.0
#pragma once

// CookieJar: stateless cookies. A cookie proves that a peer receives at the address it sends from; the server keeps no
// state for it.
//
//   cookie = time (u64 nanoseconds) | XXH3-128(secret, address | connection | time)
//
// XXH3 is not a cryptographic hash. The cookie keeps spoofed addresses from costing memory and from reflecting traffic;
// it does not authenticate.
//
// Not thread-safe.

#include <array>
#include <cstdint>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/session/endpoint.h"
#include "base/time.h"

namespace sluice::ftx {

class CookieJar {
 public:
  static constexpr Duration lifetime = std::chrono::seconds(30);

  explicit CookieJar(std::uint64_t seed);

  [[nodiscard]] Cookie issue(TimePoint now, const Peer& peer, std::uint64_t connection) const;
  /// True when issue() made `cookie` for this peer and connection within the last `lifetime`.
  [[nodiscard]] bool accepts(TimePoint now, const Peer& peer, std::uint64_t connection, const Cookie& cookie) const;

 private:
  std::array<std::byte, 192> secret_{};  // XXH3_SECRET_DEFAULT_SIZE
};

}  // namespace sluice::ftx
