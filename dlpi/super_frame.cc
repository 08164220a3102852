// SPDX-License-Identifier: Apache-2.0
#include "dlpi/super_frame.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/contract.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/network.h"
#include "stack/wire/protocol.h"
#include "stack/wire/tcp.h"
#include "stack/wire/udp.h"

namespace sluice::dlpi {
namespace {

using wire::DataUnit;

using wire::ethernet_size;
constexpr std::size_t header_bytes_max = ethernet_size + wire::Ipv6Header::size + wire::TcpHeader::size_max;

/// Headers that can be given to segments: UDP or TCP over IPv4 or IPv6, without IPv4 options or extension headers.
struct Headers {
  bool is_v4 = false;
  std::uint8_t protocol = 0;
  std::size_t transport = 0;  // where its header begins
  std::size_t size = 0;       // of all three
  wire::IpAddress source;
  wire::IpAddress destination;
  std::size_t packet_size = 0;  // as the IP header has it

  [[nodiscard]] bool is_tcp() const { return protocol == wire::protocol_tcp; }
  [[nodiscard]] std::size_t transport_size() const { return size - transport; }
  [[nodiscard]] std::size_t checksum_offset() const {
    return is_tcp() ? wire::TcpHeader::checksum_offset : wire::UdpHeader::checksum_offset;
  }
};

/// Bytes of the transport header that follows those that `headers` tells of; 0: it is none that is known here.
std::size_t transport_header_size(ConstBytes frame, const Headers& headers) {
  if (headers.protocol == wire::protocol_udp) {
    return wire::UdpHeader::size;
  }
  const ConstBytes segment = frame.subspan(headers.transport);
  const auto tcp = wire::TcpHeader::parse(segment, segment.size());
  return headers.is_tcp() && tcp ? tcp->header_size : 0;
}

std::optional<Headers> read_headers(ConstBytes frame) {
  const auto ethernet = wire::EthernetHeader::parse(frame);
  if (!ethernet) {
    return std::nullopt;
  }
  const ConstBytes packet = frame.subspan(ethernet_size);
  Headers headers;
  if (ethernet->type == wire::ethertype_ipv4) {
    const auto ip = wire::Ipv4View::check_quoted(packet);
    if (!ip || ip->is_fragment() || ip->header_length() != wire::Ipv4Header::size) {
      return std::nullopt;
    }
    headers = {.is_v4 = true,
               .protocol = ip->protocol(),
               .transport = ethernet_size + wire::Ipv4Header::size,
               .source = ip->source(),
               .destination = ip->destination(),
               .packet_size = ip->total_length()};
  } else if (ethernet->type == wire::ethertype_ipv6) {
    const auto ip = wire::Ipv6View::check_quoted(packet);
    if (!ip) {
      return std::nullopt;
    }
    headers = {.is_v4 = false,
               .protocol = ip->next_header(),
               .transport = ethernet_size + wire::Ipv6Header::size,
               .source = ip->source(),
               .destination = ip->destination(),
               .packet_size = wire::Ipv6Header::size + ip->payload_length()};
  } else {
    return std::nullopt;
  }
  const std::size_t transport = transport_header_size(frame, headers);
  headers.size = headers.transport + transport;
  return transport == 0 || frame.size() < headers.size ? std::nullopt : std::optional(headers);
}

/// Those of a super-frame, whose bytes go to `bytes`.
Headers copy_headers(const Message& frame, std::array<std::byte, header_bytes_max>& bytes) {
  const std::size_t size = header_bytes_in(frame);
  SLUICE_REQUIRE(size <= bytes.size() && frame.copy_data_to(0, Bytes(bytes).first(size)));
  const std::optional<Headers> headers = read_headers(bytes);
  SLUICE_REQUIRE(headers && headers->size == size);
  return *headers;
}

/// A part of the data of a super-frame, which becomes a segment.
struct Part {
  std::size_t index = 0;
  std::size_t offset = 0;  // of its first byte
  std::size_t size = 0;
  bool last = false;
};

/// The headers of a super-frame as those of its segments. What all have in common is summed once; each adds what it has
/// of its own.
class SegmentHeaders {
 public:
  /// `whole` is what `headers` tells of.
  SegmentHeaders(const Headers& headers, ConstBytes whole);

  [[nodiscard]] std::size_t size() const { return headers_.size; }
  /// Writes size() bytes to `out`: the headers of the part whose data sums up to `data_sum`.
  void write(std::byte* out, const Part& part, std::uint16_t data_sum) const;

 private:
  static constexpr std::size_t v4_length = ethernet_size + wire::Ipv4View::total_length_offset;
  static constexpr std::size_t v4_identification = ethernet_size + wire::Ipv4View::identification_offset;
  static constexpr std::size_t v4_checksum = ethernet_size + wire::Ipv4View::checksum_offset;
  static constexpr std::size_t v6_length = ethernet_size + wire::Ipv6View::payload_length_offset;
  // In the transport header.
  static constexpr std::size_t udp_length = wire::UdpHeader::length_offset;
  static constexpr std::size_t tcp_sequence = wire::TcpHeader::sequence_offset;
  static constexpr std::size_t tcp_flags = wire::TcpHeader::header_size_offset;  // with the data offset

  /// The number there, and zero in its place.
  template <class Number>
  Number take(std::size_t at) {
    const auto number = load_big_endian<Number>(bytes_.data() + at);
    store_big_endian(bytes_.data() + at, Number{0});
    return number;
  }
  /// Each writes fields of a segment's own and returns their sum.
  static std::uint64_t write_number(std::byte* out, std::uint16_t number) {
    store_big_endian(out, number);
    return number_sum(number);
  }
  [[nodiscard]] std::uint64_t write_tcp(std::byte* transport, const Part& part) const;

  Headers headers_;
  std::array<std::byte, header_bytes_max> bytes_{};  // with zeros for what a segment has of its own
  std::uint16_t identification_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint16_t flags_ = 0;
  std::uint16_t v4_sum_ = 0;
  std::uint16_t transport_sum_ = 0;  // and that of the pseudo-header, without lengths
};

SegmentHeaders::SegmentHeaders(const Headers& headers, ConstBytes whole) : headers_(headers) {
  std::ranges::copy(whole.first(headers.size), bytes_.begin());
  const ConstBytes all(bytes_);
  if (headers.is_v4) {
    static_cast<void>(take<std::uint16_t>(v4_length));
    static_cast<void>(take<std::uint16_t>(v4_checksum));
    identification_ = take<std::uint16_t>(v4_identification);
    v4_sum_ = header_sum(all.subspan(ethernet_size, wire::Ipv4Header::size));
  } else {
    static_cast<void>(take<std::uint16_t>(v6_length));
  }
  if (headers.is_tcp()) {
    sequence_ = take<std::uint32_t>(headers.transport + tcp_sequence);
    flags_ = take<std::uint16_t>(headers.transport + tcp_flags);
  } else {
    static_cast<void>(take<std::uint16_t>(headers.transport + udp_length));
  }
  static_cast<void>(take<std::uint16_t>(headers.transport + headers.checksum_offset()));
  transport_sum_ = add_sums(wire::pseudo_header_sum(headers.source, headers.destination, headers.protocol, 0),
                            header_sum(all.subspan(headers.transport, headers.transport_size())));
}

void SegmentHeaders::write(std::byte* out, const Part& part, std::uint16_t data_sum) const {
  std::memcpy(out, bytes_.data(), size());
  const auto length = static_cast<std::uint16_t>(headers_.transport_size() + part.size);
  if (headers_.is_v4) {
    const std::uint64_t own =
        write_number(out + v4_length, static_cast<std::uint16_t>(wire::Ipv4Header::size + length)) +
        write_number(out + v4_identification, static_cast<std::uint16_t>(identification_ + part.index));
    store_checksum(out + v4_checksum, checksum_of(fold_sum(v4_sum_ + own)));
  } else {
    store_big_endian(out + v6_length, length);
  }
  std::byte* const transport = out + headers_.transport;
  const std::uint64_t own =
      headers_.is_tcp() ? write_tcp(transport, part) : write_number(transport + udp_length, length);
  const std::uint16_t sum = fold_sum(std::uint64_t{transport_sum_} + number_sum(length) + own + data_sum);
  store_checksum(transport + headers_.checksum_offset(),
                 headers_.is_tcp() ? checksum_of(sum) : wire::udp_checksum_of(sum));
}

/// What the header of the whole says is told once: by the last segment that its data is pushed and that there is no
/// more, by the first one that the sender has reduced its window (CWR, RFC 3168).
std::uint64_t SegmentHeaders::write_tcp(std::byte* transport, const Part& part) const {
  constexpr unsigned of_the_last = wire::tcp_fin | wire::tcp_psh;
  constexpr unsigned of_the_first = wire::tcp_cwr;
  const unsigned dropped = (part.last ? 0U : of_the_last) | (part.offset == 0 ? 0U : of_the_first);
  const std::uint32_t sequence = sequence_ + static_cast<std::uint32_t>(part.offset);
  return write_number(transport + tcp_sequence, static_cast<std::uint16_t>(sequence >> 16)) +
         write_number(transport + tcp_sequence + 2, static_cast<std::uint16_t>(sequence)) +
         write_number(transport + tcp_flags, static_cast<std::uint16_t>(flags_ & ~dropped));
}

/// A super-frame on its way to becoming frames.
struct Split {
  Message frame;  // without the descriptor
  SegmentHeaders headers;
  std::size_t segment_size = 0;
  std::size_t data_size = 0;

  [[nodiscard]] std::size_t segments() const { return wire::network::segments_in(data_size, segment_size); }
  [[nodiscard]] Part part(std::size_t index) const {
    const std::size_t offset = index * segment_size;
    return {index, offset, std::min(segment_size, data_size - offset), offset + segment_size >= data_size};
  }
};

/// The frames show their parts of the data; each sum that is not known is a pass of its own.
bool split_in_place(Split& split, Batch& out) {
  BufferPool& pool = split.frame.pool();
  Message rest = std::move(split.frame);
  rest.trim_data_front(split.headers.size());
  for (std::size_t index = 0; index < split.segments(); ++index) {
    const Part part = split.part(index);
    Message data = std::move(rest);
    if (!part.last) {
      rest = data.split(part.size);
    }
    Message frame = Message::of_size(pool, split.headers.size(), 0, 0);
    if (!frame || (!part.last && !rest)) {
      return false;
    }
    split.headers.write(frame.bytes().data(), part, data.data_sum());
    frame.link(std::move(data));
    out.push(std::move(frame));
  }
  return true;
}

/// The one pass: from where the data lies to the frames, with their sums.
bool split_in_pass(Split& split, Batch& out) {
  std::array<Bytes, 1 + super_frame_datagrams_max> places;
  std::array<std::uint16_t, 1 + super_frame_datagrams_max> sums;
  std::array<std::byte, header_bytes_max> aside;
  const std::size_t segments = split.segments();
  BufferPool& pool = split.frame.pool();
  // The data starts on a cache line.
  const std::size_t headers = split.headers.size();
  const std::size_t spare = (cache_line_bytes - headers % cache_line_bytes) % cache_line_bytes;
  Batch frames;
  places[0] = Bytes(aside).first(headers);
  for (std::size_t index = 0; index < segments; ++index) {
    Message frame = Message::of_size(pool, headers + split.part(index).size, spare, 0);
    if (!frame) {
      return false;
    }
    places[1 + index] = frame.bytes().subspan(headers);
    frames.push(std::move(frame));
  }
  if (split.frame.land_summed(std::span(places).first(1 + segments), std::span(sums).first(1 + segments)) ==
      TransformResult::failed) {
    return false;
  }
  for (std::size_t index = 0; index < segments; ++index) {
    split.headers.write(places[1 + index].data() - headers, split.part(index), sums[1 + index]);
  }
  out.splice(std::move(frames));
  return true;
}

}  // namespace

std::size_t header_bytes_in(const Message& frame) { return ethernet_size + frame.native<DataUnit>()->header_size; }

std::size_t segments_in(const Message& frame) {
  return frame.native<DataUnit>()->segments_in(frame.data_size() - header_bytes_in(frame));
}

bool fits_in_segments(const Message& request, std::size_t mtu) {
  if (!is_super_frame(request)) {
    return false;
  }
  const DataUnit& unitdata = *request.native<DataUnit>();
  const std::size_t size = request.data_size();
  return unitdata.header_size >= wire::Ipv4Header::size + wire::UdpHeader::size && size > unitdata.header_size &&
         size <= super_frame_packet_max && std::size_t{unitdata.header_size} + unitdata.segment_size <= mtu &&
         unitdata.segments_in(size - unitdata.header_size) <= super_frame_segments_max(unitdata.protocol);
}

namespace {

/// The protocol of the segments that `type` stands for; nothing: it is not known, or not of this version of IP.
std::optional<std::uint8_t> protocol_of(std::uint8_t type, bool is_v4) {
  switch (type & ~unsigned{OffloadHeader::segment_ecn_flag}) {
    case OffloadHeader::segment_udp:
      return wire::protocol_udp;
    case OffloadHeader::segment_tcp4:
      return is_v4 ? std::optional(wire::protocol_tcp) : std::nullopt;
    case OffloadHeader::segment_tcp6:
      return is_v4 ? std::nullopt : std::optional(wire::protocol_tcp);
    default:
      return std::nullopt;
  }
}

/// What the transport's header says of its size and of what the segment does. No sender puts a SYN or a reset in front
/// of several segments.
bool is_transport_sound(ConstBytes frame, const Headers& headers, std::size_t data) {
  const ConstBytes transport = frame.subspan(headers.transport);
  if (!headers.is_tcp()) {
    return load_big_endian<std::uint16_t>(transport.data() + 4) == wire::UdpHeader::size + data;
  }
  const auto tcp = wire::TcpHeader::parse(transport, transport.size());
  return tcp && !tcp->has(wire::tcp_syn | wire::tcp_rst);
}

}  // namespace

std::expected<DataUnit, SuperFrameError> read_super_frame(ConstBytes frame, std::size_t size,
                                                          const OffloadHeader& offload) {
  constexpr unsigned checksum_known = OffloadHeader::needs_checksum | OffloadHeader::data_valid;
  if ((!protocol_of(offload.segment_type, true) && !protocol_of(offload.segment_type, false)) ||
      (offload.flags & checksum_known) == 0) {
    return std::unexpected(SuperFrameError::unsupported);
  }
  const std::optional<Headers> headers = read_headers(frame);
  if (!headers || headers->packet_size != size - ethernet_size ||
      protocol_of(offload.segment_type, headers->is_v4) != headers->protocol) {
    return std::unexpected(SuperFrameError::malformed);
  }
  // Whoever splits it makes the headers anew, which must not mend one that was damaged.
  if (headers->is_v4 && checksum_of(header_sum(frame.subspan(ethernet_size, wire::Ipv4Header::size))) != 0) {
    return std::unexpected(SuperFrameError::malformed);
  }
  const std::size_t data = size - std::min(size, headers->size);
  const bool partial = (offload.flags & OffloadHeader::needs_checksum) != 0;
  if (!is_transport_sound(frame, *headers, data) || data == 0 || offload.segment_size == 0 ||
      wire::network::segments_in(data, offload.segment_size) > super_frame_segments_max(headers->protocol) ||
      (partial &&
       (offload.checksum_start != headers->transport || offload.checksum_offset != headers->checksum_offset()))) {
    return std::unexpected(SuperFrameError::malformed);
  }
  return DataUnit{.kind = DataUnit::Kind::link_indication,
                  .protocol = headers->protocol,
                  .header_size = static_cast<std::uint16_t>(headers->size - ethernet_size),
                  .segment_size = offload.segment_size,
                  .checksum_offloaded = true};
}

OffloadHeader offload_of(const Message& frame) {
  std::array<std::byte, header_bytes_max> bytes{};
  const Headers headers = copy_headers(frame, bytes);
  const std::uint8_t tcp = headers.is_v4 ? OffloadHeader::segment_tcp4 : OffloadHeader::segment_tcp6;
  return {.flags = OffloadHeader::needs_checksum,
          .segment_type = headers.is_tcp() ? tcp : OffloadHeader::segment_udp,
          .header_length = static_cast<std::uint16_t>(headers.size),
          .segment_size = frame.native<DataUnit>()->segment_size,
          .checksum_start = static_cast<std::uint16_t>(headers.transport),
          .checksum_offset = static_cast<std::uint16_t>(headers.checksum_offset())};
}

bool split_super_frame(Message frame, Batch& out) {
  std::array<std::byte, header_bytes_max> bytes{};
  const Headers headers = copy_headers(frame, bytes);
  SLUICE_REQUIRE(frame.data_size() > headers.size);
  const std::size_t segment_size = frame.native<DataUnit>()->segment_size;
  const std::size_t data_size = frame.data_size() - headers.size;
  frame.pop_block();
  Split split{std::move(frame), SegmentHeaders(headers, bytes), segment_size, data_size};
  // Parts of memory that its owner wants back cannot be shown by several.
  const bool moves = split.frame.fused() || std::as_const(split.frame).first().buffer->borrowed();
  if (moves && split.segments() <= super_frame_datagrams_max) {
    return split_in_pass(split, out);
  }
  return (!moves || split.frame.gather() != TransformResult::failed) && split_in_place(split, out);
}

}  // namespace sluice::dlpi
