// SPDX-License-Identifier: Apache-2.0
#pragma once

// Peer and Outgoing: the interface between a session and its transport. The transport is any connectionless endpoint
// (TPI T_CLTS): it carries datagrams of up to its TSDU size to and from opaque addresses. The program drives a session
// like this:
//
//   a datagram arrived   session.receive(now, datagram, from)
//   it can send          session.transmit(now, out) until it answers 0   (or next(), which gathers instead of copying)
//   otherwise            sleep until session.next_deadline() at the latest, then transmit again
//
// A session calls no transport, reads no clock and keeps no datagram.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/contract.h"

namespace sluice::ftx {

/// A transport address in the transport's own encoding; sessions only compare and hash it.
class Peer {
 public:
  static constexpr std::size_t address_bytes_max = 32;

  Peer() = default;
  /// REQUIRES: address.size() <= address_bytes_max.
  explicit Peer(ConstBytes address) : size_(static_cast<std::uint8_t>(address.size())) {
    SLUICE_REQUIRE(address.size() <= address_bytes_max);
    std::copy(address.begin(), address.end(), bytes_.begin());
  }

  [[nodiscard]] ConstBytes address() const { return ConstBytes(bytes_).first(size_); }
  bool operator==(const Peer&) const = default;

 private:
  std::array<std::byte, address_bytes_max> bytes_{};
  std::uint8_t size_ = 0;
};

/// A datagram in two parts: the first `header_bytes` of the caller's buffer, then `payload`, which is valid until the
/// next call of the session.
struct Outgoing {
  std::size_t header_bytes = 0;
  ConstBytes payload;
  [[nodiscard]] std::size_t size() const { return header_bytes + payload.size(); }
};

}  // namespace sluice::ftx
