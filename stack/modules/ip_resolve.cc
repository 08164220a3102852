// SPDX-License-Identifier: Apache-2.0
// The ip module's ARP (RFC 826) and neighbour discovery (RFC 4861): messages to and from the neighbour cache.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"

namespace sluice {

using wire::ArpOperation;
using wire::ArpPacket;
using wire::IpAddress;
using wire::Ipv4View;
using wire::Ipv6Address;
using wire::Ipv6Header;
using wire::Ipv6View;
using wire::MacAddress;
using wire::NeighborAdvertisement;
using wire::NeighborSolicitation;

/// RFC 826, "Packet Reception". The pair of a sender we know is updated; a sender we do not know is added only if
/// "the Target protocol address is mine". RFC 5227 section 2.1.1: a probe has an all-zero sender address, which is no
/// pair.
///
/// Threat: any host on the link can claim any pair. What no host can be (RFC 1122 section 3.2.1.3) is neither answered
/// nor believed, a station's address must be one station's, and a reply that we did not ask for does not displace an
/// address we know: that one is probed (RFC 4861 section 7.2.5, as for an advertisement without the override flag). A
/// host that moves announces that with a request (RFC 5227 section 3).
void Ip::receive_arp(const Arrival& arrival) {
  std::array<std::byte, ArpPacket::size> bytes{};
  const Bytes present = Bytes(bytes).first(std::min(bytes.size(), arrival.data.data_size()));
  static_cast<void>(arrival.data.copy_data_to(0, present));
  const auto arp = ArpPacket::parse(present);
  if (!arp || !link_.ready() || !is_station(arp->sender_mac)) {
    ++count_.bad_arp;
    return;
  }
  const IpAddress sender = arp->sender_address;
  const bool is_request = arp->operation == ArpOperation::request;
  const bool is_probe = sender.is_unspecified() && is_request;
  // RFC 5227 section 2.1.1: "In addition, if during this period the host receives any ARP Probe where the packet's
  // 'target IP address' is the address being probed for, and the packet's 'sender hardware address' is not the hardware
  // address of any of the host's interfaces, then the host SHOULD similarly treat this as an address conflict".
  const bool probes_ours = is_probe && addresses_.is_tentative(arp->target_address);
  if (routes_.owns(sender) || probes_ours) {
    return arp->sender_mac == *link_.mac() ? static_cast<void>(++count_.bad_source)
                                           : claimed(probes_ours ? arp->target_address : sender, arp->sender_mac);
  }
  if (!is_probe && !routes_.is_host(sender)) {
    ++count_.bad_arp;
    return;
  }
  const bool for_us = routes_.is_local(arp->target_address);
  if (is_request && for_us && routes_.is_neighbour(sender)) {
    neighbours_.heard(sender, arp->sender_mac, set().now());
  } else if (!is_probe) {
    neighbours_.advertised(sender, arp->sender_mac, /*solicited=*/!is_request && for_us,
                           /*override_entry=*/is_request, set().now());
  }
  if (!is_request || !for_us || !answers_for(arp->target_address)) {
    ++count_.arp_noted;
    return;
  }
  const bool answered = send_arp(
      {ArpOperation::reply, *link_.mac(), arp->target_address, arp->sender_mac, arp->sender_address}, arp->sender_mac);
  ++(answered ? count_.arp_answered : count_.no_memory);
}

bool Ip::send_arp(const ArpPacket& packet, const MacAddress& to) {
  Message carrier = new_carrier();
  Message data = Message::allocate(set().pool(), ArpPacket::size);
  if (!carrier || !data) {
    return false;
  }
  packet.emit(data.append(ArpPacket::size));
  carrier.link(std::move(data));
  to_link(std::move(carrier), to, wire::ethertype_arp);
  return true;
}

/// RFC 4861 section 7.2.3, "Receipt of Neighbor Solicitations", and 7.2.4, "Sending Solicited Neighbor Advertisements".
/// A sender that is not on the link is answered, but not remembered: nothing is ever sent to it but through the
/// gateway.
void Ip::receive_solicitation(const Arrival& arrival) {
  const auto message = NeighborSolicitation::parse(arrival.data.bytes());
  const Ipv6Address source = arrival.source.v6();
  if (!message || !valid_solicitation(*message, source, arrival.destination.v6()) || !link_.ready() ||
      !is_station(message->source_link_layer.value_or(arrival.link_source))) {
    ++count_.bad_ndp;
    return;
  }
  // RFC 4862 section 5.4.3: "If the source address of the Neighbor Solicitation is the unspecified address, the
  // solicitation is from a node performing Duplicate Address Detection. If the solicitation is from another node, the
  // tentative address is a duplicate and should not be used (by either node). If the solicitation is from the node
  // itself (because the node loops back multicast packets), the solicitation does not indicate the presence of a
  // duplicate address."
  const bool asks_for_ours = source.is_unspecified() && addresses_.is_tentative(message->target);
  if (asks_for_ours && arrival.link_source == *link_.mac()) {
    ++count_.bad_source;
    return;
  }
  if (asks_for_ours || routes_.owns(source)) {
    return claimed(asks_for_ours ? IpAddress(message->target) : arrival.source, arrival.link_source);
  }
  // RFC 4862 section 5.4.3: "If the target address is tentative, and the source address is a unicast address, the
  // solicitation's sender is performing address resolution on the target; the solicitation should be silently ignored."
  if (!routes_.is_local(message->target)) {
    ++count_.icmp_ignored;
    return;
  }
  const MacAddress mac = message->source_link_layer.value_or(arrival.link_source);
  const NeighborAdvertisement answer{.router = false,
                                     .solicited = !source.is_unspecified(),
                                     .override_entry = true,
                                     .target = message->target,
                                     .target_link_layer = link_.mac()};
  const bool answers = answers_for(message->target);
  if (source.is_unspecified() && answers) {
    const bool answered =
        send_ndp(answer, message->target, wire::ipv6_all_nodes, wire::multicast_mac(wire::ipv6_all_nodes));
    ++(answered ? count_.ndp_answered : count_.no_memory);
    return;
  }
  // "If the Source Address is not the unspecified address and, on link layers that have addresses, the solicitation
  // includes a Source Link-Layer Address option, then the recipient SHOULD create or update the Neighbor Cache entry".
  if (message->source_link_layer && routes_.is_neighbour(source)) {
    neighbours_.heard(source, mac, set().now());
  }
  if (!answers) {
    ++count_.ndp_noted;
    return;
  }
  const bool answered = send_ndp(answer, message->target, source, mac);
  ++(answered ? count_.ndp_answered : count_.no_memory);
}

/// RFC 4861 section 7.2.5, "Receipt of Neighbor Advertisements".
void Ip::receive_advertisement(const Arrival& arrival) {
  const auto message = NeighborAdvertisement::parse(arrival.data.bytes());
  if (!message || !valid_advertisement(*message, arrival.destination.v6()) || arrival.source.is_unspecified() ||
      !link_.ready() || !is_station(message->target_link_layer.value_or(arrival.link_source))) {
    ++count_.bad_ndp;
    return;
  }
  if (!message->router && config_.autoconfigure) {
    autoconfiguration_.no_router(message->target);
    arm_host_timer();
  }
  // RFC 4862 section 5.4.4: "If the target address is tentative, the tentative address is not unique." Of our own
  // frames that come back, nothing is to be learned.
  if (routes_.owns(message->target) || routes_.owns(arrival.source)) {
    const MacAddress mac = message->target_link_layer.value_or(arrival.link_source);
    return mac == *link_.mac()
               ? static_cast<void>(++count_.bad_source)
               : claimed(routes_.owns(message->target) ? IpAddress(message->target) : arrival.source, mac);
  }
  // "If the link layer has addresses and no Target Link-Layer Address option is included, the receiving node SHOULD
  // silently discard the received advertisement" while the entry is incomplete. A unicast answer without the option
  // confirms the address it came from.
  neighbours_.advertised(message->target, message->target_link_layer.value_or(arrival.link_source), message->solicited,
                         message->override_entry, set().now());
  ++count_.ndp_noted;
}

template <class NdpMessage>
bool Ip::send_ndp(const NdpMessage& message, const Ipv6Address& source, const Ipv6Address& destination,
                  const MacAddress& to) {
  Message carrier = new_carrier();
  Message data = Message::allocate(set().pool(), Ipv6Header::size + NdpMessage::size_max);
  if (!carrier || !data) {
    return false;
  }
  const Bytes header = data.append(Ipv6Header::size);
  const std::size_t size = message.emit(data.append(NdpMessage::size_max));
  data.trim_back(NdpMessage::size_max - size);
  data.first().rptr += Ipv6Header::size;
  const std::uint16_t initial =
      wire::pseudo_header_sum(source, destination, wire::protocol_icmp6, static_cast<std::uint32_t>(size));
  data.transform(Sum{initial, data.bytes().data() + wire::icmp_checksum_offset, false});
  data.first().rptr -= Ipv6Header::size;
  Ipv6Header{.payload_length = static_cast<std::uint16_t>(size),
             .next_header = wire::protocol_icmp6,
             .hop_limit = wire::ndp_hop_limit,
             .source = source,
             .destination = destination}
      .emit(header);
  carrier.link(std::move(data));
  to_link(std::move(carrier), to, wire::ethertype_ipv6);
  return true;
}

template bool Ip::send_ndp(const NeighborSolicitation& message, const Ipv6Address& source,
                           const Ipv6Address& destination, const MacAddress& to);
template bool Ip::send_ndp(const NeighborAdvertisement& message, const Ipv6Address& source,
                           const Ipv6Address& destination, const MacAddress& to);
template bool Ip::send_ndp(const wire::RouterSolicitation& message, const Ipv6Address& source,
                           const Ipv6Address& destination, const MacAddress& to);

/// RFC 4861 section 7.2.2: multicast solicitations go "to the solicited-node multicast address of the target", and the
/// source should be the one "of the packet prompting the solicitation", for which we take the one we would choose.
void Ip::solicit(const IpAddress& target, const std::optional<MacAddress>& to) {
  const std::optional<IpAddress> source = routes_.source_for(target);
  if (!source || !link_.ready() || (target.is_v6() && !has_ipv6())) {
    return;
  }
  bool asked = false;
  if (target.is_v4()) {
    asked = send_arp({ArpOperation::request, *link_.mac(), source->v4(), {}, target.v4()},
                     to.value_or(wire::mac_broadcast));
  } else {
    const Ipv6Address destination = to ? target.v6() : wire::solicited_node(target.v6());
    asked = send_ndp(NeighborSolicitation{target.v6(), link_.mac()}, source->v6(), destination,
                     to ? *to : wire::multicast_mac(destination));
  }
  count_.no_memory_out += asked ? 0U : 1U;
}

std::size_t Ip::datagrams_in(const Message& packet) {
  const wire::DataUnit& unitdata = *packet.native<wire::DataUnit>();
  return unitdata.segment_size == 0 ? 1 : unitdata.segments_in(packet.data_size() - unitdata.header_size);
}

void Ip::transmit(Message packet, const IpAddress& neighbour, const MacAddress& to) {
  count_.packets_out += datagrams_in(packet) - 1;  // one is counted as it leaves
  to_link(std::move(packet), to, neighbour.is_v4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6);
}

/// Gives the datagram back to the user, without the headers that were put in front of it; a later fragment would tell
/// the user nothing.
void Ip::undeliverable(Message packet, const IpAddress& neighbour, bool asked) {
  (asked ? count_.neighbour_failed : count_.neighbours_full) += datagrams_in(packet);
  if (asked) {
    redirects_.forget(neighbour);
    if (neighbour.is_v6()) {
      autoconfiguration_.unreachable(neighbour.v6());
    }
    route_ = {};
  }
  Message data = packet.unlink();
  const ConstBytes header = data.bytes();
  Outgoing outgoing;
  std::size_t header_size = wire::Ipv4Header::size;
  bool first = true;
  if (neighbour.is_v4()) {
    const Ipv4View view = *Ipv4View::check_quoted(header);
    outgoing = {.destination = view.destination(), .source = view.source(), .protocol = view.protocol()};
    first = view.fragment_offset() == 0;
  } else {
    const Ipv6View view = *Ipv6View::check_quoted(header);
    outgoing = {.destination = view.destination(), .source = view.source(), .protocol = view.next_header()};
    header_size = Ipv6Header::size;
  }
  data.trim_front(header_size);
  if (outgoing.protocol == wire::protocol_ipv6_fragment && neighbour.is_v6() &&
      data.pull_up(wire::Ipv6FragmentHeader::size)) {
    const auto fragment = *wire::Ipv6FragmentHeader::parse(data.bytes());
    outgoing.protocol = fragment.next_header;
    first = fragment.offset == 0;
    data.trim_front(wire::Ipv6FragmentHeader::size);
  }
  if (first && bound_ && bound_->protocol == outgoing.protocol) {
    report(outgoing.destination, outgoing.protocol, {outgoing.source, 0}, asked ? EHOSTUNREACH : ENOBUFS,
           std::move(data));
  }
}

void Ip::displaced(Message packet) { count_.neighbour_displaced += datagrams_in(packet); }

}  // namespace sluice
