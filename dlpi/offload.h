// SPDX-License-Identifier: Apache-2.0
#pragma once

// Work that a local sender left to network hardware. Between two ends of a veth pair there is no hardware, so the
// frames arrive with the work undone, and virtio_net_hdr says what is missing (virtio 1.2, section 5.1.6).

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace sluice::dlpi {

/// struct virtio_net_hdr, in the machine's byte order, as PACKET_VNET_HDR gives it.
struct OffloadHeader {
  static constexpr std::uint8_t needs_checksum = 1;       // VIRTIO_NET_HDR_F_NEEDS_CSUM
  static constexpr std::uint8_t data_valid = 2;           // VIRTIO_NET_HDR_F_DATA_VALID
  static constexpr std::uint8_t segment_none = 0;         // VIRTIO_NET_HDR_GSO_NONE
  static constexpr std::uint8_t segment_tcp4 = 1;         // VIRTIO_NET_HDR_GSO_TCPV4
  static constexpr std::uint8_t segment_tcp6 = 4;         // VIRTIO_NET_HDR_GSO_TCPV6
  static constexpr std::uint8_t segment_udp = 5;          // VIRTIO_NET_HDR_GSO_UDP_L4
  static constexpr std::uint8_t segment_ecn_flag = 0x80;  // VIRTIO_NET_HDR_GSO_ECN

  std::uint8_t flags = 0;
  std::uint8_t segment_type = 0;
  std::uint16_t header_length = 0;
  std::uint16_t segment_size = 0;     // data bytes in each segment but the last
  std::uint16_t checksum_start = 0;   // from the start of the frame
  std::uint16_t checksum_offset = 0;  // from there

  [[nodiscard]] bool is_super_frame() const { return segment_type != segment_none; }
};
static_assert(sizeof(OffloadHeader) == 10);

/// Completes the checksum of a frame: "the checksum field [...] is set to the sum of the pseudo header", and what is
/// stored covers everything from checksum_start on. False when the fields do not lie in the frame.
[[nodiscard]] bool complete_checksum(Bytes frame, const OffloadHeader& offload);

}  // namespace sluice::dlpi
