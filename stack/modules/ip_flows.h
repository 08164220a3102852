// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this host sent lately, by flow. An ICMP error is believed only when it quotes a datagram of such a flow.
//
// The threat: anybody who can reach us can send an ICMP error, and need not see our traffic to do so. Believed, it ends
// a program's exchange ("connection refused"), or makes a path look narrow: RFC 8201 section 9 names both. So he has to
// guess both addresses and both ports. RFC 8201 section 4: "Nodes should appropriately validate the payload of ICMPv6
// PTB messages to ensure these are received in response to transmitted traffic (i.e., a reported error condition that
// corresponds to an IPv6 packet actually sent by the application)". RFC 8085 section 5.2 asks the same of UDP, RFC 5927
// of TCP.
//
// Only what the user above sent is a flow. Our own answers (echo replies, errors) are not: he who forges the question
// would know the answer, and could quote it.
//
// Bounded: flows_max, in sets of four; a new flow takes the place of the oldest of its set. Then errors about that one
// are ignored, until the user sends to it after another one: an error is only ever a hint. Nothing is noted for each
// datagram, only when it is of another flow than the last (Ip::send_like_the_last).
//
// A plain value without allocation. Threads: the module's.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::ip {

struct Flow {
  wire::IpAddress source;  ///< an address of ours
  wire::IpAddress destination;
  std::uint8_t protocol = 0;
  std::uint32_t ports = 0;     ///< both, as they lie in the transport header; 0 where the protocol has none
  bool dont_fragment = false;  ///< of the datagram that was noted last; no part of what tells flows apart

  [[nodiscard]] bool same(const Flow& other) const {
    return ports == other.ports && protocol == other.protocol && destination == other.destination &&
           source == other.source;
  }
};

/// Bytes at the start of a transport header that hold the ports.
inline constexpr std::size_t ports_size = 4;

/// Flow::ports of a datagram of `protocol` whose transport header starts with `word`, as it lies in memory.
[[nodiscard]] std::uint32_t ports_of(std::uint8_t protocol, std::uint32_t word);

class SentFlows {
 public:
  static constexpr std::size_t flows_max = 256;

  void note(const Flow& flow);
  /// The flow, if it was noted and not displaced; valid until the next note() or clear().
  [[nodiscard]] const Flow* find(const Flow& flow) const;
  void clear() { sets_ = {}; }

 private:
  static constexpr std::size_t ways = 4;
  struct Set {
    std::array<Flow, ways> flows{};
    std::uint8_t used = 0;  // how many are in use
    std::uint8_t next = 0;  // the oldest
  };
  [[nodiscard]] static std::size_t set_of(const Flow& flow);

  std::array<Set, flows_max / ways> sets_{};
};

}  // namespace sluice::ip
