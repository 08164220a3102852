// SPDX-License-Identifier: Apache-2.0
#pragma once

// ip - IPv4 and IPv6 for one stream on a link
//
// A host, not a router: it sends and receives datagrams of its own addresses, fragments and reassembles, speaks ARP and
// neighbour discovery, answers ICMP and hands ICMP errors up. One user above it, bound to one protocol.
//
// Accepts and produces
//   Below: a DLPI driver, connectionless mode, SAPs 0x0800, 0x0806 and 0x86dd (stack/wire/dlpi.h). Answers may come at
//   once or later; until the link is ready datagrams are refused with ENETDOWN. Above: TPI primitives with
//   NetworkAddress (stack/wire/address.h), and M_CTL requests (stack/wire/network.h):
//     T_BIND_REQ          one of our addresses and a protocol; an unspecified address means all, of both families
//     T_UNITDATA_REQ/IND  one datagram each, M_DATA from the transport header on
//     T_UDERROR_IND       could not be sent, or an ICMP error came back; errno and what is known of the datagram
//     local management    as every connectionless provider here: stack/provider/connectionless.h
//     M_CTL RouteReq, UnreachableReq, SettingsReq, GroupReq
//     M_CTL dlpi::FilterReq  completed and passed down, for both families where it names no SAP; its DL_OK_ACK or
//                            DL_ERROR_ACK comes up in M_CTL
//   Everything else passes through.
//   Received data is a window on the driver's buffers; reassembled data a chain of them. Sent data is never copied: the
//   header goes into its headroom, fragments share its buffer.
//
// What is answered
//   When several streams share a link each learns from what arrives, and for each address one answers, the same for
//   all questions: the first that has no filter, else the first (DL_ANSWER_IND, stack/wire/answering.h). Any stream
//   answers ARP and neighbour solicitations so. Echo requests, and errors (protocol or port unreachable, reassembly
//   time exceeded, parameter problem), only from a stream that has no filter: that one is the host; one stands beside
//   a program's own (open_host, stack/head/stack_file.h). While other streams have filters, no error is sent about what
//   came to all of them, fragments and IPv6 extension headers: it may be theirs. At most 100 errors a second. Never an
//   error in reply to an error, a broadcast, a multicast, a fragment that is not the first (RFC 1122 section 3.2.2,
//   RFC 4443 section 2.4 (e)). Addresses and router are configured, or of IPv6 advertised by routers (autoconfigure):
//   no DHCP.
//
// Groups
//   All systems, all nodes, the solicited-node groups of our addresses, and those that were joined (join()). Routers
//   and switches are told of all but the first two: by MLD version 2 (RFC 3810), or 1 (RFC 2710) while a router speaks
//   that; by IGMP version 3 (RFC 3376), 2 or 1 likewise. A report leaves when a group is joined or left, a second one
//   within a second, and after each query at a random time of as long as the query says. A membership is always for any
//   source, so a query about sources is answered as one about their group. The user above joins and leaves (M_CTL
//   GroupReq); what he is in when the stream closes is left with one report. Each stream of a link is in its own
//   groups; of those that are in one the same reports it that would answer for an address, and the last of them says
//   that it is left.
//
//   A datagram to a group has a hop limit of 1 and is given to the members in this host, too (DL_LOOPBACK), unless the
//   user asked otherwise (M_CTL SettingsReq); one with a hop limit of 0 stays here.
//
// Broadcasts
//   Datagrams to 255.255.255.255 and to the broadcast addresses of our networks are received, whatever address the user
//   is bound to. They are sent when he asked for that (SettingsReq), else refused (EACCES).
//
// Our addresses
//   Each is announced when the link has come up and again two seconds later: an ARP announcement (RFC 5227
//   section 2.3), an unsolicited neighbour advertisement (RFC 4861 section 7.2.6). By default they are used at once, so
//   that a program that lives for a second need not wait for seven; meanwhile one question asks who else has them. When
//   another host claims one it is kept, announced again (once in ten seconds, RFC 5227 section 2.4 (c)), counted
//   (address_conflict, address_defended), and `sluice run`, `sluice nc` and `ftx` say which host it was.
//
//   With duplicate_address_detection = true each address is tentative first (RFC 4862 section 5.4 with one
//   solicitation; RFC 5227 section 2.1): nothing is answered for it, received for it or sent from it (EADDRNOTAVAIL).
//   IPv6 takes 1 to 2 seconds, IPv4 4 to 7; programs wait for it. A claim then makes it a duplicate, which is not used
//   until the link comes up again (address_duplicate). That is off by default for another reason, too: any host on the
//   link can then keep this one off it with one forged frame. Frames of our own MAC address claim nothing: other
//   streams of this link send them.
//
//   IPv6 datagrams have a flow label that is the same for all of a flow (addresses, protocol, ports), and that nobody
//   else can tell in advance (ip_flow_label.h). Labels of what arrives change nothing.
//
//   IPv4 options are passed over; the reply to an echo request carries its routes and timestamps (ip_options.h), and
//   a source route that does not end here is dropped (source_routed).
//
// Routers
//   With autoconfigure = true the host asks for IPv6 routers when the link has come up (three times at most), and takes
//   from their advertisements its addresses (RFC 4862: prefix and modified EUI-64 of the MAC address), what is on the
//   link, the default router, hop limit, MTU, and the times of neighbour discovery (RFC 4861 section 6.3). Addresses
//   are announced and tried as those of the stack file are; a deprecated one is used where there is no other. What the
//   stack file says wins: a `gateway` of IPv6 over advertised routers, `ttl` over the advertised hop limit, an address
//   over one that is formed alike; `mtu` bounds the advertised one. Programs wait until a router has spoken, or ten
//   seconds. Which bounds there are, and against whom: ip_autoconfiguration.h. Off, advertisements are passed to a user
//   that is bound to ICMPv6, or ignored.
//
// This host
//   Datagrams to our own addresses, 127.0.0.0/8 and ::1 do not touch the link, and go while it is down: the driver
//   gives them to those streams of the link that a frame to us would go to (DL_LOOPBACK, stack/wire/loopback.h), and
//   they are checked there like others. So one stream of a host reaches another on the same link, and each itself. They
//   come from the address they go to, unless the user chose another of ours. From the link loopback addresses are
//   dropped (bad_source, not_ours), as are our own as sources. Modules between ip and the driver see them as M_CTL. An
//   error is never sent to a loopback address (RFC 1122 section 3.2.2). A user may bind to a loopback address; he then
//   reaches nobody but this host. Flow control is the driver's: what the receiver does not take makes the sender wait
//   while the stream is alone on its link, and is dropped there (flow_dropped) when it is not.
//
// What is believed
//   ICMP errors and reports of a path's MTU: only about datagrams of a flow that the user above sent lately, known by
//   both addresses, protocol and ports (ip_flows.h). A report of a path's MTU is passed up when the flow does not let
//   its datagrams be fragmented; else the next one leaves in fragments. It never stops datagrams of a user who searches
//   for the MTU himself (`fragment`). Neighbours: only stations and addresses that
//   can be one host's, on the link; neighbour discovery never from fragments; ARP replies that were not asked for do
//   not displace an address that is known. While the link's MTU is less than 1280 bytes there is no IPv6 (ENETDOWN,
//   ipv6_off); a stream with IPv6 is not opened on such a link.
//
//   ICMP redirects: none, unless redirects = true. Then one is heeded, for ten minutes and its destination only, when
//   it comes from the router that we use for that destination and names another on the link; over IPv4 it must also
//   quote a datagram of a flow of the user's. Over IPv6 routers redirect from their link-local address, so that must be
//   the `gateway`. Any host on the link can pose as the router: that is why they are off by default.
//
// Parameters
//   address               one or more, with prefix length: "10.77.0.1/24", "fd00:77::1/64". With an IPv6 address there
//                         is a link-local one, too, made of the MAC address. None is needed with autoconfigure
//   autoconfigure         whether IPv6 addresses, routes and link parameters come from routers, too (above); false if
//                         absent. With it there is IPv6, and a link-local address
//   gateway               default router, one a family; none if absent
//   mtu                   largest IP packet in bytes; the link's if absent
//   fragment              whether the user's datagrams are fragmented to what their path takes, here or (IPv4) by
//                         routers; true if absent. He may choose for himself (SettingsReq). False: they leave whole and
//                         with "don't fragment", whatever was reported of the path, so that he can search for its MTU
//                         (RFC 8899); EMSGSIZE refuses what is larger than the link's MTU, and tells of what a router
//                         refused
//   ttl                   hop limit of what is sent to hosts, unless the user asks otherwise; 64, or what routers
//                         advertise, if absent
//   reassembly_bytes_max  bytes of buffers that unfinished datagrams may hold; 4194304 if absent. What is done with
//                         fragments: ip_reassembly.h
//   neighbours_max        entries of the neighbour cache; 1024 if absent
//   answer_echo           whether echo requests are answered; true if absent
//   redirects             whether ICMP redirects are heeded; false if absent
//   duplicate_address_detection
//                         whether an address is used only when no other host has claimed it; false if absent
//
// Counters
//   See ip_counters.h; each has a sentence. And those of stack/provider/connectionless.h.
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it at the driver. What waits for a neighbour to
//   answer is bounded (ip_neighbours.h), the oldest goes first; a stream that drains before it closes waits for it.
//
// Example
//   driver = { kind = "tap", device = "tap0" }
//   push   = ["ip", "udp", "timod"]
//   ip     = { address = ["10.77.0.1/24", "fd00:77::1/64"], gateway = "10.77.0.254" }
//
// Threads: as its stream set's. All parts (ip_*.h) are free of clocks, sockets and random sources.

#include <cstdint>
#include <optional>
#include <vector>

#include "stack/core/registry.h"
#include "stack/core/scheduler.h"
#include "stack/modules/ip_addresses.h"
#include "stack/modules/ip_autoconfiguration.h"
#include "stack/modules/ip_config.h"
#include "stack/modules/ip_counters.h"
#include "stack/modules/ip_flow_label.h"
#include "stack/modules/ip_flows.h"
#include "stack/modules/ip_groups.h"
#include "stack/modules/ip_header_template.h"
#include "stack/modules/ip_icmp_errors.h"
#include "stack/modules/ip_link.h"
#include "stack/modules/ip_neighbours.h"
#include "stack/modules/ip_options.h"
#include "stack/modules/ip_path_mtu.h"
#include "stack/modules/ip_reassembly.h"
#include "stack/modules/ip_redirects.h"
#include "stack/modules/ip_routes.h"
#include "stack/provider/connectionless.h"
#include "stack/wire/answering.h"
#include "stack/wire/arp.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/ndp.h"
#include "stack/wire/network.h"
#include "stack/wire/tpi.h"

namespace sluice {

class Ip final : public Module,
                 private ip::NeighbourUser,
                 private ip::AddressUser,
                 private ip::AutoconfigurationUser,
                 private ip::GroupUser,
                 private provider::Connectionless {
 public:
  Ip(StreamSet& set, ip::Config config);

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool holds_data() const override { return neighbours_.waiting() > 0; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  [[nodiscard]] std::size_t headroom() const override { return wire::Ipv6Header::size; }
  /// ENXIO or the driver's errno when the driver refuses at once; later refusals become M_ERROR.
  Status open() override;
  void close() override;
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;

  /// Receives what is sent to `group`, and tells routers so; each join wants a leave. EADDRNOTAVAIL when it is no group
  /// of a family that this host has, ENOBUFS when ip::Routes::joined_max are joined.
  [[nodiscard]] Status join(const wire::IpAddress& group);
  void leave(const wire::IpAddress& group);

  [[nodiscard]] const ip::Counters& counts() const { return count_; }
  [[nodiscard]] const ip::Neighbours& neighbours() const { return neighbours_; }
  [[nodiscard]] const ip::Reassembly& reassembly() const { return reassembly_; }
  /// For programs: whether addresses are still tentative, and which ones other hosts claim.
  [[nodiscard]] const ip::Addresses& addresses() const { return addresses_; }
  /// Likewise: whether addresses may still come, since one is tentative or no router has spoken yet.
  [[nodiscard]] const ip::Autoconfiguration& autoconfiguration() const { return autoconfiguration_; }
  [[nodiscard]] bool settling() const { return addresses_.settling() || autoconfiguration_.searching(); }

 private:
  /// What a datagram of ours is to look like.
  struct Outgoing {
    wire::IpAddress destination;
    std::optional<wire::IpAddress> source;  // nothing: chosen
    std::uint8_t protocol = 0;
    std::uint8_t hop_limit = 0;  // 0: ttl
    std::uint8_t traffic_class = 0;
    bool dont_fragment = false;
    std::uint32_t ports = 0;         // as ip::Flow has them
    ConstBytes options{};            // IPv4, a multiple of 4 bytes
    bool by_user = false;            // settings_ say what is 0 here
    std::uint16_t segment_size = 0;  // as DataUnit has it
  };

  /// How datagrams to a destination leave; the last one is kept, with the header of the last one as a template for
  /// the next.
  struct Route {
    wire::IpAddress destination;
    std::optional<wire::IpAddress> wanted_source;
    TimePoint expires{};  // the default: never was valid
    wire::IpAddress source;
    wire::IpAddress next_hop;
    std::uint32_t mtu = 0;       // the path's, as reported
    std::uint32_t link_mtu = 0;  // no less
    std::uint32_t ports = 0;     // of the last datagram, as ip::Flow has them, but of any protocol
    ip::Neighbours::Handle neighbour;
    std::optional<wire::MacAddress> group_mac;
    ip::HeaderTemplate header;
    bool to_self = false;
    bool loops = false;  // to members in this host, too
  };

  /// A packet on its way up.
  struct Arrival {
    Message primitive;  // the descriptor it came behind, to be used again
    Message data;       // from the transport header on
    wire::IpAddress source{};
    wire::IpAddress destination{};
    std::uint8_t protocol = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t traffic_class = 0;
    bool group = false;                // to a group or a broadcast, on the link or of IP
    bool has_options = false;          // IPv4
    std::size_t header_size = 0;       // bytes of headers in front of `data`; 0 when they are gone
    std::uint32_t protocol_field = 0;  // where `protocol` was read, from the start of the headers
    bool plain = false;                // whole, and without options or extension headers
    bool fragmented = false;           // came in IPv6 fragments, or in one
    wire::MacAddress link_source{};
    bool from_self = false;           // did not come from the link
    bool checksum_offloaded = false;  // these two as DataUnit has them
    std::uint16_t segment_size = 0;
  };

  // ip.cc
  void from_above(Message message);
  void from_below(Message message);
  void primitive_from_below(Message message);
  void forget_templates();
  void finish();
  void on_timer();

  // ip_management.cc: the user above
  [[nodiscard]] std::int32_t tsdu_bytes_max() const override { return 65535; }
  void bind(ConstBytes address) override;
  void unbind() override;
  void release() override;
  void up(Message message) override;
  void came_late() override { finish(); }
  void control_from_above(Message message);
  void answer_route(const wire::network::RouteReq& request, Message* spent = nullptr);
  [[nodiscard]] wire::network::Settings initial_settings() const;
  void answer_settings(const wire::network::SettingsReq& request, Message& spent);
  [[nodiscard]] int change_groups(const wire::network::GroupReq& request);
  void leave_all();
  void routes_changed(const wire::IpAddress& destination);
  [[nodiscard]] bool is_bound_to(std::uint8_t protocol, const wire::IpAddress& local) const;
  void report(const wire::IpAddress& destination, std::uint8_t protocol, const wire::network::Failure& failure,
              int error, Message data);

  // ip_filter.cc
  void complete_filter(Message request);
  bool ask_filter(const wire::dlpi::FilterReq& filter, Message* spent = nullptr);
  void remove_filters();
  void filter_answered(const std::optional<std::uint32_t>& error);
  void answer_filter(const std::optional<std::uint32_t>& error, Message* spent = nullptr);

  // ip_link_events.cc: the link below
  void advance_link();
  void to_link(Message message);
  bool link_answered(ConstBytes primitive);
  void link_notified(const wire::dlpi::NotifyInd& notification);
  void address_known();
  /// The descriptor in front of the packet becomes that of a DL_UNITDATA_REQ. REQUIRES: it is native.
  void to_link(Message message, const wire::MacAddress& to, std::uint16_t sap) {
    make_link_request(*message.native<wire::DataUnit>(), to, sap);
    down_.push(std::move(message));
  }
  void make_link_request(wire::DataUnit& unitdata, const wire::MacAddress& to, std::uint16_t sap) {
    unitdata.kind = wire::DataUnit::Kind::link_request;
    unitdata.destination = {to, sap};
    ++count_.packets_out;
  }
  /// Asks the driver for `primitive`, now or when there is memory.
  template <class Primitive>
  bool ask_link(const Primitive& primitive, MessageType type, Message* spent = nullptr) {
    const bool asked = owed_down_.send(primitive, type, spent);
    count_.no_memory_out += asked ? 0U : 1U;
    return asked;
  }
  void answering_told(const wire::dlpi::AnswerInd& told);
  void tell_address(const wire::IpAddress& address, bool ours);
  [[nodiscard]] const wire::dlpi::AnswerInd* told_of(const wire::IpAddress& local) const;
  /// Whether this stream of the link answers for `local`; where that is no address of ours, for the first of its
  /// family.
  [[nodiscard]] bool answers_for(const wire::IpAddress& local) const {
    const wire::dlpi::AnswerInd* const told = told_of(local);
    return told == nullptr || told->answers;
  }
  [[nodiscard]] std::uint32_t link_mtu(wire::Family family) const;
  /// RFC 8200 section 5: "IPv6 requires that every link in the Internet have an MTU of 1280 octets or greater."
  [[nodiscard]] bool has_ipv6() const { return link_mtu(wire::Family::ipv6) >= ip::mtu_min_v6; }

  // ip_send.cc
  void send_unitdata(Message request);
  [[nodiscard]] inline bool send_like_the_last(Message& request, wire::DataUnit& unitdata);
  void note_flow(const wire::DataUnit& sent, std::uint32_t first_word);
  [[nodiscard]] int send_datagram(const Outgoing& outgoing, Message& carrier, Message& data);
  [[nodiscard]] int send_segments(const Outgoing& outgoing, Message& carrier, Message& data);
  [[nodiscard]] static std::size_t transport_header_size(std::uint8_t protocol, const Message& data);
  [[nodiscard]] int send_with_options(const Outgoing& outgoing, Message& carrier, Message& data);
  [[nodiscard]] int send_fragments(const Outgoing& outgoing, Message& carrier, Message& data);
  [[nodiscard]] int route_to(const wire::IpAddress& destination, const std::optional<wire::IpAddress>& source);
  [[nodiscard]] int find_route(const wire::IpAddress& destination, const std::optional<wire::IpAddress>& source);
  [[nodiscard]] std::uint32_t flow_label(const wire::IpAddress& destination, std::uint8_t protocol,
                                         std::uint32_t word) const;
  [[nodiscard]] bool prepend_header(const Outgoing& outgoing, Message& data, std::size_t size, bool fragment = false);
  [[nodiscard]] bool prepend_fragment_header(const Outgoing& outgoing, Message& data, std::size_t size,
                                             std::size_t offset, bool more, std::uint32_t identification);
  [[nodiscard]] bool never_fragments(const wire::IpAddress& destination) const {
    return destination.is_v4() ? settings_.dont_fragment : settings_.dont_fragment_v6;
  }
  [[nodiscard]] bool never_fragments(const Outgoing& outgoing) const {
    return outgoing.by_user && never_fragments(outgoing.destination);
  }
  [[nodiscard]] std::uint32_t whole_max(const Outgoing& outgoing) const;
  [[nodiscard]] std::uint8_t hop_limit_of(const Outgoing& outgoing) const;
  [[nodiscard]] std::uint8_t traffic_class_of(const Outgoing& outgoing) const;
  void dispatch(Message carrier, Message packet);
  void loop(Message packet);
  [[nodiscard]] inline const wire::MacAddress* route_mac(TimePoint now);
  [[nodiscard]] Message new_carrier();

  // ip_receive.cc
  [[nodiscard]] static bool gather(Message& message, std::size_t size);
  void receive(Message message);
  void receive_from_self(Message message);
  void receive_packet(Arrival&& arrival, std::uint16_t sap);
  [[nodiscard]] inline bool receive_like_the_last(Message& message, wire::DataUnit& unitdata);
  [[nodiscard]] static std::size_t segments_in(const Message& message, std::uint8_t protocol, std::size_t segment_size);
  void count_segments(const Message& message, const wire::DataUnit& unitdata);
  void receive_v4(Arrival&& arrival);
  void receive_v6(Arrival&& arrival);
  [[nodiscard]] bool check_v4(Arrival& arrival);
  [[nodiscard]] bool check_v6(Arrival& arrival);
  [[nodiscard]] bool check_addresses(Arrival& arrival);
  void receive_fragment(Arrival&& arrival, ip::Fragment fragment);
  void fragment_ended(const ip::Reassembly::Added& added);
  void first_fragment_problem(Arrival&& arrival, std::uint8_t next_header);
  void reassembled_v6(Arrival&& arrival);
  void extension_problem(Arrival&& arrival, const wire::Ipv6ExtensionError& error);
  void deliver(Arrival&& arrival);
  void to_user(Arrival&& arrival);
  void reassembly_expired(ip::Reassembly::Expired expired);

  // ip_icmp.cc: ICMP
  [[nodiscard]] bool icmp_verified(Message& message, std::uint16_t initial);
  void receive_icmp4(Arrival&& arrival);
  void receive_icmp6(Arrival&& arrival);
  void ignore_or_deliver(Arrival&& arrival);
  void answer_echo(Arrival&& arrival, const wire::IcmpEcho& request);
  void receive_error4(Arrival&& arrival, const wire::Icmp4Message& message);
  void receive_error6(Arrival&& arrival, const wire::Icmp6Message& message);
  /// What an ICMP error says of the packet it quotes, which `data` starts with.
  struct Quoted {
    wire::IpAddress source;
    wire::IpAddress destination;
    std::uint8_t protocol = 0;
    std::size_t header_size = 0;            // of its IP headers
    std::size_t packet_size = 0;            // as the header has it
    int error = 0;                          // an errno
    std::optional<std::uint32_t> mtu = {};  // it was too big for that
  };
  void receive_error(Arrival&& arrival, const Quoted& quoted);
  [[nodiscard]] bool path_mtu_reported(const Quoted& quoted, const ip::Flow& flow);
  template <class IcmpMessage>
  void answer_error(Arrival&& arrival, const IcmpMessage& message, bool even_to_group = false);
  [[nodiscard]] bool may_be_anothers(const Arrival& arrival);
  [[nodiscard]] bool may_answer_error(const Arrival& arrival, bool even_to_group);
  [[nodiscard]] static ConstBytes headers_of(const Arrival& arrival);
  [[nodiscard]] static bool restore_header(Arrival& arrival);
  [[nodiscard]] ip::EchoOptions echo_options(const Arrival& arrival) const;
  void report_parameter_problem(Arrival&& arrival, const wire::Icmp6ParameterProblem& problem, bool even_to_group);
  void report_unknown_protocol(Arrival&& arrival);
  void report_reassembly_timeout(Arrival&& arrival);
  [[nodiscard]] int send_icmp(const Outgoing& outgoing, Message carrier, Message data);
  void answer_unreachable(Message request);

  // ip_redirect_messages.cc: ICMP redirects
  [[nodiscard]] std::optional<wire::IpAddress> first_hop_router(const wire::IpAddress& destination) const;
  void redirected(const wire::IpAddress& destination, const wire::IpAddress& next_hop);
  void receive_redirect4(Arrival&& arrival);
  void receive_redirect6(Arrival&& arrival);

  // ip_identity.cc: our own addresses
  void start_addresses();
  void arm_host_timer();
  void on_host_timer();
  void claimed(const wire::IpAddress& address, const wire::MacAddress& by);
  void ask_for(const wire::IpAddress& address) override;
  void announce(const wire::IpAddress& address) override;
  void address_settled(const wire::IpAddress& address, bool ours) override;

  // ip_router_discovery.cc: router solicitations and advertisements
  void receive_router_advertisement(const Arrival& arrival);
  void take_link_values(const wire::RouterAdvertisement& message);
  void solicit_routers() override;
  bool address_formed(const wire::Ipv6Address& address) override;
  void address_deprecated(const wire::Ipv6Address& address, bool deprecated) override;
  void address_expired(const wire::Ipv6Address& address) override;
  void routes_learned() override;

  // ip_membership.cc: MLD and IGMP
  void enter_group(const wire::IpAddress& group);
  void leave_group(const wire::IpAddress& group);
  void leave_groups();
  void tell_groups();
  [[nodiscard]] const wire::dlpi::AnswerInd* told_of_group(const wire::IpAddress& group) const;
  [[nodiscard]] bool reports_group(const wire::IpAddress& group) const;
  void stop_reporting(const wire::IpAddress& group);
  void start_groups(wire::Family family);
  [[nodiscard]] ip::Groups& groups_of(wire::Family family) { return family == wire::Family::ipv4 ? igmp_ : mld_; }
  void receive_mld(Arrival&& arrival);
  void receive_igmp(Arrival&& arrival);
  [[nodiscard]] static bool arrives_with_router_alert(const Arrival& arrival);
  void report_groups(std::span<const ip::GroupRecord> records) override;
  void report_group(const wire::IpAddress& group, bool left, unsigned version) override;
  void send_mld(ConstBytes body, const wire::Ipv6Address& destination);
  void send_igmp(ConstBytes body, const wire::Ipv4Address& destination);

  // ip_resolve.cc: ARP and neighbour discovery
  /// Whether `address` is that of one station. Threat: remembered for a neighbour, the broadcast or a group's address
  /// would send all that is meant for him to everybody.
  [[nodiscard]] static bool is_station(const wire::MacAddress& address) {
    return !address.is_multicast() && !address.is_unspecified();
  }
  void receive_arp(const Arrival& arrival);
  void receive_solicitation(const Arrival& arrival);
  void receive_advertisement(const Arrival& arrival);
  [[nodiscard]] bool send_arp(const wire::ArpPacket& packet, const wire::MacAddress& to);
  template <class NdpMessage>
  [[nodiscard]] bool send_ndp(const NdpMessage& message, const wire::Ipv6Address& source,
                              const wire::Ipv6Address& destination, const wire::MacAddress& to);
  void solicit(const wire::IpAddress& target, const std::optional<wire::MacAddress>& to) override;
  void transmit(Message packet, const wire::IpAddress& neighbour, const wire::MacAddress& to) override;
  void undeliverable(Message packet, const wire::IpAddress& neighbour, bool asked) override;
  void displaced(Message packet) override;
  /// How many `packet`, with its descriptor in front, stands for.
  [[nodiscard]] static std::size_t datagrams_in(const Message& packet);

  ip::Config config_;
  ip::Counters count_{*this};
  ip::Routes routes_;
  ip::LinkSetup link_;
  Owed owed_down_;          // to the driver, but for what link_ asks
  BufferCall link_memory_;  // for that
  ip::Neighbours neighbours_;
  ip::Addresses addresses_;
  ip::Autoconfiguration autoconfiguration_;
  ip::Groups mld_;
  ip::Groups igmp_;
  ip::Reassembly reassembly_;
  ip::PathMtu path_mtu_;
  ip::Redirects redirects_;
  ip::SentFlows flows_;
  ip::ErrorBudget error_budget_;
  Timer timer_;
  Timer host_timer_;  // of what this host does unasked; rare, so the timer of each datagram does not know it
  Route route_;
  ip::ArrivalTemplate arrivals_;
  std::uint16_t identification_;
  ip::FlowLabels flow_labels_;
  std::vector<wire::dlpi::AnswerInd> answering_;  // what the driver has told, where it differs from not being told
  std::uint8_t hop_limit_v6_;                     // what is sent has, where its user says nothing
  std::uint32_t advertised_mtu_ = 0xffff'ffff;    // by a router; IPv6

  wire::network::Settings settings_;
  std::vector<wire::IpAddress> joined_;  // by the user above, each once
  std::optional<wire::NetworkAddress> bound_;
  bool filtered_ = false;                      // a filter is, or is about to be, in place
  int filters_pending_ = 0;                    // answers of the driver that are outstanding
  std::optional<std::uint32_t> filter_error_;  // the first of them that was a refusal: a dlpi::Errno

  // What a put procedure or timer has produced so far; finish() sends it when all state has changed, since a put may
  // come right back.
  Batch down_;
  Batch up_;
};

[[nodiscard]] Entry ip_entry();

}  // namespace sluice
