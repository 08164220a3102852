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

/// What the transport header of segment number `index` has of its own, but for the checksum: `offset` bytes of data
/// come before its `part` bytes. What the header of the whole says is told once: by the last segment that its data is
/// pushed and that there is no more, by the first one that the sender has reduced its window (CWR, RFC 3168).
void finish_transport_header(Bytes transport, const Headers& headers, std::size_t offset, std::size_t part, bool last) {
  if (!headers.is_tcp()) {
    store_big_endian(transport.data() + 4, static_cast<std::uint16_t>(wire::UdpHeader::size + part));
    return;
  }
  constexpr std::size_t sequence = 4;
  constexpr std::size_t flags = 13;
  const auto first = load_big_endian<std::uint32_t>(transport.data() + sequence);
  store_big_endian(transport.data() + sequence, first + static_cast<std::uint32_t>(offset));
  constexpr unsigned of_the_last = wire::tcp_fin | wire::tcp_psh;
  constexpr unsigned of_the_first = wire::tcp_cwr;
  const unsigned dropped = (last ? 0U : of_the_last) | (offset == 0 ? 0U : of_the_first);
  transport[flags] &= ~static_cast<std::byte>(dropped);
}

/// A part of the data of a super-frame, which becomes a segment.
struct Part {
  std::size_t index = 0;
  std::size_t offset = 0;  // of its first byte
  std::size_t size = 0;
  bool last = false;
};

/// Makes of the headers of the whole those of a part of it whose data sums up to `data_sum`.
void finish_headers(Bytes frame, const Headers& headers, const Part& part, std::uint16_t data_sum) {
  const Bytes packet = frame.subspan(ethernet_size);
  const Bytes transport = frame.subspan(headers.transport, headers.transport_size());
  const auto length = static_cast<std::uint16_t>(headers.transport_size() + part.size);
  if (headers.is_v4) {
    constexpr std::size_t identification = 4;
    const auto first = load_big_endian<std::uint16_t>(packet.data() + identification);
    store_big_endian(packet.data() + 2, static_cast<std::uint16_t>(wire::Ipv4Header::size + length));
    store_big_endian(packet.data() + identification, static_cast<std::uint16_t>(first + part.index));
    store_checksum(packet.data() + 10, 0);
    store_checksum(packet.data() + 10, checksum_of(header_sum(packet.first(wire::Ipv4Header::size))));
  } else {
    store_big_endian(packet.data() + 4, length);
  }
  finish_transport_header(transport, headers, part.offset, part.size, part.last);
  std::byte* const field = transport.data() + headers.checksum_offset();
  store_checksum(field, 0);
  const std::uint16_t pseudo = wire::pseudo_header_sum(headers.source, headers.destination, headers.protocol, length);
  const std::uint16_t sum = add_sums(add_sums(pseudo, header_sum(transport)), data_sum);
  store_checksum(field, headers.is_tcp() ? checksum_of(sum) : wire::udp_checksum_of(sum));
}

/// A super-frame on its way to becoming frames.
struct Split {
  Message frame;  // without the descriptor
  std::array<std::byte, header_bytes_max> bytes{};
  Headers headers;
  std::size_t segment_size = 0;
  std::size_t data_size = 0;

  [[nodiscard]] ConstBytes header() const { return ConstBytes(bytes).first(headers.size); }
  [[nodiscard]] std::size_t segments() const { return wire::network::segments_in(data_size, segment_size); }
  [[nodiscard]] Part part(std::size_t index) const {
    const std::size_t offset = index * segment_size;
    return {index, offset, std::min(segment_size, data_size - offset), index + 1 == segments()};
  }
};

/// The frames show their parts of the data; each sum that is not known is a pass of its own.
bool split_in_place(Split& split, Batch& out) {
  BufferPool& pool = split.frame.pool();
  Message rest = std::move(split.frame);
  rest.trim_data_front(split.headers.size);
  for (std::size_t index = 0; index < split.segments(); ++index) {
    const Part part = split.part(index);
    Message data = std::move(rest);
    if (!part.last) {
      rest = data.split(part.size);
    }
    Message frame = Message::of_size(pool, split.headers.size, 0, 0);
    if (!frame || (!part.last && !rest)) {
      return false;
    }
    std::ranges::copy(split.header(), frame.bytes().begin());
    finish_headers(frame.bytes(), split.headers, part, data.data_sum());
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
  const std::size_t spare = (cache_line_bytes - split.headers.size % cache_line_bytes) % cache_line_bytes;
  Batch frames;
  places[0] = Bytes(aside).first(split.headers.size);
  for (std::size_t index = 0; index < segments; ++index) {
    Message frame = Message::of_size(pool, split.headers.size + split.part(index).size, spare, 0);
    if (!frame) {
      return false;
    }
    places[1 + index] = frame.bytes().subspan(split.headers.size);
    std::ranges::copy(split.header(), frame.bytes().begin());
    frames.push(std::move(frame));
  }
  if (split.frame.land_summed(std::span(places).first(1 + segments), std::span(sums).first(1 + segments)) ==
      TransformResult::failed) {
    return false;
  }
  for (std::size_t index = 0; index < segments; ++index) {
    const Bytes place = places[1 + index];
    finish_headers({place.data() - split.headers.size, split.headers.size}, split.headers, split.part(index),
                   sums[1 + index]);
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
  const std::size_t size = header_bytes_in(frame);
  std::array<std::byte, header_bytes_max> bytes{};
  SLUICE_REQUIRE(size <= bytes.size() && frame.copy_data_to(0, Bytes(bytes).first(size)));
  const std::optional<Headers> headers = read_headers(bytes);
  SLUICE_REQUIRE(headers && headers->size == size);
  const std::uint8_t tcp = headers->is_v4 ? OffloadHeader::segment_tcp4 : OffloadHeader::segment_tcp6;
  return {.flags = OffloadHeader::needs_checksum,
          .segment_type = headers->is_tcp() ? tcp : OffloadHeader::segment_udp,
          .header_length = static_cast<std::uint16_t>(size),
          .segment_size = frame.native<DataUnit>()->segment_size,
          .checksum_start = static_cast<std::uint16_t>(headers->transport),
          .checksum_offset = static_cast<std::uint16_t>(headers->checksum_offset())};
}

bool split_super_frame(Message frame, Batch& out) {
  Split split;
  const std::size_t headers = header_bytes_in(frame);
  SLUICE_REQUIRE(headers <= split.bytes.size() && frame.data_size() > headers);
  split.segment_size = frame.native<DataUnit>()->segment_size;
  split.data_size = frame.data_size() - headers;
  static_cast<void>(frame.copy_data_to(0, Bytes(split.bytes).first(headers)));
  const std::optional<Headers> read = read_headers(split.bytes);
  SLUICE_REQUIRE(read && read->size == headers);
  split.headers = *read;
  frame.pop_block();
  split.frame = std::move(frame);
  // Parts of memory that its owner wants back cannot be shown by several.
  const bool moves = split.frame.fused() || std::as_const(split.frame).first().buffer->borrowed();
  if (moves && split.segments() <= super_frame_datagrams_max) {
    return split_in_pass(split, out);
  }
  return (!moves || split.frame.gather() != TransformResult::failed) && split_in_place(split, out);
}

}  // namespace sluice::dlpi
