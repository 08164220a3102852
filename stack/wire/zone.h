// SPDX-License-Identifier: Apache-2.0
#pragma once

// Zones of link-local IPv6 addresses (RFC 4007): the interface on whose link such an address is. Inside a program its
// bits 16 to 31 hold the zone, as in the KAME kernels, so that it is one value wherever addresses go. RFC 4291 section
// 2.5.6 has them among the 54 bits that are 0 ("|1111111010|           0             |       interface ID         |").
// With a zone in it an address never leaves the program: who gives addresses to the kernel or gets them from it
// translates (tpi/udp_socket.cc).

#include <cstdint>

#include "stack/wire/address.h"

namespace sluice::wire {

/// The zone of a link-local address, an interface's index; 0: none.
[[nodiscard]] constexpr std::uint32_t zone_of(const Ipv6Address& address) {
  return address.is_link_local() ? address.group(1) : std::uint32_t{0};
}

/// The address with this zone; as it is where it is not link-local, or 16 bits do not hold the zone.
[[nodiscard]] constexpr Ipv6Address with_zone(Ipv6Address address, std::uint32_t zone) {
  if (address.is_link_local() && zone <= 0xffff) {
    address.octets[2] = static_cast<std::uint8_t>(zone >> 8);
    address.octets[3] = static_cast<std::uint8_t>(zone & 0xff);
  }
  return address;
}

}  // namespace sluice::wire
