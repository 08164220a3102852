// SPDX-License-Identifier: Apache-2.0
#pragma once

// CookieJar: stateless cookies. A cookie proves that a peer receives at the address it sends from; the server keeps no
// state for it.
//
//   cookie = time (u64 nanoseconds) | the first 16 bytes of HMAC-SHA256(secret, time | connection | address)
//
// Threat: false addresses that cost memory, signatures or reflected traffic, by cookies made up from those that were
// seen. It does not say who the peer is.
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
