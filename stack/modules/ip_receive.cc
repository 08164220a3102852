// SPDX-License-Identifier: Apache-2.0
// The ip module on the way up: from a frame's payload to the user above.

#include <algorithm>
#include <array>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/loopback.h"

namespace sluice {

using ip::Fragment;
using ip::Reassembly;
using ip::transport_peek;
using wire::DataUnit;
using wire::Family;
using wire::IpAddress;
using wire::Ipv4Malformed;
using wire::Ipv4View;
using wire::Ipv6ExtensionProblem;
using wire::Ipv6FragmentHeader;
using wire::Ipv6Header;
using wire::Ipv6Malformed;
using wire::Ipv6View;

namespace {

/// IPv6 extension headers are read in the packet's first bytes only; further ones than this are nobody's.
constexpr std::size_t extensions_peek = 1280;

/// Whether the first fragment, whose first bytes are these, ends before an upper-layer header begins.
bool lacks_headers(std::uint8_t next_header, const Message& fragment) {
  const auto walked = wire::walk_extensions(next_header, fragment.bytes(), fragment.size(), /*reassembled=*/true);
  // What else is wrong with the headers is said when the packet is whole.
  return walked ? walked->offset + transport_peek > fragment.size()
                : walked.error().problem == Ipv6ExtensionProblem::short_header;
}

/// Whether the packet, whose headers from `next` on are `payload`, is an ICMPv6 error or redirect, or cannot be told
/// from one. RFC 4443 section 2.4 (e): "An ICMPv6 error message MUST NOT be originated as a result of receiving the
/// following: (e.1) An ICMPv6 error message. (e.2) An ICMPv6 redirect message". So headers are passed over whatever is
/// wrong with them.
bool may_be_icmp6_error(std::uint8_t next, ConstBytes payload) {
  while (payload.size() >= Ipv6FragmentHeader::size) {
    std::size_t size = 0;
    switch (next) {
      case wire::protocol_icmp6:
        return !ip::may_be_answered_by_error(Family::ipv6, payload[0]);
      case wire::protocol_ipv6_fragment:
        if (Ipv6FragmentHeader::parse(payload)->offset != 0) {
          return payload[0] == std::byte{wire::protocol_icmp6};
        }
        size = Ipv6FragmentHeader::size;
        break;
      case wire::protocol_hop_by_hop:
      case wire::protocol_ipv6_destination:
      case wire::protocol_ipv6_route:
        size = 8 + 8 * std::to_integer<std::size_t>(payload[1]);
        break;
      default:
        return false;
    }
    next = std::to_integer<std::uint8_t>(payload[0]);
    payload = payload.subspan(std::min(size, payload.size()));
  }
  return next == wire::protocol_icmp6;
}

}  // namespace

void Ip::rput(Batch&& batch) {
  for (bool changed = !up_.empty();; changed = true) {
    Batch rest = batch.retain_until([this](Message& message) {
      DataUnit* const unit = message.native<DataUnit>();
      const bool is_short =
          unit != nullptr && unit->kind == DataUnit::Kind::link_indication && receive_like_the_last(message, *unit);
      return is_short ? Batch::Step::keep : Batch::Step::stop;
    });
    if (rest.empty() && !changed) [[likely]] {  // nothing has changed but counts
      return read_queue().put_next(std::move(batch));
    }
    up_.splice(std::move(batch));
    if (rest.empty()) {
      break;
    }
    from_below(rest.pop());
    batch = std::move(rest);
  }
  finish();
}

/// Gathers the first `size` bytes, or all where there are fewer.
bool Ip::gather(Message& message, std::size_t size) {
  return message.bytes().size() >= size || message.pull_up(std::min(size, message.size()));
}

void Ip::receive(Message message) {
  if (!message.materialized() && materialize(message, Side::read) == TransformResult::failed) {
    return;  // whatever is owed by modules below: headers are read here
  }
  ++count_.packets_in;
  const auto decoded = native_of<DataUnit>(message, DataUnit::Kind::link_indication);
  if (!decoded) {
    ++(decoded.error().malformed ? count_.bad_primitive : count_.no_memory);
    return;
  }
  const DataUnit indication = **decoded;
  (*decoded)->segment_size = 0;  // the descriptor may go down again, with an answer
  (*decoded)->checksum_offloaded = false;
  Message data = message.unlink();
  if (!data) {
    ++count_.short_packet;
    return;
  }
  Arrival arrival{.primitive = std::move(message),
                  .data = std::move(data),
                  .group = indication.group,
                  .link_source = indication.source.mac,
                  .checksum_offloaded = indication.checksum_offloaded,
                  .segment_size = indication.segment_size};
  receive_packet(std::move(arrival), indication.destination.sap);
}

/// Never of a template: one of the link would let through what only we may send.
void Ip::receive_from_self(Message message) {
  ++count_.packets_in;
  const auto loop = wire::dlpi::Loopback::decode(message.bytes());
  Message data = message.unlink();
  Message primitive = new_carrier();
  if (!loop || !data || !primitive) {
    ++(primitive ? count_.bad_primitive : count_.no_memory);
    return;
  }
  receive_packet({.primitive = std::move(primitive), .data = std::move(data), .from_self = true}, loop->sap);
}

void Ip::receive_packet(Arrival&& arrival, std::uint16_t sap) {
  switch (sap) {
    case wire::ethertype_ipv4:
      return receive_v4(std::move(arrival));
    case wire::ethertype_ipv6:
      return receive_v6(std::move(arrival));
    case wire::ethertype_arp:
      return receive_arp(arrival);
    default:
      ++count_.unknown_sap;
  }
}

/// The short way, for a datagram that follows one of its flow: it becomes an indication to the user. False, and nothing
/// has happened, when there is more to it.
[[gnu::always_inline]] inline bool Ip::receive_like_the_last(Message& message, DataUnit& unitdata) {
  const std::uint16_t sap = unitdata.destination.sap;
  if ((sap != wire::ethertype_ipv4 && sap != wire::ethertype_ipv6) || unitdata.group || !message.has_data() ||
      !message.materialized()) {
    return false;
  }
  const ConstBytes front = message.data_block()->bytes();
  const std::uint8_t version = sap == wire::ethertype_ipv4 ? 4 : 6;
  if (front.empty() || std::to_integer<std::uint8_t>(front[0]) >> 4 != version ||
      !arrivals_.matches(front, message.data_size(), unitdata)) {
    return false;
  }
  message.trim_data_front(unitdata.header_size);
  if (unitdata.segment_size != 0) [[unlikely]] {
    count_segments(message, unitdata);
  }
  ++count_.packets_in;
  ++count_.delivered;
  return true;
}

/// How many datagrams `message` stands for, whose data begins with the transport's header.
std::size_t Ip::segments_in(const Message& message, std::uint8_t protocol, std::size_t segment_size) {
  const std::size_t size = message.data_size();
  const std::size_t header = segment_size == 0 ? 0 : transport_header_size(protocol, message);
  return header == 0 || size <= header ? 1 : wire::network::segments_in(size - header, segment_size);
}

/// What stands for several counts as these. One is counted with the message.
[[gnu::noinline]] void Ip::count_segments(const Message& message, const DataUnit& unitdata) {
  const std::uint64_t more = segments_in(message, unitdata.protocol, unitdata.segment_size) - 1;
  count_.packets_in += more;
  count_.delivered += more;
}

/// Checks the header, counts what is wrong with it, takes padding off. Leaves `data` at the header.
bool Ip::check_v4(Arrival& arrival) {
  Message& packet = arrival.data;
  const std::size_t size = packet.size();
  if (!gather(packet, Ipv4View::header_size_min)) {
    ++count_.no_memory;
    return false;
  }
  if (!packet.bytes().empty()) {
    const std::size_t header_length = (std::to_integer<std::size_t>(packet.bytes()[0]) & 0xfU) * 4;
    if (!gather(packet, header_length + transport_peek)) {
      ++count_.no_memory;
      return false;
    }
  }
  const auto view = Ipv4View::check(packet.bytes(), size);
  if (!view) {
    switch (view.error()) {
      case Ipv4Malformed::short_header:
        ++count_.short_packet;
        break;
      case Ipv4Malformed::bad_version:
        ++count_.bad_version;
        break;
      case Ipv4Malformed::bad_header_length:
        ++count_.bad_header_length;
        break;
      case Ipv4Malformed::bad_total_length:
        ++count_.bad_total_length;
        break;
      case Ipv4Malformed::bad_checksum:
        ++count_.bad_checksum;
        break;
      case Ipv4Malformed::bad_fragment:
        ++count_.bad_fragment;
        break;
    }
    return false;
  }
  packet.trim_back(size - view->total_length());
  arrival.source = view->source();
  arrival.destination = view->destination();
  arrival.protocol = view->protocol();
  arrival.hop_limit = view->time_to_live();
  arrival.traffic_class = view->type_of_service();
  arrival.header_size = view->header_length();
  return true;
}

/// RFC 1122 section 3.2.1.3: "A host MUST silently discard an incoming datagram containing an IP source address that is
/// invalid by the rules of this section"; "A host MUST silently discard an incoming datagram that is not destined for
/// the host." RFC 4291 section 2.7: multicast addresses "must not be used as source addresses in IPv6 packets".
bool Ip::check_addresses(Arrival& arrival) {
  const IpAddress& source = arrival.source;
  const bool group = routes_.is_member(arrival.destination) ||
                     (arrival.destination.is_v4() && routes_.is_broadcast(arrival.destination));
  if (arrival.from_self) {
    // What another stream of this host sends to a group may come from an address that we do not have.
    const bool source_holds = routes_.is_self(source) || (group && routes_.is_host(source));
    if (!source_holds || !(group || routes_.is_self(arrival.destination))) {
      ++(source_holds ? count_.not_ours : count_.bad_source);
      return false;
    }
    arrival.group = group;
    return true;
  }
  // An unspecified IPv6 source asks whether its address is free (RFC 4862 section 5.4.2).
  const bool asks_for_address = source.is_v6() && source.is_unspecified();
  // Neighbour discovery from a host that has our address, too.
  const bool claims_ours =
      source.is_v6() && arrival.protocol == wire::protocol_icmp6 && arrival.link_source != link_.mac();
  if ((!routes_.is_host(source) && !asks_for_address) || (routes_.is_local(source) && !claims_ours)) {
    ++count_.bad_source;
    return false;
  }
  if (!group && !routes_.is_local(arrival.destination)) {
    ++count_.not_ours;
    return false;
  }
  // RFC 1122 section 3.3.6: "A host SHOULD silently discard a datagram that is received via a link-layer broadcast
  // [...] but does not specify an IP multicast or broadcast destination address."
  if (arrival.group && !group) {
    ++count_.link_broadcast;
    return false;
  }
  arrival.group = group;
  return true;
}

void Ip::receive_v4(Arrival&& arrival) {
  if (!check_v4(arrival) || !check_addresses(arrival)) {
    return;
  }
  const Ipv4View view = *Ipv4View::check_quoted(arrival.data.bytes());
  if (!view.options().empty()) {
    if (ip::has_unfinished_source_route(view.options())) {
      ++count_.source_routed;
      return;
    }
    ++count_.options_skipped;
    arrival.has_options = true;
  }
  Fragment fragment{.key = {arrival.source, arrival.destination, view.identification(), arrival.protocol},
                    .offset = view.fragment_offset(),
                    .more = view.more_fragments(),
                    .protocol = arrival.protocol,
                    .header_size = arrival.header_size,
                    .data = {}};
  const bool is_fragment = view.is_fragment();
  arrival.plain = !is_fragment && view.options().empty();
  arrival.protocol_field = wire::Ipv4View::protocol_offset;
  arrival.data.trim_front(arrival.header_size);
  if (!is_fragment) {
    return deliver(std::move(arrival));
  }
  if (arrival.data.size() == 0) {
    ++count_.fragment_tiny;
    return;
  }
  receive_fragment(std::move(arrival), std::move(fragment));
}

bool Ip::check_v6(Arrival& arrival) {
  Message& packet = arrival.data;
  const std::size_t size = packet.size();
  if (!gather(packet, Ipv6Header::size + transport_peek)) {
    ++count_.no_memory;
    return false;
  }
  const auto view = Ipv6View::check(packet.bytes(), size);
  if (!view) {
    const Ipv6Malformed wrong = view.error();
    ++(wrong == Ipv6Malformed::short_header  ? count_.short_packet
       : wrong == Ipv6Malformed::bad_version ? count_.bad_version
                                             : count_.bad_total_length);
    return false;
  }
  packet.trim_back(size - Ipv6Header::size - view->payload_length());
  arrival.source = view->source();
  arrival.destination = view->destination();
  arrival.protocol = view->next_header();
  arrival.hop_limit = view->hop_limit();
  arrival.traffic_class = view->traffic_class();
  return true;
}

void Ip::receive_v6(Arrival&& arrival) {
  if (!has_ipv6()) {
    ++count_.ipv6_off;
    return;
  }
  if (!check_v6(arrival) || !check_addresses(arrival)) {
    return;
  }
  const bool plain = arrival.protocol == bound_.value_or(wire::NetworkAddress{}).protocol && bound_;
  if (!plain && arrival.protocol != wire::protocol_icmp6 && !gather(arrival.data, extensions_peek)) {
    ++count_.no_memory;
    return;
  }
  const std::size_t size = arrival.data.size() - Ipv6Header::size;
  arrival.header_size = Ipv6Header::size;
  const auto walked = wire::walk_extensions(arrival.protocol, arrival.data.bytes().subspan(Ipv6Header::size), size);
  if (!walked) {
    return extension_problem(std::move(arrival), walked.error());
  }
  arrival.protocol = walked->protocol;
  arrival.protocol_field = walked->protocol_field;
  arrival.header_size += walked->offset;
  arrival.data.trim_front(arrival.header_size);
  // RFC 6946 section 4: such a packet, not a fragment of anything, "MUST [be processed] in isolation from any other
  // packets/fragments".
  const bool atomic = walked->fragment && walked->fragment->offset == 0 && !walked->fragment->more_fragments;
  if (!walked->fragment) {
    arrival.plain = walked->offset == 0;
    return deliver(std::move(arrival));
  }
  if (atomic) {
    ++count_.fragments_in;
    return reassembled_v6(std::move(arrival));
  }
  const Ipv6FragmentHeader& header = *walked->fragment;
  if (arrival.data.size() == 0) {
    ++count_.fragment_tiny;
    return;
  }
  if (header.offset == 0 && lacks_headers(header.next_header, arrival.data)) {
    return first_fragment_problem(std::move(arrival), header.next_header);
  }
  receive_fragment(std::move(arrival), {.key = {arrival.source, arrival.destination, header.identification, 0},
                                        .offset = header.offset,
                                        .more = header.more_fragments,
                                        .protocol = header.next_header,
                                        .header_size = arrival.header_size,
                                        .data = {}});
}

/// RFC 8200 section 4.5: "If the first fragment does not include all headers through an Upper-Layer header, then that
/// fragment should be discarded and an ICMP Parameter Problem, Code 3, message should be sent to the source of the
/// fragment, with the Pointer field set to zero." RFC 7112 section 5 on what such fragments are for.
void Ip::first_fragment_problem(Arrival&& arrival, std::uint8_t next_header) {
  constexpr std::uint8_t incomplete_header_chain = 3;
  ++count_.fragment_tiny;
  if (!may_be_icmp6_error(next_header, arrival.data.bytes())) {
    arrival.protocol = wire::protocol_ipv6_no_next;
    report_parameter_problem(std::move(arrival), {.code = incomplete_header_chain, .pointer = 0},
                             /*even_to_group=*/false);
  }
}

/// RFC 8200 sections 4 and 4.2: which problems are reported, and how. Pointer and codes are those of RFC 4443
/// section 3.4.
void Ip::extension_problem(Arrival&& arrival, const wire::Ipv6ExtensionError& error) {
  constexpr std::uint8_t erroneous_field = 0;
  constexpr std::uint8_t unrecognised_next_header = 1;
  constexpr std::uint8_t unrecognised_option = 2;
  ++(error.problem == Ipv6ExtensionProblem::bad_fragment ? count_.bad_fragment : count_.bad_extension);
  arrival.data.trim_front(Ipv6Header::size);
  if (may_be_icmp6_error(arrival.protocol, arrival.data.bytes())) {
    return;
  }
  arrival.protocol = wire::protocol_ipv6_no_next;
  wire::Icmp6ParameterProblem problem{.code = erroneous_field, .pointer = error.pointer};
  bool even_to_group = false;
  switch (error.problem) {
    case Ipv6ExtensionProblem::misplaced_hop_by_hop:
      problem.code = unrecognised_next_header;
      break;
    case Ipv6ExtensionProblem::option_report:
      even_to_group = true;
      problem.code = unrecognised_option;
      break;
    case Ipv6ExtensionProblem::option_report_unicast:
      problem.code = unrecognised_option;
      break;
    case Ipv6ExtensionProblem::routing:
    case Ipv6ExtensionProblem::bad_fragment:
      break;
    case Ipv6ExtensionProblem::short_header:
    case Ipv6ExtensionProblem::too_many:
    case Ipv6ExtensionProblem::option_discard:
      return;
  }
  report_parameter_problem(std::move(arrival), problem, even_to_group);
}

void Ip::receive_fragment(Arrival&& arrival, Fragment fragment) {
  ++count_.fragments_in;
  fragment.data = std::move(arrival.data);
  Reassembly::Added added = reassembly_.add(std::move(fragment), set().now());
  count_.reassembly_evicted += added.evicted;
  if (added.outcome != Reassembly::Outcome::complete) {
    return fragment_ended(added);
  }
  ++count_.fragments_held;
  ++count_.reassembled;
  arrival.data = std::move(added.datagram);
  arrival.protocol = added.protocol;
  arrival.header_size = added.header_size;
  if (arrival.source.is_v6()) {
    return reassembled_v6(std::move(arrival));
  }
  deliver(std::move(arrival));
}

void Ip::fragment_ended(const Reassembly::Added& added) {
  switch (added.outcome) {
    case Reassembly::Outcome::duplicate:
      ++count_.fragment_duplicate;
      break;
    case Reassembly::Outcome::overlap:
      ++count_.fragment_overlap;
      break;
    case Reassembly::Outcome::refused:
      ++count_.fragment_refused;
      break;
    case Reassembly::Outcome::out_of_range:
      ++count_.bad_fragment;
      break;
    case Reassembly::Outcome::no_room:
      ++count_.fragment_excess;
      break;
    case Reassembly::Outcome::held:
      ++count_.fragments_held;
      break;
    case Reassembly::Outcome::complete:
      break;
  }
}

/// Extension headers may follow the fragment header (RFC 8200 section 4.1: destination options).
void Ip::reassembled_v6(Arrival&& arrival) {
  arrival.fragmented = true;
  if (!gather(arrival.data, extensions_peek)) {
    ++count_.no_memory;
    return;
  }
  const auto walked =
      wire::walk_extensions(arrival.protocol, arrival.data.bytes(), arrival.data.size(), /*reassembled=*/true);
  if (!walked || walked->fragment) {
    ++count_.bad_extension;
    return;
  }
  arrival.protocol = walked->protocol;
  arrival.data.trim_front(walked->offset);
  arrival.header_size += walked->offset;
  deliver(std::move(arrival));
}

void Ip::deliver(Arrival&& arrival) {
  if (arrival.source.is_unspecified() && arrival.protocol != wire::protocol_icmp6) {
    ++count_.bad_source;
    return;
  }
  if (arrival.source.is_v4() && arrival.protocol == wire::protocol_icmp4) {
    return receive_icmp4(std::move(arrival));
  }
  if (arrival.source.is_v6() && arrival.protocol == wire::protocol_icmp6) {
    return receive_icmp6(std::move(arrival));
  }
  if (is_bound_to(arrival.protocol, arrival.destination)) {
    if (arrival.plain && !arrival.group && !arrival.from_self) {
      arrivals_.take(arrival.source, arrival.destination, arrival.protocol);
    }
    return to_user(std::move(arrival));
  }
  if (arrival.source.is_v4() && arrival.protocol == ip::protocol_igmp) {
    return receive_igmp(std::move(arrival));
  }
  const std::size_t datagrams = segments_in(arrival.data, arrival.protocol, arrival.segment_size);
  count_.packets_in += datagrams - 1;
  count_.unknown_protocol += datagrams;
  report_unknown_protocol(std::move(arrival));
}

/// The descriptor of the DL_UNITDATA_IND becomes that of the T_UNITDATA_IND.
void Ip::to_user(Arrival&& arrival) {
  Message message = std::move(arrival.primitive);
  if (!message.set_native(DataUnit{.kind = DataUnit::Kind::network_indication,
                                   .options = DataUnit::Options::received,
                                   .protocol = arrival.protocol,
                                   .hop_limit = arrival.hop_limit,
                                   .traffic_class = arrival.traffic_class,
                                   .group = arrival.group,
                                   .peer = arrival.source,
                                   .local = arrival.destination,
                                   .header_size = static_cast<std::uint16_t>(arrival.header_size),
                                   .segment_size = arrival.segment_size})) {
    ++count_.no_memory;
    return;
  }
  message.native<DataUnit>()->checksum_offloaded = arrival.checksum_offloaded;
  message.link(std::move(arrival.data));
  if (arrival.segment_size != 0) {
    count_segments(message, *message.native<DataUnit>());
  }
  ++count_.delivered;
  up_.push(std::move(message));
}

/// RFC 792: "If a host reassembling a fragmented datagram cannot complete the reassembly due to missing fragments
/// within its time limit it discards the datagram, and it may send a time exceeded message. If fragment zero is not
/// available then no time exceeded need be sent at all." RFC 8200 section 4.5: "should be sent".
void Ip::reassembly_expired(Reassembly::Expired expired) {
  ++count_.reassembly_timeout;
  if (!expired.first_fragment) {
    return;
  }
  const ip::FragmentKey& key = expired.key;
  report_reassembly_timeout({.primitive = {},
                             .data = std::move(expired.first_fragment),
                             .source = key.source,
                             .destination = key.destination,
                             .protocol = expired.protocol,
                             .group = !routes_.is_local(key.destination),
                             .header_size = expired.header_size});
}

}  // namespace sluice
