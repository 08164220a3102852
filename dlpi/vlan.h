// SPDX-License-Identifier: Apache-2.0
#pragma once

// VLAN tags (IEEE 802.1Q): four bytes in front of the EtherType, a type and the tag control information.

#include <cstdint>

namespace sluice::dlpi {

inline constexpr std::uint16_t ethertype_vlan = 0x8100;          // IEEE 802.1Q
inline constexpr std::uint16_t ethertype_service_vlan = 0x88a8;  // IEEE 802.1ad

[[nodiscard]] constexpr bool is_vlan_type(std::uint16_t type) {
  return type == ethertype_vlan || type == ethertype_service_vlan;
}

/// Whether a tag only has a priority: its VLAN identifier, the low 12 bits, is 0.
[[nodiscard]] constexpr bool is_null_vlan(std::uint16_t control) { return (control & 0xfffU) == 0; }

}  // namespace sluice::dlpi
