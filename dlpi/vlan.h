// SPDX-License-Identifier: Apache-2.0
#pragma once

// VLAN tags (IEEE 802.1Q): four bytes in front of the EtherType, a type and the tag control information.

#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {

inline constexpr std::uint16_t ethertype_vlan = 0x8100;          // IEEE 802.1Q
inline constexpr std::uint16_t ethertype_service_vlan = 0x88a8;  // IEEE 802.1ad

[[nodiscard]] constexpr bool is_vlan_type(std::uint16_t type) {
  return type == ethertype_vlan || type == ethertype_service_vlan;
}

/// Whether a frame that begins with `head` has a tag; no where that is less than an Ethernet header.
[[nodiscard]] inline bool has_tag(ConstBytes head) {
  constexpr std::size_t type_at = wire::EthernetHeader::size - 2;
  return head.size() >= wire::EthernetHeader::size &&
         is_vlan_type(load_big_endian<std::uint16_t>(head.data() + type_at));
}

/// Whether a tag only has a priority: its VLAN identifier, the low 12 bits, is 0.
[[nodiscard]] constexpr bool is_null_vlan(std::uint16_t control) { return (control & 0xfffU) == 0; }

}  // namespace sluice::dlpi
