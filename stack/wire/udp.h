// SPDX-License-Identifier: Apache-2.0
#pragma once

// The UDP header (RFC 768; RFC 8200 section 8.1 for IPv6).
//
// The checksum is kept as it lies in memory (see base/internet_checksum.h), because it covers the payload, which is
// summed elsewhere:
//   sending    sum = udp_sum(source, destination, header), add the payload's sum, field = udp_checksum_of(total)
//   receiving  sum = udp_sum(source, destination, header), add the payload's sum, accept if sum_holds(total)
// where the header passed to udp_sum holds checksum 0 when sending and the received one when receiving.

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/checksum.h"
#include "stack/wire/protocol.h"

namespace sluice::wire {

enum class UdpMalformed : std::uint8_t {
  short_header,  ///< under 8 bytes
  bad_length     ///< the length field is under 8 or more than the datagram has
};

struct UdpHeader {
  static constexpr std::size_t size = 8;
  static constexpr std::size_t length_offset = 4;
  static constexpr std::size_t checksum_offset = 6;
  static constexpr std::size_t payload_length_max = 65535 - size;

  std::uint16_t source_port = 0;  ///< 0: "if not used, a value of zero is inserted"
  std::uint16_t destination_port = 0;
  std::uint16_t payload_length = 0;  ///< at most payload_length_max; the field on the wire is 8 more
  std::uint16_t checksum = 0;        ///< as it lies in memory; 0: "the transmitter generated no checksum"

  /// `datagram_size` is the size of the whole datagram, where it continues in other blocks. Bytes after the UDP length
  /// are passed over.
  [[nodiscard]] static std::expected<UdpHeader, UdpMalformed> parse(ConstBytes bytes, std::size_t datagram_size) {
    if (bytes.size() < size) {
      return std::unexpected(UdpMalformed::short_header);
    }
    const auto length = load_big_endian<std::uint16_t>(bytes.data() + length_offset);
    if (length < size || length > datagram_size) {
      return std::unexpected(UdpMalformed::bad_length);
    }
    return UdpHeader{load_big_endian<std::uint16_t>(bytes.data()), load_big_endian<std::uint16_t>(bytes.data() + 2),
                     static_cast<std::uint16_t>(length - size), load_checksum(bytes.data() + checksum_offset)};
  }
  [[nodiscard]] static std::expected<UdpHeader, UdpMalformed> parse(ConstBytes datagram) {
    return parse(datagram, datagram.size());
  }
  /// Writes 8 bytes. REQUIRES: out holds them, payload_length <= payload_length_max.
  void emit(Bytes out) const {
    SLUICE_REQUIRE(out.size() >= size && payload_length <= payload_length_max);
    store_big_endian(out.data(), source_port);
    store_big_endian(out.data() + 2, destination_port);
    store_big_endian(out.data() + length_offset, static_cast<std::uint16_t>(payload_length + size));
    store_checksum(out.data() + checksum_offset, checksum);
  }

  /// Its four 16-bit words added up, for fold_sum().
  [[nodiscard]] constexpr std::uint64_t added() const {
    return std::uint64_t{number_sum(source_port)} + number_sum(destination_port) +
           number_sum(static_cast<std::uint16_t>(payload_length + size)) + checksum;
  }

  friend constexpr auto operator<=>(const UdpHeader&, const UdpHeader&) = default;
};

/// The sum of pseudo-header and header, checksum field included. Both start at even offsets, so add_sums joins the
/// payload's sum to it as it is. REQUIRES: addresses of one family.
[[nodiscard]] inline std::uint16_t udp_sum(const IpAddress& source, const IpAddress& destination,
                                           const UdpHeader& header) {
  const auto length = static_cast<std::uint16_t>(header.payload_length + UdpHeader::size);
  return fold_sum(header.added() + pseudo_header_sum(source, destination, protocol_udp, length));
}

/// The checksum field for a total sum. RFC 768: "If the computed checksum is zero, it is transmitted as all ones (the
/// equivalent in one's complement arithmetic)."
[[nodiscard]] constexpr std::uint16_t udp_checksum_of(std::uint16_t sum) {
  return checksum_of(sum, /*zero_is_sent_as_ones=*/true);
}

}  // namespace sluice::wire
