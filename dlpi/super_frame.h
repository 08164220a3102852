// SPDX-License-Identifier: Apache-2.0
#pragma once

// Super-frames: UDP datagrams or TCP segments of one size (the last may be shorter) behind one Ethernet, IP and
// transport header, as a device that segments takes them and as one that coalesces gives them.
//
//     [descriptor: protocol, segment size] ─► [ Ethernet IP UDP | data 1 | data 2 | ... | last ]
//
// The lengths in the headers are those of the whole, the checksum field holds the pseudo-header's sum (DataUnit,
// `checksum_offloaded`). A TCP header is the first segment's, with the FIN and PSH of the last. As a message a
// super-frame is told from a frame by the descriptor in front.
//
// Where nobody else does, it is split here: each datagram gets the header with its own lengths, identification (RFC
// 6864: as if they had been sent one by one), sequence number and checksum. On a fused path the data goes from where it
// lies, the user's memory as a rule, to the frames in the one pass that also sums it; on a layered one frames show
// their parts of it, and summing is a pass of its own.
//
// Threat: what a device says of a super-frame that it gives us is not believed before read_super_frame() has compared
// it with the headers. Sizes that lie would make us read behind the frame, a segment size of nothing would never end.
//
// Plain functions. Threads: as the messages' pool.

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "dlpi/offload.h"
#include "stack/core/message.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {

/// Datagrams in one super-frame: what Linux takes since 6.10 (UDP_MAX_SEGMENTS). We send no more than its older bound.
inline constexpr std::size_t super_frame_datagrams_max = 128;
/// Segments of TCP have no such bound; as many as the smallest fill a packet. (RFC 791: a link of 68 bytes; that
/// leaves 16 beside the longest headers of TCP.)
inline constexpr std::size_t super_frame_tcp_segments_max = 4096;
/// Segments of that protocol in one super-frame.
[[nodiscard]] constexpr std::size_t super_frame_segments_max(std::uint8_t protocol) {
  return protocol == wire::protocol_tcp ? super_frame_tcp_segments_max : super_frame_datagrams_max;
}
/// The IP packet in it, as its length field bounds it.
inline constexpr std::size_t super_frame_packet_max = 65535;

[[nodiscard]] inline bool is_super_frame(const Message& message) {
  const wire::DataUnit* const unitdata = message.native<wire::DataUnit>();
  return unitdata != nullptr && unitdata->segment_size != 0;
}

// REQUIRES for the following: is_super_frame().

/// Bytes of the headers that each of its frames has.
[[nodiscard]] std::size_t header_bytes_in(const Message& frame);
/// How many datagrams it stands for.
[[nodiscard]] std::size_t segments_in(const Message& frame);

/// Whether `request`, a packet without its Ethernet header yet, is a segmented one whose datagrams fit `mtu`.
[[nodiscard]] bool fits_in_segments(const Message& request, std::size_t mtu);

/// What is wrong with a frame that a device gave as a super-frame.
enum class SuperFrameError : std::uint8_t {
  unsupported,  ///< neither UDP nor TCP, or its checksum is not said to be right
  malformed,    ///< sizes and offsets contradict each other or the headers, or the IPv4 header's checksum is wrong
};

/// What the descriptor in front of such a frame is to say; kind is link_indication.
/// `frame` is its front, headers and all (header_bytes_max), `size` the bytes of all of it.
[[nodiscard]] std::expected<wire::DataUnit, SuperFrameError> read_super_frame(ConstBytes frame, std::size_t size,
                                                                              const OffloadHeader& offload);
[[nodiscard]] inline std::expected<wire::DataUnit, SuperFrameError> read_super_frame(ConstBytes frame,
                                                                                     const OffloadHeader& offload) {
  return read_super_frame(frame, frame.size(), offload);
}

/// The offload header with which a device takes it. REQUIRES: its headers are whole, as `ip` made them.
[[nodiscard]] OffloadHeader offload_of(const Message& frame);

/// Appends the frames that it stands for. False when the pool is exhausted: `out` then has some of them.
[[nodiscard]] bool split_super_frame(Message frame, Batch& out);

}  // namespace sluice::dlpi
