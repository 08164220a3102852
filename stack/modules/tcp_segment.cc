// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/tcp_segment.h"

#include <utility>

#include "stack/wire/checksum.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/protocol.h"

namespace sluice::tcp {

using namespace wire;  // tcp_syn and the other flags

namespace {

/// Room in front of a segment's header, for the headers below.
constexpr std::size_t headroom_below = 128;

/// Header and options, with a checksum of nothing. Empty when the pool is exhausted.
Message make_header(BufferPool& pool, const Ends& ends, TcpHeader header, const TcpOptions& options) {
  const std::size_t header_size = TcpHeader::size_min + options.encoded_size();
  Message segment = Message::of_size(pool, header_size, headroom_below, 0);
  if (segment) {
    header.source_port = ends.local.port;
    header.destination_port = ends.remote.port;
    header.header_size = static_cast<std::uint8_t>(header_size);
    const Bytes bytes = segment.bytes();
    header.emit(bytes);
    static_cast<void>(options.encode(bytes.subspan(TcpHeader::size_min)));
  }
  return segment;
}

std::uint16_t pseudo_header_sum_of(const Ends& ends, std::size_t size) {
  return pseudo_header_sum(ends.local.address, ends.remote.address, protocol_tcp, static_cast<std::uint32_t>(size));
}

}  // namespace

Message make_segment(BufferPool& pool, const Ends& ends, TcpHeader header, const TcpOptions& options, Message data) {
  Message segment = make_header(pool, ends, header, options);
  if (!segment) {
    return {};
  }
  const Bytes bytes = segment.bytes();
  const std::size_t header_size = bytes.size();
  const std::uint16_t sum =
      add_sums(header_sum(bytes), pseudo_header_sum_of(ends, header_size + (data ? data.data_size() : 0)));
  std::byte* const field = bytes.data() + TcpHeader::checksum_offset;
  if (!data) {
    store_checksum(field, checksum_of(sum));
    return segment;
  }
  segment.link(std::move(data));
  const Sum owed{.initial = sum, .field = field, .zero_is_sent_as_ones = false, .from = header_size};
  return segment.transform(owed) == TransformResult::failed ? Message() : std::move(segment);
}

Message make_segments(BufferPool& pool, const Ends& ends, TcpHeader header, const TcpOptions& options, Message data,
                      std::uint16_t segment_size) {
  Message segments = Message::of_native(pool, DataUnit{.segment_size = segment_size, .checksum_offloaded = true});
  Message first = make_header(pool, ends, header, options);
  if (!segments || !first) {
    return {};
  }
  const Bytes bytes = first.bytes();
  store_checksum(bytes.data() + TcpHeader::checksum_offset,
                 pseudo_header_sum_of(ends, bytes.size() + data.data_size()));
  first.link(std::move(data));
  segments.link(std::move(first));
  return segments;
}

/// RFC 9293 section 3.5.2, group 1: "If the incoming segment has the ACK bit set, the reset takes its sequence number
/// from the ACK field of the segment; otherwise, the reset has sequence number zero and the ACK field is set to the sum
/// of the sequence number and segment length of the incoming segment."
Message make_reset(BufferPool& pool, const Ends& ends, const Segment& segment) {
  const TcpHeader& header = segment.header;
  if (header.has(tcp_rst)) {
    return {};
  }
  TcpHeader reset{.flags = tcp_rst};
  if (header.has(tcp_ack)) {
    reset.sequence = header.acknowledgment;
  } else {
    reset.flags |= tcp_ack;
    reset.acknowledgment = header.sequence + static_cast<std::uint32_t>(segment.length());
  }
  return make_segment(pool, ends, reset, {}, {});
}

}  // namespace sluice::tcp
