// SPDX-License-Identifier: Apache-2.0
#pragma once

// TCP segments: as they come, and made to be sent. Plain values and functions; thread-safe as such.

#include <compare>
#include <cstdint>

#include "stack/core/message.h"
#include "stack/wire/address.h"
#include "stack/wire/tcp.h"

namespace sluice::tcp {

/// The two ends of a connection.
struct Ends {
  wire::TransportAddress local;
  wire::TransportAddress remote;

  friend constexpr auto operator<=>(const Ends&, const Ends&) = default;
};

/// A segment as it came: its checksum holds.
struct Segment {
  wire::TcpHeader header;
  wire::TcpOptions options;
  Message data;           ///< behind the header; without blocks where there is none
  std::size_t count = 1;  ///< how many were on the wire, which the device has put together

  [[nodiscard]] std::uint64_t data_size() const { return data ? data.data_size() : 0; }
  /// RFC 9293 section 3.4: "SEG.LEN = the number of octets occupied by the data in the segment (counting SYN and FIN)".
  [[nodiscard]] std::uint64_t length() const {
    return data_size() + (header.has(wire::tcp_syn) ? 1U : 0U) + (header.has(wire::tcp_fin) ? 1U : 0U);
  }
};

/// M_DATA that begins with a header from `ends.local` to `ends.remote`, its options, and a checksum that is done, or
/// owed with the data's other manipulations; in front there is room for the headers below. Ports and header size are
/// filled in. Empty when the pool is exhausted.
[[nodiscard]] Message make_segment(BufferPool& pool, const Ends& ends, wire::TcpHeader header,
                                   const wire::TcpOptions& options, Message data);

/// Several segments of `segment_size` bytes of data, the last perhaps of fewer: a DataUnit in front, whose
/// `segment_size` and `checksum_offloaded` say so, and behind it what make_segment() would make of the whole, with the
/// sum of the pseudo-header in its checksum field (dlpi/super_frame.h). REQUIRES: more than `segment_size` bytes of
/// data.
[[nodiscard]] Message make_segments(BufferPool& pool, const Ends& ends, wire::TcpHeader header,
                                    const wire::TcpOptions& options, Message data, std::uint16_t segment_size);

/// What a segment that belongs to no connection is answered with; empty where it is a reset itself, or the pool is
/// exhausted. `ends` are ours.
[[nodiscard]] Message make_reset(BufferPool& pool, const Ends& ends, const Segment& segment);

}  // namespace sluice::tcp
