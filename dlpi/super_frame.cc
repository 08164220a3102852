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
#include "stack/wire/udp.h"

namespace sluice::dlpi {
namespace {

using wire::DataUnit;

using wire::ethernet_size;
constexpr std::size_t header_bytes_max = ethernet_size + wire::Ipv6Header::size + wire::UdpHeader::size;

/// Headers that can be given to segments: UDP over IPv4 or IPv6, without options or extension headers.
struct Headers {
  bool is_v4 = false;
  std::size_t size = 0;  // of all three
  wire::IpAddress source;
  wire::IpAddress destination;
  std::size_t packet_size = 0;  // as the IP header has it

  [[nodiscard]] std::size_t udp() const { return size - wire::UdpHeader::size; }
};

std::optional<Headers> read_headers(ConstBytes frame) {
  const auto ethernet = wire::EthernetHeader::parse(frame);
  if (!ethernet) {
    return std::nullopt;
  }
  const ConstBytes packet = frame.subspan(ethernet_size);
  Headers headers;
  if (ethernet->type == wire::ethertype_ipv4) {
    const auto ip = wire::Ipv4View::check_quoted(packet);
    if (!ip || ip->protocol() != wire::protocol_udp || ip->is_fragment() ||
        ip->header_length() != wire::Ipv4Header::size) {
      return std::nullopt;
    }
    headers = {true, ethernet_size + wire::Ipv4Header::size, ip->source(), ip->destination(), ip->total_length()};
  } else if (ethernet->type == wire::ethertype_ipv6) {
    const auto ip = wire::Ipv6View::check_quoted(packet);
    if (!ip || ip->next_header() != wire::protocol_udp) {
      return std::nullopt;
    }
    headers = {false, ethernet_size + wire::Ipv6Header::size, ip->source(), ip->destination(),
               wire::Ipv6Header::size + ip->payload_length()};
  } else {
    return std::nullopt;
  }
  headers.size += wire::UdpHeader::size;
  return frame.size() < headers.size ? std::nullopt : std::optional(headers);
}

/// Makes of the headers of the whole those of datagram number `index`, with `part` bytes of data that sum up to
/// `data_sum`.
void finish_headers(Bytes frame, const Headers& headers, std::size_t index, std::size_t part, std::uint16_t data_sum) {
  const Bytes packet = frame.subspan(ethernet_size);
  const Bytes udp = frame.subspan(headers.udp());
  const auto udp_length = static_cast<std::uint16_t>(wire::UdpHeader::size + part);
  if (headers.is_v4) {
    constexpr std::size_t identification = 4;
    const auto first = load_big_endian<std::uint16_t>(packet.data() + identification);
    store_big_endian(packet.data() + 2, static_cast<std::uint16_t>(wire::Ipv4Header::size + udp_length));
    store_big_endian(packet.data() + identification, static_cast<std::uint16_t>(first + index));
    store_checksum(packet.data() + 10, 0);
    store_checksum(packet.data() + 10, checksum_of(header_sum(packet.first(wire::Ipv4Header::size))));
  } else {
    store_big_endian(packet.data() + 4, udp_length);
  }
  store_big_endian(udp.data() + 4, udp_length);
  store_checksum(udp.data() + wire::UdpHeader::checksum_offset, 0);
  const std::uint16_t pseudo =
      wire::pseudo_header_sum(headers.source, headers.destination, wire::protocol_udp, udp_length);
  const std::uint16_t header = header_sum(udp.first(wire::UdpHeader::size));
  store_checksum(udp.data() + wire::UdpHeader::checksum_offset,
                 wire::udp_checksum_of(add_sums(add_sums(pseudo, header), data_sum)));
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
  [[nodiscard]] std::size_t part(std::size_t index) const {
    return std::min(segment_size, data_size - index * segment_size);
  }
};

/// The frames show their parts of the data; each sum is a pass of its own.
bool split_in_place(Split& split, Batch& out) {
  BufferPool& pool = split.frame.pool();
  Message rest = std::move(split.frame);
  rest.trim_data_front(split.headers.size);
  for (std::size_t index = 0; index < split.segments(); ++index) {
    const std::size_t part = split.part(index);
    Message data = std::move(rest);
    if (index + 1 < split.segments()) {
      rest = data.split(part);
    }
    Message frame = Message::of_size(pool, split.headers.size, 0, 0);
    if (!frame || (index + 1 < split.segments() && !rest)) {
      return false;
    }
    std::ranges::copy(split.header(), frame.bytes().begin());
    finish_headers(frame.bytes(), split.headers, index, part, data.data_sum());
    pool.touches().add(part, 0);
    frame.link(std::move(data));
    out.push(std::move(frame));
  }
  return true;
}

/// The one pass: from where the data lies to the frames, with their sums.
bool split_in_pass(Split& split, Batch& out) {
  std::array<Bytes, 1 + super_frame_segments_max> places;
  std::array<std::uint16_t, 1 + super_frame_segments_max> sums;
  std::array<std::byte, header_bytes_max> aside;
  const std::size_t segments = split.segments();
  BufferPool& pool = split.frame.pool();
  // The data starts on a cache line.
  const std::size_t spare = (cache_line_bytes - split.headers.size % cache_line_bytes) % cache_line_bytes;
  Batch frames;
  places[0] = Bytes(aside).first(split.headers.size);
  for (std::size_t index = 0; index < segments; ++index) {
    Message frame = Message::of_size(pool, split.headers.size + split.part(index), spare, 0);
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
    finish_headers({place.data() - split.headers.size, split.headers.size}, split.headers, index, place.size(),
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
         size - unitdata.header_size <= super_frame_segments_max * unitdata.segment_size;
}

std::expected<DataUnit, SuperFrameError> read_super_frame(ConstBytes frame, std::size_t size,
                                                          const OffloadHeader& offload) {
  constexpr unsigned checksum_known = OffloadHeader::needs_checksum | OffloadHeader::data_valid;
  const unsigned type = offload.segment_type & ~unsigned{OffloadHeader::segment_ecn_flag};
  if (type != OffloadHeader::segment_udp || (offload.flags & checksum_known) == 0) {
    return std::unexpected(SuperFrameError::unsupported);
  }
  const std::optional<Headers> headers = read_headers(frame);
  if (!headers || headers->packet_size != size - ethernet_size) {
    return std::unexpected(SuperFrameError::malformed);
  }
  // Whoever splits it makes the headers anew, which must not mend one that was damaged.
  if (headers->is_v4 && checksum_of(header_sum(frame.subspan(ethernet_size, wire::Ipv4Header::size))) != 0) {
    return std::unexpected(SuperFrameError::malformed);
  }
  const auto udp_length = load_big_endian<std::uint16_t>(frame.data() + headers->udp() + 4);
  const std::size_t data = size - headers->size;
  const bool partial = (offload.flags & OffloadHeader::needs_checksum) != 0;
  if (udp_length != wire::UdpHeader::size + data || data == 0 || offload.segment_size == 0 ||
      data > super_frame_segments_max * offload.segment_size ||
      (partial &&
       (offload.checksum_start != headers->udp() || offload.checksum_offset != wire::UdpHeader::checksum_offset))) {
    return std::unexpected(SuperFrameError::malformed);
  }
  return DataUnit{.kind = DataUnit::Kind::link_indication,
                  .header_size = static_cast<std::uint16_t>(headers->size - ethernet_size),
                  .segment_size = offload.segment_size,
                  .checksum_offloaded = true};
}

OffloadHeader offload_of(const Message& frame) {
  const std::size_t headers = header_bytes_in(frame);
  return {.flags = OffloadHeader::needs_checksum,
          .segment_type = OffloadHeader::segment_udp,
          .header_length = static_cast<std::uint16_t>(headers),
          .segment_size = frame.native<DataUnit>()->segment_size,
          .checksum_start = static_cast<std::uint16_t>(headers - wire::UdpHeader::size),
          .checksum_offset = wire::UdpHeader::checksum_offset};
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
  return moves && split.segments() <= super_frame_segments_max ? split_in_pass(split, out) : split_in_place(split, out);
}

}  // namespace sluice::dlpi
