// SPDX-License-Identifier: Apache-2.0
// The ip module's groups: reports and queries of MLD (RFC 3810, RFC 2710) and IGMP (RFC 3376, RFC 2236, RFC 1112). What
// is reported when is the business of ip::Groups.

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/internet_checksum.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ndp.h"

namespace sluice {

using ip::GroupQuery;
using ip::GroupRecord;
using wire::Family;
using wire::IpAddress;
using wire::Ipv4Address;
using wire::Ipv4Header;
using wire::Ipv4View;
using wire::Ipv6Address;
using wire::Ipv6Header;

namespace {

enum Mld : std::uint8_t { mld_query = 130, mld_report = 131, mld_done = 132, mld_report_v2 = 143 };
enum Igmp : std::uint8_t {
  igmp_query = 0x11,
  igmp_report_v1 = 0x12,
  igmp_report_v2 = 0x16,
  igmp_leave = 0x17,
  igmp_report_v3 = 0x22,
};

constexpr Ipv6Address mld_routers{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};  // RFC 3810 section 5.2.14
constexpr Ipv4Address all_routers_v4{{224, 0, 0, 2}};
constexpr Ipv4Address igmp_routers{{224, 0, 0, 22}};  // RFC 3376 section 4.2.14

constexpr std::size_t report_header_size = 8;
/// RFC 2711 section 2.1: the hop-by-hop header that says "Datagram contains a Multicast Listener Discovery message",
/// padded to 8 bytes.
constexpr std::array<std::uint8_t, 8> router_alert_v6{wire::protocol_icmp6, 0, 5, 2, 0, 0, 1, 0};
constexpr std::array<std::uint8_t, 4> router_alert_v4{148, 4, 0, 0};  // RFC 2113 section 2.1
constexpr std::uint8_t internetwork_control = 0xc0;                   // RFC 3376 section 4

template <std::size_t Size>
void store(const std::array<std::uint8_t, Size>& octets, Bytes out) {
  std::ranges::copy(std::as_bytes(std::span(octets)), out.begin());
}

/// RFC 3810 section 5.1.3 and RFC 3376 section 4.1.1: a number, or from `floating` on a floating-point value of
/// `mantissa_bits` of mantissa and 3 of exponent.
std::uint32_t decoded(std::uint32_t code, std::uint32_t floating, unsigned mantissa_bits) {
  if (code < floating) {
    return code;
  }
  const std::uint32_t mantissa = (code & ((1U << mantissa_bits) - 1)) | (1U << mantissa_bits);
  return mantissa << (((code >> mantissa_bits) & 7U) + 3);
}

/// RFC 3810 section 8.1: a query is of MLDv1 when its "length = 24 octets", of MLDv2 when its "length >= 28 octets";
/// others "(e.g., a Query of length 26 octets) MUST be silently ignored."
std::optional<GroupQuery> parse_mld_query(ConstBytes message) {
  const std::size_t size = message.size();
  if (size < 24 || (size > 24 && size < 28)) {
    return std::nullopt;
  }
  const std::uint32_t code = load_big_endian<std::uint16_t>(message.data() + 4);
  const Ipv6Address group = Ipv6Address::load(message.data() + 8);
  if (!group.is_unspecified() && !group.is_multicast()) {
    return std::nullopt;
  }
  const std::uint32_t milliseconds = size == 24 ? code : decoded(code, 32768, 12);
  return GroupQuery{
      .version = size == 24 ? 1U : 2U, .group = group, .delay_max = std::chrono::milliseconds(milliseconds)};
}

/// RFC 3376 section 7.1: version 1 is 8 octets with a zero code, version 2 is 8 octets, version 3 is 12 or more; others
/// "MUST be silently ignored". Version 1 has a delay of 10 seconds (RFC 1112 appendix I).
std::optional<GroupQuery> parse_igmp_query(ConstBytes message) {
  const std::size_t size = message.size();
  const Ipv4Address group = Ipv4Address::load(message.data() + 4);
  if ((size > 8 && size < 12) || (!group.is_unspecified() && !group.is_multicast())) {
    return std::nullopt;
  }
  const auto code = std::to_integer<std::uint32_t>(message[1]);
  const unsigned version = size >= 12 ? 3 : code == 0 ? 1 : 2;
  const std::uint32_t tenths = version == 3 ? decoded(code, 128, 4) : version == 2 ? code : 100;
  return GroupQuery{.version = version, .group = group, .delay_max = std::chrono::milliseconds(100 * tenths)};
}

/// RFC 3810 section 6: all-nodes, and what is of no more than the interface's scope, is never reported. RFC 3376
/// section 4: nor is 224.0.0.1.
bool is_reported(const IpAddress& group) {
  return group.is_v6() ? group != IpAddress(wire::ipv6_all_nodes) && (group.v6().octets[1] & 0xfU) > 1
                       : group != IpAddress(Ipv4Address{{224, 0, 0, 1}});
}

/// Whether `options`, of a hop-by-hop header, have a router alert. RFC 2711 section 2.1: its length is 2.
bool has_router_alert(ConstBytes options) {
  while (options.size() >= 2) {
    if (options[0] == std::byte{0}) {
      options = options.subspan(1);
      continue;
    }
    const std::size_t size = 2 + std::to_integer<std::size_t>(options[1]);
    if (size > options.size()) {
      return false;
    }
    if (options[0] == std::byte{5} && size == 4) {
      return true;
    }
    options = options.subspan(size);
  }
  return false;
}

}  // namespace

Status Ip::join(const IpAddress& group) {
  if (!group.is_multicast() || !routes_.has(group.family())) {
    return fail(EADDRNOTAVAIL, "ip: " + group.to_text() + " is no group that this host can be in");
  }
  const bool news = !routes_.is_member(group);
  if (!routes_.join(group)) {
    return fail(ENOBUFS, "ip: too many groups");
  }
  if (news) {
    enter_group(group);
    finish();
  }
  return {};
}

/// A group that we are in from now on: the driver and the routers are told.
void Ip::enter_group(const IpAddress& group) {
  if (!link_.ready()) {
    return;
  }
  link_.join(wire::multicast_mac(group));
  advance_link();
  if (is_reported(group)) {
    tell_address(group, true);
    static_cast<void>(groups_of(group.family()).join(group, set().now()));
  }
  arm_host_timer();
}

void Ip::leave(const IpAddress& group) {
  const bool was_member = routes_.is_member(group);
  routes_.leave(group);
  if (was_member && !routes_.is_member(group)) {
    leave_group(group);
    finish();
  }
}

/// The driver is told, as of addresses, so that of the streams that are in a group one reports it.
void Ip::tell_groups() {
  for (const IpAddress& group : routes_.groups()) {
    if (is_reported(group)) {
      tell_address(group, true);
    }
  }
}

/// What the driver has told of a group; nullptr: no other stream of the link is in it.
const wire::dlpi::AnswerInd* Ip::told_of_group(const IpAddress& group) const {
  const auto told = std::ranges::find(answering_, group, &wire::dlpi::AnswerInd::address);
  return told == answering_.end() ? nullptr : &*told;
}

bool Ip::reports_group(const IpAddress& group) const {
  const wire::dlpi::AnswerInd* const told = told_of_group(group);
  return told == nullptr || told->answers;
}

/// RFC 3376 section 3.2: "In addition to the per-socket multicast reception state, a system must also maintain or
/// compute multicast reception state for each of its interfaces." The streams of a link are the sockets of one host.
void Ip::stop_reporting(const IpAddress& group) {
  ip::Groups& groups = groups_of(group.family());
  told_of_group(group) != nullptr ? groups.forget(group) : groups.leave(group, set().now());
}

/// A group that we are in no longer; other groups may have its MAC address.
void Ip::leave_group(const IpAddress& group) {
  if (!link_.ready()) {
    return groups_of(group.family()).forget(group);
  }
  const wire::MacAddress mac = wire::multicast_mac(group);
  const std::vector<IpAddress> left = routes_.groups();
  if (std::ranges::none_of(left, [&](const IpAddress& other) { return wire::multicast_mac(other) == mac; })) {
    ask_link(wire::dlpi::DisabmultiReq{mac}, MessageType::proto);
  }
  stop_reporting(group);
  tell_address(group, false);
  arm_host_timer();
}

/// The stream is closed. RFC 2710 section 4: "When a node ceases to listen to a multicast address on an interface, it
/// SHOULD send a single Done message to the link-scope all-routers multicast address (FF02::2)"; RFC 3810 section 6.1
/// has a State Change Report, of which this is the first and only one: nobody is left to repeat it.
void Ip::leave_groups() {
  if (!link_.ready()) {
    return;
  }
  for (const IpAddress& group : routes_.groups()) {
    stop_reporting(group);
  }
  for (const Family family : {Family::ipv4, Family::ipv6}) {
    groups_of(family).expire(set().now());
  }
}

void Ip::start_groups(Family family) {
  std::vector<IpAddress> reported = routes_.groups();
  std::erase_if(reported, [&](const IpAddress& group) { return group.family() != family || !is_reported(group); });
  groups_of(family).begin(reported, set().now());
  arm_host_timer();
}

/// RFC 3810 section 6.2: "Upon reception of an MLD message that contains a Query, the node checks if the source address
/// of the message is a valid link-local address, if the Hop Limit is set to 1, and if the Router Alert option is
/// present in the Hop-By-Hop Options header of the IPv6 packet. If any of these checks fails, the packet is dropped."
void Ip::receive_mld(Arrival&& arrival) {
  Message& data = arrival.data;
  const bool from_link = arrival.source.is_link_local() && arrival.hop_limit == 1 && arrives_with_router_alert(arrival);
  if (!from_link || !gather(data, data.size()) || data.size() < 24) {
    ++count_.bad_group_message;
    return;
  }
  const auto type = std::to_integer<std::uint8_t>(data.bytes()[0]);
  if (type != mld_query) {
    mld_.heard_report(Ipv6Address::load(data.bytes().data() + 8), set().now());
    ++count_.group_reports_in;
    return;
  }
  const auto query = parse_mld_query(data.bytes());
  ++(query ? count_.group_queries : count_.bad_group_message);
  if (query) {
    mld_.query(*query, set().now());
    arm_host_timer();
  }
}

/// RFC 3376 section 4: IGMP messages have "an IP TTL of 1". Threat: what has another came through a router that we do
/// not know.
void Ip::receive_igmp(Arrival&& arrival) {
  Message& data = arrival.data;
  if (!icmp_verified(data, 0)) {
    return;
  }
  if (arrival.hop_limit != 1 || !gather(data, data.size()) || data.size() < 8) {
    ++count_.bad_group_message;
    return;
  }
  const auto type = std::to_integer<std::uint8_t>(data.bytes()[0]);
  if (type != igmp_query) {
    if (type == igmp_report_v1 || type == igmp_report_v2) {
      igmp_.heard_report(Ipv4Address::load(data.bytes().data() + 4), set().now());
    }
    ++count_.group_reports_in;
    return;
  }
  const auto query = parse_igmp_query(data.bytes());
  ++(query ? count_.group_queries : count_.bad_group_message);
  if (query) {
    igmp_.query(*query, set().now());
    arm_host_timer();
  }
}

bool Ip::arrives_with_router_alert(const Arrival& arrival) {
  const ConstBytes headers = headers_of(arrival);
  if (headers.size() < Ipv6Header::size + 8) {
    return false;
  }
  const ConstBytes extensions = headers.subspan(Ipv6Header::size);
  const std::size_t size = 8 + 8 * std::to_integer<std::size_t>(extensions[1]);
  return wire::Ipv6View::check_quoted(headers)->next_header() == wire::protocol_hop_by_hop &&
         size <= extensions.size() && has_router_alert(extensions.first(size).subspan(2));
}

/// RFC 3810 section 5.2 and RFC 3376 section 4.2: records without sources.
void Ip::report_groups(std::span<const GroupRecord> all) {
  std::vector<GroupRecord> records(all.begin(), all.end());
  std::erase_if(records, [this](const GroupRecord& record) { return !reports_group(record.group); });
  if (records.empty()) {
    return;
  }
  const bool v6 = records.front().group.is_v6();
  const std::size_t record_size = v6 ? 20 : 8;
  std::array<std::byte, report_header_size + 20 * ip::Groups::groups_max> bytes{};
  const Bytes body = Bytes(bytes).first(report_header_size + record_size * records.size());
  body[0] = static_cast<std::byte>(v6 ? std::uint8_t{mld_report_v2} : std::uint8_t{igmp_report_v3});
  store_big_endian(body.data() + 6, static_cast<std::uint16_t>(records.size()));
  std::byte* at = body.data() + report_header_size;
  for (const GroupRecord& record : records) {
    at[0] = static_cast<std::byte>(record.type);
    record.group.store(at + 4);
    at += record_size;
  }
  v6 ? send_mld(body, mld_routers) : send_igmp(body, igmp_routers);
}

/// RFC 2710 section 8: a Report goes to "the multicast address being reported", a Done to "link-scope all-routers". RFC
/// 2236 section 9 likewise.
void Ip::report_group(const IpAddress& group, bool left, unsigned version) {
  if (!reports_group(group)) {
    return;
  }
  std::array<std::byte, 24> bytes{};
  if (group.is_v6()) {
    bytes[0] = static_cast<std::byte>(left ? mld_done : mld_report);
    group.store(bytes.data() + 8);
    return send_mld(bytes, left ? wire::ipv6_all_routers : group.v6());
  }
  bytes[0] = static_cast<std::byte>(left ? igmp_leave : version == 1 ? igmp_report_v1 : igmp_report_v2);
  group.store(bytes.data() + 4);
  send_igmp(Bytes(bytes).first(8), left ? all_routers_v4 : group.v4());
}

/// RFC 3810 section 5: "All MLDv2 messages described in this document MUST be sent with a link-local IPv6 Source
/// Address, an IPv6 Hop Limit of 1, and an IPv6 Router Alert option [RFC2711] in a Hop-by-Hop Options header". Section
/// 5.2.13: "or with the unspecified address (::), if the sending interface has not acquired a valid link-local address
/// yet".
void Ip::send_mld(ConstBytes body, const Ipv6Address& destination) {
  if (!has_ipv6() || !link_.ready()) {
    return;
  }
  constexpr std::size_t headers = Ipv6Header::size + router_alert_v6.size();
  Message carrier = new_carrier();
  Message data = Message::allocate(set().pool(), headers + body.size());
  if (!carrier || !data) {
    ++count_.no_memory_out;
    return;
  }
  const Ipv6Address source = routes_.source_for(destination).value_or(IpAddress(Ipv6Address{})).v6();
  const Bytes out = data.append(headers + body.size());
  std::ranges::copy(body, out.begin() + headers);
  data.first().rptr += headers;
  data.transform(
      Sum{wire::pseudo_header_sum(source, destination, wire::protocol_icmp6, static_cast<std::uint32_t>(body.size())),
          data.bytes().data() + wire::icmp_checksum_offset, false});
  data.first().rptr -= headers;
  store(router_alert_v6, out.subspan(Ipv6Header::size));
  Ipv6Header{.payload_length = static_cast<std::uint16_t>(router_alert_v6.size() + body.size()),
             .next_header = wire::protocol_hop_by_hop,
             .hop_limit = 1,
             .source = source,
             .destination = destination}
      .emit(out);
  carrier.link(std::move(data));
  ++count_.group_reports_out;
  to_link(std::move(carrier), wire::multicast_mac(destination), wire::ethertype_ipv6);
}

/// RFC 3376 section 4: "Every IGMP message described in this document is sent with an IP Time-to-Live of 1, IP
/// Precedence of Internetwork Control (e.g., Type of Service 0xc0), and carries an IP Router Alert option [RFC-2113] in
/// its IP header."
void Ip::send_igmp(ConstBytes body, const Ipv4Address& destination) {
  if (!link_.ready()) {
    return;
  }
  constexpr std::size_t header_size = Ipv4Header::size + router_alert_v4.size();
  constexpr std::size_t checksum_offset = 10;
  Message carrier = new_carrier();
  Message data = Message::allocate(set().pool(), header_size + body.size());
  if (!carrier || !data) {
    ++count_.no_memory_out;
    return;
  }
  const Bytes out = data.append(header_size + body.size());
  std::ranges::copy(body, out.begin() + header_size);
  data.first().rptr += header_size;
  data.transform(Sum{0, data.bytes().data() + wire::icmp_checksum_offset, false});
  data.first().rptr -= header_size;
  Ipv4Header{.type_of_service = internetwork_control,
             .payload_length = static_cast<std::uint16_t>(router_alert_v4.size() + body.size()),
             .identification = identification_++,
             .time_to_live = 1,
             .protocol = ip::protocol_igmp,
             .source = routes_.source_for(destination).value_or(IpAddress()).v4(),
             .destination = destination}
      .emit(out);
  store(router_alert_v4, out.subspan(Ipv4Header::size));
  out[0] = static_cast<std::byte>(0x40U | header_size / 4);
  store_checksum(out.data() + checksum_offset, 0);
  store_checksum(out.data() + checksum_offset, checksum_of(header_sum(out.first(header_size))));
  carrier.link(std::move(data));
  ++count_.group_reports_out;
  to_link(std::move(carrier), wire::multicast_mac(destination), wire::ethertype_ipv4);
}

}  // namespace sluice
