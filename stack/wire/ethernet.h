// SPDX-License-Identifier: Apache-2.0
#pragma once

// The Ethernet (DIX) header: destination, source, EtherType. Drivers neither see nor send the frame check sequence.
// Multicast group addresses of IPv4 and IPv6 are mapped here too, since the mapping belongs to the link.

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/protocol.h"

namespace sluice::wire {

/// Below, the type field is an IEEE 802.3 length.
inline constexpr std::uint16_t ethertype_min = 0x600;

enum class EthernetMalformed : std::uint8_t {
  short_frame,   ///< under 14 bytes
  not_ethertype  ///< the type field is an IEEE 802.3 length: an LLC frame, which no SAP here receives
};

struct EthernetHeader {
  static constexpr std::size_t size = 14;

  MacAddress destination;
  MacAddress source;
  std::uint16_t type = 0;

  [[nodiscard]] static std::expected<EthernetHeader, EthernetMalformed> parse(ConstBytes frame) {
    if (frame.size() < size) {
      return std::unexpected(EthernetMalformed::short_frame);
    }
    const auto type = load_big_endian<std::uint16_t>(frame.data() + 12);
    if (type < ethertype_min) {
      return std::unexpected(EthernetMalformed::not_ethertype);
    }
    return EthernetHeader{MacAddress::load(frame.data()), MacAddress::load(frame.data() + 6), type};
  }
  /// Writes 14 bytes. REQUIRES: out holds them.
  void emit(Bytes out) const {
    SLUICE_REQUIRE(out.size() >= size);
    destination.store(out.data());
    source.store(out.data() + 6);
    store_big_endian(out.data() + 12, type);
  }

  friend constexpr auto operator<=>(const EthernetHeader&, const EthernetHeader&) = default;
};

/// The MAC group address of an IP multicast group. RFC 1112 section 6.4: "placing the low-order 23-bits of the IP
/// address into the low-order 23 bits of the Ethernet multicast address 01-00-5E-00-00-00 (hex)"; RFC 2464 section 7:
/// the address "whose first two octets are the value 3333 hexadecimal and whose last four octets are the last four
/// octets of DST".
/// REQUIRES: group.is_multicast().
[[nodiscard]] constexpr MacAddress multicast_mac(const IpAddress& group) {
  SLUICE_REQUIRE(group.is_multicast());
  if (group.is_v4()) {
    const auto octets = group.v4().octets;
    return {{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(octets[1] & 0x7fU), octets[2], octets[3]}};
  }
  const auto octets = group.v6().octets;
  return {{0x33, 0x33, octets[12], octets[13], octets[14], octets[15]}};
}

inline constexpr std::size_t ethernet_size = EthernetHeader::size;

}  // namespace sluice::wire
