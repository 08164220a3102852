// SPDX-License-Identifier: Apache-2.0
#pragma once

// Assigned numbers that several headers share: EtherTypes and IP protocol numbers (IANA).

#include <cstdint>

namespace sluice::wire {

inline constexpr std::uint16_t ethertype_ipv4 = 0x0800;
inline constexpr std::uint16_t ethertype_arp = 0x0806;
inline constexpr std::uint16_t ethertype_ipv6 = 0x86dd;

inline constexpr std::uint8_t protocol_hop_by_hop = 0;
inline constexpr std::uint8_t protocol_icmp4 = 1;
inline constexpr std::uint8_t protocol_tcp = 6;
inline constexpr std::uint8_t protocol_udp = 17;
inline constexpr std::uint8_t protocol_ipv6_route = 43;
inline constexpr std::uint8_t protocol_ipv6_fragment = 44;
inline constexpr std::uint8_t protocol_icmp6 = 58;
inline constexpr std::uint8_t protocol_ipv6_no_next = 59;
inline constexpr std::uint8_t protocol_ipv6_destination = 60;

}  // namespace sluice::wire
