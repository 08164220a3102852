// SPDX-License-Identifier: Apache-2.0
#pragma once

// The BPF program of a packet socket: what comes of each frame that the interface receives. In this order:
//
//     shorter than an Ethernet header                                     nothing
//     to one station, which is not ours                                   its Ethernet header, to be counted
//     of an EtherType that no stream has bound                            likewise
//     an IP packet to one host, which is none of ours, where the
//     interface's own stack has our station's address, too                nothing: it is that stack's
//     any other                                                           all of it
//
// So a host that has much traffic of its own takes no room from ours in the ring. IP packets to groups come whatever
// the station: bridges and access points may send them to each member. One that is too short to hold its destination
// comes, and is counted by who finds it malformed.
//
// Threat: every frame on the interface runs through the program. The kernel verifies it, it has no loop, and its length
// is bounded (types_max, hosts_max).

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/wire/address.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {

struct PacketFilterRules {
  static constexpr std::size_t types_max = 250;  // a jump reaches 255 instructions; with more, all types are bound
  static constexpr std::size_t hosts_max = 64;   // with more, all hosts are ours

  std::optional<wire::MacAddress> station;            // absent: every station is ours
  std::optional<std::vector<std::uint16_t>> types;    // absent: every type is bound
  std::optional<std::vector<wire::IpAddress>> hosts;  // absent: every host is ours
};

/// What comes of a frame that no stream wants.
inline constexpr std::size_t unwanted_bytes = wire::EthernetHeader::size;

[[nodiscard]] std::vector<sock_filter> packet_filter(const PacketFilterRules& rules);

}  // namespace sluice::dlpi
