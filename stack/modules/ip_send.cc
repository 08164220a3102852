// SPDX-License-Identifier: Apache-2.0
// The ip module on the way down: from a T_UNITDATA_REQ to frames.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/loopback.h"
#include "stack/wire/tcp.h"
#include "stack/wire/udp.h"

namespace sluice {

using wire::DataUnit;
using wire::IpAddress;
using wire::Ipv4Header;
using wire::Ipv6FragmentHeader;
using wire::Ipv6Header;

namespace {

constexpr std::size_t checksum_offset = 10;  // in the IPv4 header

/// IPv4: RFC 791's total length is 16 bits. IPv6: what is reassembled may not exceed 65,535 (RFC 8200 section 4.5).
std::size_t payload_max(const IpAddress& destination) {
  return destination.is_v4() ? Ipv4Header::payload_length_max : Ipv6Header::payload_length_max;
}

std::size_t header_size(const IpAddress& destination) {
  return destination.is_v4() ? Ipv4Header::size : Ipv6Header::size;
}

/// As it lies in memory. REQUIRES: ip::ports_size readable bytes.
std::uint32_t load_word(const std::byte* at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

void Ip::wput(Batch&& batch) {
  for (bool changed = !down_.empty();; changed = true) {
    Batch rest = batch.retain_until([this](Message& message) {
      DataUnit* const unit = message.native<DataUnit>();
      const bool is_short =
          unit != nullptr && unit->kind == DataUnit::Kind::network_request && send_like_the_last(message, *unit);
      return is_short ? Batch::Step::keep : Batch::Step::stop;
    });
    if (rest.empty() && !changed) [[likely]] {  // nothing has changed but counts
      return write_queue().put_next(std::move(batch));
    }
    down_.splice(std::move(batch));
    if (rest.empty()) {
      break;
    }
    from_above(rest.pop());
    batch = std::move(rest);
  }
  finish();
}

/// TPI 2.0.0, T_UNITDATA_REQ: what is wrong with one is answered with T_UDERROR_IND.
void Ip::send_unitdata(Message request) {
  const auto unitdata = native_of<DataUnit>(request, DataUnit::Kind::network_request);
  Message data = request.unlink();
  if (!data) {
    data = Message::allocate(set().pool(), 0, headroom());
  }
  if (!unitdata || !bound_ || !data) {
    ++(data ? count_.bad_request : count_.no_memory_out);
    return report(unitdata ? (*unitdata)->peer : IpAddress(), unitdata ? (*unitdata)->protocol : std::uint8_t{0}, {},
                  EPROTO, std::move(data));
  }
  const DataUnit asked = **unitdata;
  std::array<std::byte, ip::ports_size> scratch{};
  const std::byte* const front = data.front(ip::ports_size, scratch.data());
  const std::uint32_t first_word = front == nullptr ? 0 : load_word(front);
  const Outgoing outgoing{.destination = asked.peer,
                          .source = asked.has_local ? std::optional(asked.local) : std::nullopt,
                          .protocol = asked.protocol,
                          .hop_limit = asked.hop_limit,
                          .traffic_class = asked.traffic_class,
                          .dont_fragment = asked.dont_fragment,
                          .ports = ip::ports_of(asked.protocol, first_word),
                          .options = {},
                          .by_user = true,
                          .segment_size = asked.segment_size};
  if (const int error = send_datagram(outgoing, request, data); error != 0) {
    ++count_.refused;
    report(outgoing.destination, outgoing.protocol, {outgoing.source, error == EMSGSIZE ? whole_max(outgoing) : 0},
           error, std::move(data));
  } else {
    note_flow(asked, first_word);
  }
}

/// A datagram of the user's leaves by route_, and is of another flow than the last. The template may be the last one's:
/// one that left in fragments made none.
void Ip::note_flow(const DataUnit& sent, std::uint32_t first_word) {
  route_.ports = first_word;
  if (route_.source.is_v6()) {
    route_.header.set_flow_label(flow_label(sent.peer, sent.protocol, first_word));
  }
  flows_.note({.source = route_.source,
               .destination = sent.peer,
               .protocol = sent.protocol,
               .ports = ip::ports_of(sent.protocol, first_word),
               .dont_fragment = sent.dont_fragment || never_fragments(sent.peer)});
}

/// The short way, for a datagram that follows one of its flow: its header is a copy, patched, and it becomes a
/// request of the link. False, and nothing has happened, when there is more to it.
bool Ip::send_like_the_last(Message& request, DataUnit& unitdata) {
  const bool same_route = route_.destination == unitdata.peer &&
                          route_.wanted_source.has_value() == unitdata.has_local &&
                          (!unitdata.has_local || *route_.wanted_source == unitdata.local);
  const std::size_t size = request.data_size();
  const TimePoint now = set().now();
  if (!same_route || !route_.header.serves(unitdata, size) || now >= route_.expires || unitdata.segment_size != 0) {
    return false;
  }
  const Block& front = *request.data_block();  // a payload that is served is not empty
  const wire::MacAddress* const mac = route_mac(now);
  if (mac == nullptr || front.size() < ip::ports_size) {
    return false;
  }
  const std::uint32_t ports = load_word(front.rptr);
  const Bytes header = request.prepend_data(route_.header.size());
  if (header.empty()) {
    return false;
  }
  if (ports != route_.ports) [[unlikely]] {
    note_flow(unitdata, ports);
  }
  route_.header.emit(header.data(), size, identification_);
  identification_ = static_cast<std::uint16_t>(identification_ + route_.header.identifications());
  make_link_request(unitdata, *mac, route_.header.sap());
  return true;
}

/// The link address of route_'s next hop, where it needs no asking.
const wire::MacAddress* Ip::route_mac(TimePoint now) {
  return route_.group_mac ? &*route_.group_mac : neighbours_.known(route_.neighbour, now);
}

Message Ip::new_carrier() { return Message::of_native(set().pool(), DataUnit{}); }

/// Sends `data` behind `carrier`, whose descriptor is no longer needed. On an error (an errno) both are left alone.
/// REQUIRES: `carrier` has a native descriptor.
int Ip::send_datagram(const Outgoing& outgoing, Message& carrier, Message& data) {
  if (const int error = route_to(outgoing.destination, outgoing.source); error != 0) {
    return error;
  }
  const std::size_t size = data.size();
  if (size > payload_max(outgoing.destination)) {
    return EMSGSIZE;
  }
  if (outgoing.segment_size != 0) {
    return send_segments(outgoing, carrier, data);
  }
  if (header_size(outgoing.destination) + outgoing.options.size() + size > whole_max(outgoing)) {
    // No fragment carries options: only an echo reply has any, and one that long is not worth more.
    const bool whole = outgoing.dont_fragment || never_fragments(outgoing) || !outgoing.options.empty();
    return whole ? EMSGSIZE : send_fragments(outgoing, carrier, data);
  }
  if (!outgoing.options.empty()) {
    return send_with_options(outgoing, carrier, data);
  }
  if (!prepend_header(outgoing, data, size)) {
    return ENOBUFS;
  }
  const bool settled = outgoing.by_user && !route_.to_self && !route_.loops && hop_limit_of(outgoing) > 0;
  if (bound_ && settled) {  // the short way does not ask again
    const std::size_t header = header_size(outgoing.destination);
    route_.header.take(data.bytes().first(header), outgoing.hop_limit, outgoing.traffic_class, outgoing.dont_fragment,
                       std::min(payload_max(outgoing.destination), whole_max(outgoing) - header));
  }
  dispatch(std::move(carrier), std::move(data));
  return 0;
}

/// Bytes of the transport's header with which `data` begins; 0: it is of none whose data may be that of several.
std::size_t Ip::transport_header_size(std::uint8_t protocol, const Message& data) {
  if (protocol == wire::protocol_udp) {
    return wire::UdpHeader::size;
  }
  std::array<std::byte, wire::TcpHeader::size_min> front;
  const bool is_tcp = protocol == wire::protocol_tcp && data.copy_data_to(0, front);
  const auto tcp =
      is_tcp ? wire::TcpHeader::parse(front, data.data_size()) : std::unexpected(wire::TcpMalformed::short_header);
  return tcp ? tcp->header_size : 0;
}

/// One header for all; its lengths are those of the whole. The user, who has asked for the route, does not send what
/// would have to be fragmented.
int Ip::send_segments(const Outgoing& outgoing, Message& carrier, Message& data) {
  const std::size_t size = data.size();
  const std::size_t transport = transport_header_size(outgoing.protocol, data);
  const std::size_t header = header_size(outgoing.destination) + transport;
  if (transport == 0 || size <= transport || route_.to_self || header + outgoing.segment_size > whole_max(outgoing) ||
      header_size(outgoing.destination) + size > link_.segments_bytes_max()) {
    return EMSGSIZE;
  }
  if (!prepend_header(outgoing, data, size)) {
    return ENOBUFS;
  }
  DataUnit& unitdata = *carrier.native<DataUnit>();
  unitdata.protocol = outgoing.protocol;
  unitdata.segment_size = outgoing.segment_size;
  unitdata.header_size = static_cast<std::uint16_t>(header);
  if (outgoing.destination.is_v4()) {
    identification_ = static_cast<std::uint16_t>(identification_ + unitdata.segments_in(size - transport) - 1);
  }
  dispatch(std::move(carrier), std::move(data));
  return 0;
}

/// The largest packet that leaves in one piece. RFC 8899 section 3: "In IPv4, a probe packet MUST be sent with the
/// Don't Fragment (DF) bit set in the IP header and without network layer endpoint fragmentation." What was reported of
/// the path does not bound one who may be probing: else nobody could find out that the path has got better, and a
/// forged report would stop every datagram above its MTU for ten minutes.
std::uint32_t Ip::whole_max(const Outgoing& outgoing) const {
  return never_fragments(outgoing) ? route_.link_mtu : route_.mtu;
}

/// The header as it is without options, then made longer: RFC 791 section 3.1, the header length is "in 32 bit words".
int Ip::send_with_options(const Outgoing& outgoing, Message& carrier, Message& data) {
  const std::size_t size = data.size();
  const Bytes options = data.prepend(outgoing.options.size());
  if (options.empty()) {
    return ENOBUFS;
  }
  std::ranges::copy(outgoing.options, options.begin());
  if (!prepend_header(outgoing, data, size + outgoing.options.size()) ||
      !data.pull_up(Ipv4Header::size + outgoing.options.size())) {
    return ENOBUFS;
  }
  const Bytes header = data.bytes().first(Ipv4Header::size + outgoing.options.size());
  header[0] = static_cast<std::byte>(0x40U | header.size() / 4);
  store_checksum(header.data() + checksum_offset, 0);
  store_checksum(header.data() + checksum_offset, checksum_of(header_sum(header)));
  dispatch(std::move(carrier), std::move(data));
  return 0;
}

/// RFC 6437 section 3: "To enable Flow-Label-based classification, source nodes SHOULD assign each unrelated transport
/// connection and application data stream to a new flow."
std::uint32_t Ip::flow_label(const IpAddress& destination, std::uint8_t protocol, std::uint32_t word) const {
  return flow_labels_.of(route_.source.v6(), destination.v6(), protocol, ip::ports_of(protocol, word));
}

/// RFC 1112 section 6.1: "If the upper-layer protocol chooses not to specify a time-to-live, it should default to 1 for
/// all multicast IP datagrams, so that an explicit choice is required to multicast beyond a single network." RFC 3493
/// section 5.2 has the same default.
std::uint8_t Ip::hop_limit_of(const Outgoing& outgoing) const {
  if (outgoing.hop_limit != 0 || !outgoing.by_user) {
    return outgoing.hop_limit != 0 ? outgoing.hop_limit : outgoing.destination.is_v4() ? config_.ttl : hop_limit_v6_;
  }
  if (outgoing.destination.is_multicast()) {
    return outgoing.destination.is_v4() ? settings_.multicast_ttl : settings_.multicast_hops;
  }
  return outgoing.destination.is_v4() ? settings_.ttl : settings_.hops;
}

std::uint8_t Ip::traffic_class_of(const Outgoing& outgoing) const {
  const bool as_set = outgoing.by_user && outgoing.traffic_class == 0 && outgoing.destination.is_v4();
  return as_set ? settings_.type_of_service : outgoing.traffic_class;
}

bool Ip::prepend_header(const Outgoing& outgoing, Message& data, std::size_t size, bool fragment) {
  const Bytes header = data.prepend(header_size(outgoing.destination));
  if (header.empty()) {
    return false;
  }
  const std::uint8_t hop_limit = hop_limit_of(outgoing);
  if (outgoing.destination.is_v4()) {
    Ipv4Header{.type_of_service = traffic_class_of(outgoing),
               .payload_length = static_cast<std::uint16_t>(size),
               .identification = identification_++,
               .dont_fragment = outgoing.dont_fragment || never_fragments(outgoing),
               .time_to_live = hop_limit,
               .protocol = outgoing.protocol,
               .source = route_.source.v4(),
               .destination = outgoing.destination.v4()}
        .emit(header);
  } else {
    Ipv6Header{.traffic_class = outgoing.traffic_class,
               .flow_label = flow_label(outgoing.destination, outgoing.protocol, outgoing.ports),
               .payload_length = static_cast<std::uint16_t>(size),
               .next_header = fragment ? wire::protocol_ipv6_fragment : outgoing.protocol,
               .hop_limit = hop_limit,
               .source = route_.source.v6(),
               .destination = outgoing.destination.v6()}
        .emit(header);
  }
  return true;
}

/// Headers of one fragment: `size` bytes of payload at `offset`.
bool Ip::prepend_fragment_header(const Outgoing& outgoing, Message& data, std::size_t size, std::size_t offset,
                                 bool more, std::uint32_t identification) {
  if (outgoing.destination.is_v6()) {
    const Bytes extension = data.prepend(Ipv6FragmentHeader::size);
    if (extension.empty()) {
      return false;
    }
    Ipv6FragmentHeader{outgoing.protocol, static_cast<std::uint16_t>(offset), more, identification}.emit(extension);
    return prepend_header(outgoing, data, size + Ipv6FragmentHeader::size, /*fragment=*/true);
  }
  const Bytes header = data.prepend(Ipv4Header::size);
  if (header.empty()) {
    return false;
  }
  Ipv4Header{.type_of_service = traffic_class_of(outgoing),
             .payload_length = static_cast<std::uint16_t>(size),
             .identification = static_cast<std::uint16_t>(identification),
             .more_fragments = more,
             .fragment_offset = static_cast<std::uint16_t>(offset),
             .time_to_live = hop_limit_of(outgoing),
             .protocol = outgoing.protocol,
             .source = route_.source.v4(),
             .destination = outgoing.destination.v4()}
      .emit(header);
  return true;
}

/// RFC 791 section 2.3: all fragments but the last carry a multiple of 8 bytes. Where memory ends on the way, the rest
/// is dropped: the receiver will do the same with what it got.
int Ip::send_fragments(const Outgoing& outgoing, Message& carrier, Message& data) {
  const std::size_t extension = outgoing.destination.is_v6() ? Ipv6FragmentHeader::size : 0;
  const std::size_t piece = (route_.mtu - header_size(outgoing.destination) - extension) / 8 * 8;
  const std::uint32_t identification =
      outgoing.destination.is_v4() ? identification_++ : static_cast<std::uint32_t>(set().prng()());
  Message part = std::move(data);
  std::size_t remaining = part.size();
  ++count_.fragmented;
  for (std::size_t offset = 0;; offset += piece) {
    const bool more = remaining > piece;
    Message rest = more ? part.split(piece) : Message();
    Message next_carrier = more ? new_carrier() : Message();
    if ((more && (!rest || !next_carrier)) ||
        !prepend_fragment_header(outgoing, part, std::min(piece, remaining), offset, more, identification)) {
      ++count_.no_memory_out;
      return 0;
    }
    dispatch(std::move(carrier), std::move(part));
    if (!more) {
      return 0;
    }
    carrier = std::move(next_carrier);
    part = std::move(rest);
    remaining -= piece;
  }
}

/// Makes route_ the route to `destination`. Returns 0 or an errno.
int Ip::route_to(const IpAddress& destination, const std::optional<IpAddress>& source) {
  if (route_.destination == destination && route_.wanted_source == source && set().now() < route_.expires) {
    return 0;
  }
  return find_route(destination, source);
}

int Ip::find_route(const IpAddress& destination, const std::optional<IpAddress>& source) {
  route_ = {};
  if (!link_.ready() || (destination.is_v6() && !has_ipv6())) {
    return ENETDOWN;
  }
  const bool is_broadcast = routes_.is_broadcast(destination);
  if (is_broadcast && !settings_.broadcast) {
    return EACCES;
  }
  const bool to_self = routes_.is_self(destination);
  const bool is_itself = to_self || (is_broadcast && routes_.has(destination.family()));
  std::optional<IpAddress> next_hop = is_itself ? destination : routes_.next_hop(destination);
  if (!next_hop) {
    return ENETUNREACH;
  }
  const bool bound_here =
      bound_ && bound_->address.family() == destination.family() && !bound_->address.is_unspecified();
  std::optional<IpAddress> from = source && !source->is_unspecified() ? source : std::nullopt;
  from = !from && bound_here ? std::optional(bound_->address) : from;
  // RFC 6724 section 5, rule 1: "Prefer same address. If SA = D, then prefer SA."
  from = from ? from : to_self ? destination : routes_.source_for(destination);
  if (!from || from->family() != destination.family() ||
      !(to_self ? routes_.is_self(*from) : routes_.is_local(*from))) {
    return EADDRNOTAVAIL;
  }
  const auto packet_max = static_cast<std::uint32_t>(header_size(destination) + payload_max(destination));
  const std::uint32_t link = to_self ? packet_max : link_mtu(destination.family());
  const ip::PathMtu::Estimate estimate = to_self ? ip::PathMtu::Estimate{.mtu = packet_max, .expires = never}
                                                 : path_mtu_.lookup(destination, link, set().now());
  const auto redirect = to_self ? std::nullopt : redirects_.lookup(destination, set().now());
  next_hop = redirect ? redirect->next_hop : next_hop;
  route_ = {.destination = destination,
            .wanted_source = source,
            .expires = std::min(estimate.expires, redirect ? redirect->expires : never),
            .source = *from,
            .next_hop = *next_hop,
            .mtu = estimate.mtu,
            .link_mtu = link,
            .ports = 0,
            .neighbour = {},
            .group_mac = {},
            .header = {},
            .to_self = to_self,
            .loops = is_broadcast};
  if (is_broadcast) {
    route_.group_mac = wire::mac_broadcast;
  } else if (destination.is_multicast()) {
    route_.group_mac = wire::multicast_mac(destination);
    route_.loops = destination.is_v4() ? settings_.multicast_loop : settings_.multicast_loop_v6;
  }
  return 0;
}

/// To the driver, which brings it back up the streams that want it. RFC 4291 section 2.5.3: "An IPv6 packet with a
/// destination address of loopback must never be sent outside of a single node".
void Ip::loop(Message packet) {
  const std::uint16_t sap = route_.destination.is_v4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
  const wire::dlpi::Loopback loopback{.sap = sap, .group = route_.group_mac.value_or(wire::MacAddress{})};
  Message message = primitive_message(set().pool(), loopback, MessageType::ctl);
  if (!message) {
    ++count_.no_memory_out;
    return;
  }
  message.link(std::move(packet));
  ++count_.looped;
  down_.push(std::move(message));
}

/// Hands a packet with its header to the next hop of route_. RFC 1112 section 6.1: "by default, a copy of the datagram
/// is looped back." RFC 1122 section 3.2.1.7: "A host MUST NOT send a datagram with a Time-to-Live (TTL) value of
/// zero."
void Ip::dispatch(Message carrier, Message packet) {
  if (route_.to_self) {
    return loop(std::move(packet));
  }
  if (route_.loops) {
    if (Message copy = packet.duplicate()) {
      loop(std::move(copy));
    } else {
      ++count_.no_memory_out;
    }
  }
  const std::size_t hop_limit_offset = route_.destination.is_v4() ? 8 : 7;
  if (packet.bytes()[hop_limit_offset] == std::byte{0}) {
    ++count_.kept_here;
    return;
  }
  carrier.link(std::move(packet));
  if (const wire::MacAddress* const mac = route_mac(set().now())) {
    return transmit(std::move(carrier), route_.destination, *mac);
  }
  route_.neighbour = neighbours_.send(route_.next_hop, std::move(carrier), set().now());
}

}  // namespace sluice
