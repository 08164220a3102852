// SPDX-License-Identifier: Apache-2.0
#include "dlpi/offload.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "ilp/kernels.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace sluice::dlpi {
namespace {

constexpr std::size_t ethernet_size = wire::EthernetHeader::size;

/// Where a super-frame's headers are.
struct Layout {
  bool is_v4 = false;
  std::size_t udp = 0;  // offset of the UDP header in the frame
  wire::IpAddress source;
  wire::IpAddress destination;
};

std::optional<Layout> layout_of(ConstBytes frame) {
  const auto ethernet = wire::EthernetHeader::parse(frame);
  if (!ethernet) {
    return std::nullopt;
  }
  const ConstBytes packet = frame.subspan(ethernet_size);
  if (ethernet->type == wire::ethertype_ipv4) {
    const auto ip = wire::Ipv4View::check_quoted(packet);
    if (ip && ip->protocol() == wire::protocol_udp && !ip->is_fragment()) {
      return Layout{true, ethernet_size + ip->header_length(), ip->source(), ip->destination()};
    }
  } else if (ethernet->type == wire::ethertype_ipv6) {
    const auto ip = wire::Ipv6View::check_quoted(packet);
    if (ip && ip->next_header() == wire::protocol_udp) {
      return Layout{false, ethernet_size + wire::Ipv6View::header_size, ip->source(), ip->destination()};
    }
  }
  return std::nullopt;
}

/// Gives segment number `index` its lengths and checksums. `packet` starts at the IP header.
void finish_segment(Bytes packet, const Layout& layout, std::size_t index) {
  const std::size_t ip_header = layout.udp - ethernet_size;
  const Bytes udp = packet.subspan(ip_header);
  const auto udp_length = static_cast<std::uint16_t>(udp.size());
  if (layout.is_v4) {
    constexpr std::size_t identification = 4;
    const auto first = load_big_endian<std::uint16_t>(packet.data() + identification);
    store_big_endian(packet.data() + 2, static_cast<std::uint16_t>(packet.size()));
    store_big_endian(packet.data() + identification, static_cast<std::uint16_t>(first + index));
    store_checksum(packet.data() + 10, 0);
    store_checksum(packet.data() + 10, checksum_of(header_sum(packet.first(ip_header))));
  } else {
    store_big_endian(packet.data() + 4, udp_length);
  }
  store_big_endian(udp.data() + 4, udp_length);
  store_checksum(udp.data() + wire::UdpHeader::checksum_offset, 0);
  const std::uint16_t pseudo =
      wire::pseudo_header_sum(layout.source, layout.destination, wire::protocol_udp, udp_length);
  store_checksum(udp.data() + wire::UdpHeader::checksum_offset, wire::udp_checksum_of(add_sums(pseudo, ilp::sum(udp))));
}

}  // namespace

bool complete_checksum(Bytes frame, const OffloadHeader& offload) {
  const std::size_t start = offload.checksum_start;
  const std::size_t field = start + offload.checksum_offset;
  if (field + sizeof(std::uint16_t) > frame.size()) {
    return false;
  }
  // The sum starts from the pseudo-header's, which lies in the field. UDP has no checksum of zero, and to TCP all ones
  // is the same number.
  store_checksum(frame.data() + field, wire::udp_checksum_of(ilp::sum(frame.subspan(start))));
  return true;
}

bool split_udp(ConstBytes frame, std::size_t segment_size, BufferPool& pool, Batch& out) {
  const std::optional<Layout> layout = layout_of(frame);
  if (!layout || segment_size == 0 || frame.size() <= layout->udp + wire::UdpHeader::size) {
    return false;
  }
  const ConstBytes headers = frame.first(layout->udp + wire::UdpHeader::size);
  const ConstBytes data = frame.subspan(headers.size());
  std::size_t index = 0;
  for (std::size_t at = 0; at < data.size(); at += segment_size, ++index) {
    const ConstBytes part = data.subspan(at, std::min(segment_size, data.size() - at));
    Message segment = Message::allocate(pool, headers.size() + part.size());
    if (!segment) {
      return false;
    }
    const Bytes bytes = segment.append(headers.size() + part.size());
    std::ranges::copy(headers, bytes.begin());
    ilp::copy(part, bytes.subspan(headers.size()));
    finish_segment(bytes.subspan(ethernet_size), *layout, index);
    out.push(std::move(segment));
  }
  return true;
}

}  // namespace sluice::dlpi
