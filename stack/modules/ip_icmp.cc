// SPDX-License-Identifier: Apache-2.0
// The ip module's ICMP (RFC 792, RFC 1122 section 3.2.2) and ICMPv6 (RFC 4443).

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/checksum.h"

namespace sluice {

namespace network = wire::network;
using wire::DataUnit;
using wire::Icmp4Message;
using wire::Icmp6Message;
using wire::Icmp6Type;
using wire::IcmpEcho;
using wire::IpAddress;
using wire::Ipv4View;
using wire::Ipv6View;

namespace {

constexpr std::size_t transport_quoted_min = 8;
/// RFC 1812 section 4.3.2.3: "SHOULD contain as much of the original datagram as possible without the length of the
/// ICMP datagram exceeding 576 bytes." RFC 4443 section 2.4 (c): "without making the error message packet exceed the
/// minimum IPv6 MTU".
constexpr std::size_t quoted_max_v4 = 576 - wire::Ipv4Header::size - wire::icmp_header_size;
constexpr std::size_t quoted_max_v6 = ip::mtu_min_v6 - wire::Ipv6Header::size - wire::icmp_header_size;
/// What of an error's quotation is looked at.
constexpr std::size_t quoted_peek = 256;
constexpr std::uint8_t protocol_of(const IpAddress& address) {
  return address.is_v4() ? wire::protocol_icmp4 : wire::protocol_icmp6;
}

/// The pseudo-header's part of the sum: ICMPv6 has one (RFC 4443 section 2.3), ICMP has none.
std::uint16_t initial_sum(const IpAddress& source, const IpAddress& destination, std::size_t size) {
  return source.is_v4()
             ? std::uint16_t{0}
             : wire::pseudo_header_sum(source, destination, wire::protocol_icmp6, static_cast<std::uint32_t>(size));
}

void emit(const Icmp4Message& message, Bytes out) { wire::emit_icmp4(message, out); }
void emit(const Icmp6Message& message, Bytes out) { wire::emit_icmp6(message, out); }

}  // namespace

/// ICMP is acted on here, so its sum is checked now, on any path. Counts what fails.
bool Ip::icmp_verified(Message& message, std::uint16_t initial) {
  const TransformResult result = message.transform(Check{initial}, handle(), count_.icmp_bad_checksum);
  if (result == TransformResult::deferred) {
    return materialize(message, Side::read) == TransformResult::done;
  }
  count_.icmp_bad_checksum += result == TransformResult::failed ? 1U : 0U;
  return result == TransformResult::done;
}

void Ip::receive_icmp4(Arrival&& arrival) {
  if (!icmp_verified(arrival.data, 0)) {
    return;
  }
  constexpr std::byte redirect4{5};
  if (config_.redirects && gather(arrival.data, wire::icmp_header_size) &&
      arrival.data.bytes().size() >= wire::icmp_header_size && arrival.data.bytes()[0] == redirect4) {
    return receive_redirect4(std::move(arrival));
  }
  const auto message = gather(arrival.data, wire::icmp_header_size)
                           ? wire::parse_icmp4(arrival.data.bytes())
                           : std::unexpected(wire::Icmp4Malformed::short_message);
  if (!message) {
    if (message.error() == wire::Icmp4Malformed::unknown_type) {
      return ignore_or_deliver(std::move(arrival));
    }
    ++count_.icmp_malformed;
    return;
  }
  if (is_error(*message)) {
    return receive_error4(std::move(arrival), *message);
  }
  const IcmpEcho& echo = std::get<IcmpEcho>(*message);
  // RFC 1122 section 3.2.2.6: "An ICMP Echo Request destined to an IP broadcast or IP multicast address MAY be silently
  // discarded."
  if (echo.reply || arrival.group) {
    return ignore_or_deliver(std::move(arrival));
  }
  answer_echo(std::move(arrival), echo);
}

void Ip::receive_icmp6(Arrival&& arrival) {
  const std::uint16_t initial = initial_sum(arrival.source, arrival.destination, arrival.data.size());
  if (!icmp_verified(arrival.data, initial)) {
    return;
  }
  if (!gather(arrival.data, wire::icmp_header_size)) {
    ++count_.no_memory;
    return;
  }
  const auto type = wire::icmp6_type(arrival.data.bytes());
  // RFC 6980 section 5: "Nodes MUST silently ignore the following Neighbor Discovery and SEcure Neighbor Discovery
  // messages if the packets carrying them include an IPv6 Fragmentation Header: Neighbor Solicitation, Neighbor
  // Advertisement, Router Solicitation, Router Advertisement, Redirect, Certification Path Solicitation". (SEND, RFC
  // 3971, is ignored anyway.)
  if (arrival.fragmented && type >= Icmp6Type::router_solicitation && type <= Icmp6Type::redirect) {
    ++count_.bad_ndp;
    return;
  }
  const bool from_router = config_.autoconfigure && type == Icmp6Type::router_advertisement;
  if (from_router || type == Icmp6Type::neighbor_solicitation || type == Icmp6Type::neighbor_advertisement) {
    // RFC 4861 sections 6.1.2, 7.1.1 and 7.1.2: "The IP Hop Limit field has a value of 255, i.e., the packet could not
    // possibly have been forwarded by a router."
    if (arrival.hop_limit != wire::ndp_hop_limit || !gather(arrival.data, arrival.data.size())) {
      ++count_.bad_ndp;
      return;
    }
    return from_router                                ? receive_router_advertisement(arrival)
           : type == Icmp6Type::neighbor_solicitation ? receive_solicitation(arrival)
                                                      : receive_advertisement(arrival);
  }
  if (routes_.is_local(arrival.source) && !arrival.from_self) {
    ++count_.bad_source;
    return;
  }
  if (config_.redirects && type == Icmp6Type::redirect) {
    return receive_redirect6(std::move(arrival));
  }
  constexpr std::uint8_t mld_first = 130;  // query, report, done: RFC 2710 section 3.1
  constexpr std::uint8_t mld_last = 132;
  const auto number = arrival.data.bytes().empty() ? 0 : std::to_integer<std::uint8_t>(arrival.data.bytes()[0]);
  if (number >= mld_first && number <= mld_last) {
    return receive_mld(std::move(arrival));
  }
  const auto message = wire::parse_icmp6(arrival.data.bytes());
  if (!message && message.error() == wire::Icmp6Malformed::unknown_type) {
    return ignore_or_deliver(std::move(arrival));
  }
  if (!message || arrival.source.is_unspecified()) {
    ++count_.icmp_malformed;
    return;
  }
  if (is_error(*message)) {
    return receive_error6(std::move(arrival), *message);
  }
  const IcmpEcho& echo = std::get<IcmpEcho>(*message);
  if (echo.reply) {
    return ignore_or_deliver(std::move(arrival));
  }
  answer_echo(std::move(arrival), echo);
}

/// A user that is bound to ICMP gets what ip itself has no use for.
void Ip::ignore_or_deliver(Arrival&& arrival) {
  if (is_bound_to(protocol_of(arrival.source), arrival.destination)) {
    return to_user(std::move(arrival));
  }
  ++count_.icmp_ignored;
}

/// RFC 1122 section 3.2.2.6: "Every host MUST implement an ICMP Echo server function", "Data received in an ICMP Echo
/// Request MUST be entirely included in the resulting Echo Reply", "The IP source address in an ICMP Echo Reply MUST be
/// the same as the specific-destination address". RFC 4443 section 4.2 likewise; to a group, it "MUST be a unicast
/// address belonging to the interface on which the multicast Echo Request message was received".
void Ip::answer_echo(Arrival&& arrival, const IcmpEcho& request) {
  if (!config_.answer_echo || filtered_ || !answers_for(arrival.destination)) {
    ++count_.icmp_ignored;
    return;
  }
  Outgoing outgoing{.destination = arrival.source,
                    .source = arrival.group ? std::nullopt : std::optional(arrival.destination),
                    .protocol = protocol_of(arrival.source),
                    .traffic_class = arrival.traffic_class};
  const ip::EchoOptions options = arrival.has_options ? echo_options(arrival) : ip::EchoOptions{};
  outgoing.options = options.view();
  if (options.first_hop) {
    outgoing.destination = *options.first_hop;
  }
  // Threat: the route of a forged request may name whom we would flood.
  if (options.first_hop && (!routes_.is_host(outgoing.destination) || routes_.is_local(outgoing.destination))) {
    ++count_.icmp_ignored;
    return;
  }
  Message& data = arrival.data;
  data.trim_front(wire::icmp_header_size);
  const Bytes header = data.prepend(wire::icmp_header_size);
  if (header.empty()) {
    ++count_.no_memory;
    return;
  }
  const IcmpEcho reply{true, request.identifier, request.sequence};
  if (arrival.source.is_v4()) {
    emit(Icmp4Message(reply), header);
  } else {
    emit(Icmp6Message(reply), header);
  }
  const int error = send_icmp(outgoing, std::move(arrival.primitive), std::move(data));
  ++(error == 0 ? count_.echo_answered : error == ENOBUFS ? count_.no_memory : count_.icmp_ignored);
}

/// Those of the request lie where receiving left them, in front of the data; of one in fragments, those of the first.
ip::EchoOptions Ip::echo_options(const Arrival& arrival) const {
  const ConstBytes headers = headers_of(arrival);
  if (headers.empty()) {
    return {};
  }
  const Ipv4View view = *Ipv4View::check_quoted(headers);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(set().now().time_since_epoch());
  return ip::options_of_reply(view.options(), view.source(), view.destination(),
                              static_cast<std::uint32_t>(milliseconds.count()) & 0x7fff'ffffU);
}

/// Sums and sends an ICMP message whose checksum field is zero. Returns 0 or an errno: ENOBUFS without memory, others
/// without a route.
int Ip::send_icmp(const Outgoing& outgoing, Message carrier, Message data) {
  if (const int error = route_to(outgoing.destination, outgoing.source); error != 0) {
    return error;
  }
  const Sum sum{.initial = initial_sum(route_.source, outgoing.destination, data.size()),
                .field = data.bytes().data() + wire::icmp_checksum_offset,
                .zero_is_sent_as_ones = false};
  if (carrier && carrier.set_native(DataUnit{})) {
    carrier.first().type = MessageType::proto;
  } else {
    carrier = new_carrier();
  }
  if (!carrier || data.transform(sum) == TransformResult::failed || send_datagram(outgoing, carrier, data) != 0) {
    return ENOBUFS;
  }
  return 0;
}

void Ip::receive_error4(Arrival&& arrival, const Icmp4Message& message) {
  arrival.data.trim_front(wire::icmp_header_size);
  const auto view = gather(arrival.data, quoted_peek) ? Ipv4View::check_quoted(arrival.data.bytes())
                                                      : std::unexpected(wire::Ipv4Malformed::short_header);
  if (!view || view->fragment_offset() != 0) {
    ++count_.icmp_unmatched;
    return;
  }
  const auto* unreachable = std::get_if<wire::Icmp4Unreachable>(&message);
  const bool too_big = unreachable != nullptr && unreachable->code == wire::Icmp4UnreachableCode::fragmentation_needed;
  receive_error(std::move(arrival),
                {.source = view->source(),
                 .destination = view->destination(),
                 .protocol = view->protocol(),
                 .header_size = view->header_length(),
                 .packet_size = view->total_length(),
                 .error = ip::errno_of(message),
                 .mtu = too_big ? std::optional<std::uint32_t>(unreachable->next_hop_mtu) : std::nullopt});
}

/// What we send has no extension header but the fragment header.
void Ip::receive_error6(Arrival&& arrival, const Icmp6Message& message) {
  arrival.data.trim_front(wire::icmp_header_size);
  const auto view = gather(arrival.data, quoted_peek) ? Ipv6View::check_quoted(arrival.data.bytes())
                                                      : std::unexpected(wire::Ipv6Malformed::short_header);
  const bool is_fragment = view && view->next_header() == wire::protocol_ipv6_fragment;
  const auto fragment =
      is_fragment ? wire::Ipv6FragmentHeader::parse(arrival.data.bytes().subspan(Ipv6View::header_size)) : std::nullopt;
  if (!view || (is_fragment && (!fragment || fragment->offset != 0))) {
    ++count_.icmp_unmatched;
    return;
  }
  const auto* too_big = std::get_if<wire::Icmp6PacketTooBig>(&message);
  receive_error(std::move(arrival),
                {.source = view->source(),
                 .destination = view->destination(),
                 .protocol = fragment ? fragment->next_header : view->next_header(),
                 .header_size = Ipv6View::header_size + (fragment ? wire::Ipv6FragmentHeader::size : 0),
                 .packet_size = Ipv6View::header_size + view->payload_length(),
                 .error = ip::errno_of(message),
                 .mtu = too_big != nullptr ? std::optional(too_big->mtu) : std::nullopt});
}

/// RFC 1122 section 3.2.2: "the ICMP error message [...] the IP protocol number MUST be extracted from the original
/// header and used to select the appropriate transport protocol entity to handle the error." What it quotes must be of
/// a flow of that entity (ip_flows.h has the threat), and long enough to have been sent.
void Ip::receive_error(Arrival&& arrival, const Quoted& quoted) {
  const ConstBytes bytes = arrival.data.bytes();
  const std::size_t seen = quoted.header_size + transport_quoted_min;
  std::uint32_t first_word = 0;
  const ip::Flow* flow = nullptr;
  if (bytes.size() >= seen && quoted.packet_size >= seen) {
    std::memcpy(&first_word, bytes.data() + quoted.header_size, sizeof first_word);
    flow = flows_.find({.source = quoted.source,
                        .destination = quoted.destination,
                        .protocol = quoted.protocol,
                        .ports = ip::ports_of(quoted.protocol, first_word)});
  }
  if (flow == nullptr || !bound_ || bound_->protocol != quoted.protocol ||
      !(bound_->address.is_unspecified() || bound_->address == quoted.source)) {
    ++count_.icmp_unmatched;
    return;
  }
  if (quoted.mtu && !path_mtu_reported(quoted, *flow)) {
    return;
  }
  ++count_.icmp_errors_in;
  const std::uint32_t link = link_mtu(quoted.destination.family());
  arrival.data.trim_front(quoted.header_size);
  report(quoted.destination, quoted.protocol,
         {quoted.source, quoted.mtu ? path_mtu_.lookup(quoted.destination, link, set().now()).mtu : 0}, quoted.error,
         std::move(arrival.data));
}

/// Whether the user is to hear of it: one who lets his datagrams be fragmented need not, since the next one leaves in
/// fragments of the right size.
bool Ip::path_mtu_reported(const Quoted& quoted, const ip::Flow& flow) {
  const bool dont_fragment = flow.dont_fragment;
  switch (path_mtu_.report(quoted.destination, *quoted.mtu, static_cast<std::uint32_t>(quoted.packet_size),
                           link_mtu(quoted.destination.family()), set().now())) {
    case ip::PathMtu::Report::implausible:
      ++count_.icmp_implausible;
      return false;
    case ip::PathMtu::Report::lowered:
      ++count_.path_mtu_lowered;
      routes_changed(quoted.destination);
      break;
    case ip::PathMtu::Report::known:
      break;
  }
  count_.icmp_mtu_heeded += dont_fragment ? 0U : 1U;
  return dont_fragment;
}

/// RFC 1122 section 3.2.2: "An ICMP error message MUST NOT be sent as the result of receiving: an ICMP error message,
/// or a datagram destined to an IP broadcast or IP multicast address, or a datagram sent as a link-layer broadcast, or
/// a non-initial fragment, or a datagram whose source address does not define a single host -- e.g., a zero address, a
/// loopback address, a broadcast address, a multicast address, or a Class E address." Other sources and fragments were
/// looked at before.
bool Ip::may_answer_error(const Arrival& arrival, bool even_to_group) {
  const bool from_icmp = arrival.protocol == protocol_of(arrival.source);
  if (filtered_ || !answers_for(arrival.destination) || (arrival.group && !even_to_group) ||
      arrival.source.is_unspecified() || arrival.source.is_loopback() ||
      (from_icmp && (arrival.data.bytes().empty() ||
                     !ip::may_be_answered_by_error(arrival.source.family(), arrival.data.bytes()[0])))) {
    return false;
  }
  if (!error_budget_.take(set().now())) {
    ++count_.icmp_errors_limited;
    return false;
  }
  return true;
}

/// The headers, where receiving left them: in front of the data. Empty where they are gone, or are another packet's.
ConstBytes Ip::headers_of(const Arrival& arrival) {
  const Block& block = arrival.data.first();
  const auto before = static_cast<std::size_t>(block.rptr - block.buffer->base());
  if (before < arrival.header_size) {
    return {};
  }
  const ConstBytes headers(block.rptr - arrival.header_size, arrival.header_size);
  const auto matches = [&](const auto& view) {
    return view && IpAddress(view->source()) == arrival.source && IpAddress(view->destination()) == arrival.destination;
  };
  const bool right =
      arrival.source.is_v4() ? matches(Ipv4View::check_quoted(headers)) : matches(Ipv6View::check_quoted(headers));
  return right ? headers : ConstBytes();
}

/// Moves the packet's start back to its network header, which receiving left where it was; RFC 1122 section 3.2.2:
/// "this header (and data) MUST be unchanged from the received datagram".
bool Ip::restore_header(Arrival& arrival) {
  const ConstBytes headers = headers_of(arrival);
  arrival.data.first().rptr -= headers.size();
  return !headers.empty();
}

/// Whether a datagram that we have no user for may be one of another stream's: one has a filter and this address, and
/// the datagram went to every stream of the link, as a fragment, which does not tell its port, or as one with IPv6
/// extension headers. Nobody is told then that a port is closed which may be open; what is not told is counted.
bool Ip::may_be_anothers(const Arrival& arrival) {
  const wire::dlpi::AnswerInd* const told = told_of(arrival.destination);
  if (told == nullptr || !told->shared) {
    return false;
  }
  const ConstBytes headers = headers_of(arrival);
  const bool unsure = headers.empty() || (arrival.source.is_v4() ? Ipv4View::check_quoted(headers)->is_fragment()
                                                                 : headers.size() > Ipv6View::header_size);
  count_.icmp_errors_unsure += unsure ? 1U : 0U;
  return unsure;
}

template <class IcmpMessage>
void Ip::answer_error(Arrival&& arrival, const IcmpMessage& message, bool even_to_group) {
  if (!may_answer_error(arrival, even_to_group)) {
    return;
  }
  if (!restore_header(arrival)) {
    ++count_.icmp_errors_unquotable;
    return;
  }
  Message& quoted = arrival.data;
  const std::size_t size = quoted.size();
  quoted.trim_back(size - std::min(size, arrival.source.is_v4() ? quoted_max_v4 : quoted_max_v6));
  const Bytes header = quoted.prepend(wire::icmp_header_size);
  if (header.empty()) {
    ++count_.no_memory_out;
    return;
  }
  emit(message, header);
  const Outgoing outgoing{.destination = arrival.source,
                          .source = arrival.group ? std::nullopt : std::optional(arrival.destination),
                          .protocol = protocol_of(arrival.source)};
  const int error = send_icmp(outgoing, std::move(arrival.primitive), std::move(quoted));
  ++(error == 0 ? count_.icmp_errors_out : error == ENOBUFS ? count_.no_memory_out : count_.icmp_errors_unroutable);
}

void Ip::report_parameter_problem(Arrival&& arrival, const wire::Icmp6ParameterProblem& problem, bool even_to_group) {
  answer_error(std::move(arrival), Icmp6Message(problem), even_to_group);
}

/// RFC 1122 section 3.2.2.1: "A host SHOULD generate Destination Unreachable messages with code 2 (Protocol
/// Unreachable), when the designated transport protocol is not supported". RFC 8200 section 4: "an ICMP Parameter
/// Problem message to the source of the packet, with an ICMP Code value of 1 ("unrecognized Next Header type
/// encountered")"; nothing follows a No Next Header, so that is no error (section 4.7).
void Ip::report_unknown_protocol(Arrival&& arrival) {
  if (may_be_anothers(arrival)) {
    return;
  }
  if (arrival.source.is_v4()) {
    return answer_error(std::move(arrival),
                        Icmp4Message(wire::Icmp4Unreachable{.code = wire::Icmp4UnreachableCode::protocol}));
  }
  if (arrival.protocol != wire::protocol_ipv6_no_next) {
    constexpr std::uint8_t unrecognised_next_header = 1;
    const std::uint32_t pointer = arrival.protocol_field;
    answer_error(std::move(arrival), Icmp6Message(wire::Icmp6ParameterProblem{unrecognised_next_header, pointer}));
  }
}

void Ip::report_reassembly_timeout(Arrival&& arrival) {
  constexpr std::uint8_t in_reassembly = 1;
  if (arrival.source.is_v4()) {
    return answer_error(std::move(arrival), Icmp4Message(wire::Icmp4TimeExceeded{in_reassembly}));
  }
  answer_error(std::move(arrival), Icmp6Message(wire::Icmp6TimeExceeded{in_reassembly}));
}

/// RFC 1122 section 4.1.3.1: "If a datagram arrives addressed to a UDP port for which there is no pending LISTEN call,
/// UDP SHOULD send an ICMP Port Unreachable message."
void Ip::answer_unreachable(Message request) {
  const auto unreachable = network::UnreachableReq::decode(request.bytes());
  Message data = request.unlink();
  if (!unreachable || !data || unreachable->source.family() != unreachable->local.family()) {
    ++count_.bad_request;
    return;
  }
  Arrival arrival{.primitive = std::move(request),
                  .data = std::move(data),
                  .source = unreachable->source,
                  .destination = unreachable->local,
                  .group = !routes_.is_self(unreachable->local),
                  .header_size = unreachable->header_size,
                  .link_source = {}};
  if (may_be_anothers(arrival)) {
    return;
  }
  if (arrival.source.is_v4()) {
    return answer_error(std::move(arrival), Icmp4Message(wire::Icmp4Unreachable{}));
  }
  answer_error(std::move(arrival), Icmp6Message(wire::Icmp6Unreachable{}));
}

}  // namespace sluice
