// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the ip module counts, by name. Every packet that comes in ends under exactly one of the counters in ends(): a
// fragment under fragments_held where it is kept, and a datagram that fragments make whole then is one more packet.
//
//     packets_in + reassembled == the sum of ends()

#include <array>

#include "stack/core/counter.h"

namespace sluice::ip {

struct Counters {
  explicit Counters(Module& module) : owner(module) {}

  Module& owner;

  // Received
  Counter packets_in{owner, "packets_in", "packets and ARP messages that came from the link, or from this host"};
  Counter delivered{owner, "delivered", "datagrams passed to the user above"};
  Counter echo_answered{owner, "echo_answered", "echo requests answered"};
  Counter bad_primitive{owner, "bad_primitive", "messages from the driver that are no valid DLPI"};
  Counter unknown_sap{owner, "unknown_sap", "packets of a SAP that was not bound"};
  Counter short_packet{owner, "short_packet", "dropped: shorter than its header"};
  Counter bad_version{owner, "bad_version", "dropped: IP version does not fit the SAP"};
  Counter bad_header_length{owner, "bad_header_length", "dropped: IPv4 header length under 20"};
  Counter bad_total_length{owner, "bad_total_length", "dropped: length field says more, or less, than there is"};
  Counter bad_checksum{owner, "bad_checksum", "dropped: IPv4 header checksum"};
  Counter bad_source{owner, "bad_source", "dropped: source address no host can have, or our own"};
  Counter not_ours{owner, "not_ours", "dropped: destination is not this host; it does not forward"};
  Counter link_broadcast{owner, "link_broadcast", "dropped: unicast packet in a broadcast frame"};
  Counter options_skipped{owner, "options_skipped", "packets with IPv4 options, which are passed over"};
  Counter source_routed{owner, "source_routed", "dropped: an IPv4 source route that does not end here"};
  Counter bad_extension{owner, "bad_extension", "dropped: IPv6 extension headers"};
  Counter ipv6_off{owner, "ipv6_off", "dropped: IPv6 on a link whose MTU is less than 1280 bytes"};
  Counter unknown_protocol{owner, "unknown_protocol", "dropped: nobody is bound to its protocol and address"};

  // Reassembly
  Counter fragments_in{owner, "fragments_in", "fragments received"};
  Counter fragments_held{owner, "fragments_held", "fragments kept until their datagram is whole, or is given up"};
  Counter reassembled{owner, "reassembled", "datagrams made whole"};
  Counter bad_fragment{owner, "bad_fragment", "dropped: fragment beyond 65535 or not a multiple of 8 long"};
  Counter fragment_tiny{owner, "fragment_tiny", "dropped: fragment without data, or the first one without its headers"};
  Counter fragment_duplicate{owner, "fragment_duplicate", "dropped: the same fragment again"};
  Counter fragment_overlap{owner, "fragment_overlap", "fragments that overlap: their datagram was dropped"};
  Counter fragment_refused{owner, "fragment_refused", "dropped: fragment of a datagram that was dropped before"};
  Counter fragment_excess{owner, "fragment_excess", "datagrams dropped: larger than the bound"};
  Counter reassembly_evicted{owner, "reassembly_evicted", "unfinished datagrams dropped to make room"};
  Counter reassembly_timeout{owner, "reassembly_timeout", "unfinished datagrams whose time was over"};

  // Sent
  Counter packets_out{owner, "packets_out", "packets sent, fragments and our own messages included"};
  Counter looped{owner, "looped", "packets given to this host itself, without the link"};
  Counter kept_here{owner, "kept_here", "packets to a group with a hop limit of 0: given to this host at most"};
  Counter fragmented{owner, "fragmented", "datagrams sent in fragments"};
  Counter refused{owner, "refused", "datagrams refused with T_UDERROR_IND"};
  Counter bad_request{owner, "bad_request", "requests from above that are malformed or come in the wrong state"};
  Counter no_memory{owner, "no_memory", "dropped after it was received: the pool was exhausted"};
  Counter no_memory_out{owner, "no_memory_out", "not sent, not asked or not told: the pool was exhausted"};

  // Neighbours
  Counter arp_answered{owner, "arp_answered", "ARP requests for our addresses, answered"};
  Counter arp_noted{owner, "arp_noted", "ARP replies, and requests for other hosts: noted where the sender is known"};
  Counter bad_arp{owner, "bad_arp", "ARP messages dropped: malformed, or from what no host can be"};
  Counter ndp_answered{owner, "ndp_answered", "neighbour solicitations for our addresses, answered"};
  Counter ndp_noted{owner, "ndp_noted", "neighbour advertisements: noted where the neighbour is known"};
  Counter bad_ndp{owner, "bad_ndp",
                  "neighbour discovery dropped: malformed, hop limit not 255, in a fragment, from what no host can be"};
  Counter router_solicitations{owner, "router_solicitations", "times routers were asked to advertise themselves"};
  Counter router_advertisements{owner, "router_advertisements", "router advertisements heeded"};
  Counter routers_full{owner, "routers_full", "advertised routers not used: as many are known as may be"};
  Counter prefixes_full{owner, "prefixes_full", "advertised on-link prefixes not used: as many are known as may be"};
  Counter prefixes_refused{owner, "prefixes_refused",
                           "advertised prefixes not used: no prefix of hosts, or impossible length or lifetimes"};
  Counter learned_addresses_full{owner, "learned_addresses_full",
                                 "addresses not formed of advertised prefixes: there are as many as may be"};
  Counter router_values_refused{owner, "router_values_refused",
                                "advertised hop limits, MTUs and times not used: out of bounds"};
  Counter addresses_formed{owner, "addresses_formed", "addresses formed of advertised prefixes"};
  Counter addresses_expired{owner, "addresses_expired", "addresses given up: their valid lifetime was over"};
  Counter address_conflict{owner, "address_conflict", "another host claims our address"};
  Counter address_duplicate{owner, "address_duplicate", "addresses not used: another host has them"};
  Counter address_defended{owner, "address_defended", "times an address was announced to a host that claims it"};
  Counter neighbour_failed{owner, "neighbour_failed", "packets dropped: the neighbour does not answer"};
  Counter neighbour_displaced{owner, "neighbour_displaced", "packets dropped: too many waited for an answer"};
  Counter neighbours_full{owner, "neighbours_full", "packets dropped: every entry of the neighbour cache is in use"};

  // Groups
  Counter group_queries{owner, "group_queries", "MLD and IGMP queries, answered for the groups we are in"};
  Counter group_reports_in{owner, "group_reports_in", "what other hosts reported of groups"};
  Counter bad_group_message{owner, "bad_group_message",
                            "MLD and IGMP messages dropped: malformed, or not from a router or host of this link"};
  Counter group_reports_out{owner, "group_reports_out", "MLD and IGMP messages sent"};

  // ICMP
  Counter icmp_bad_checksum{owner, "icmp_bad_checksum", "ICMP and IGMP messages dropped: checksum"};
  Counter icmp_malformed{owner, "icmp_malformed", "ICMP messages dropped: short or bad code"};
  Counter icmp_ignored{owner, "icmp_ignored", "ICMP messages that ask nothing of this host, or are not to be answered"};
  Counter icmp_errors_in{owner, "icmp_errors_in", "ICMP errors passed to the user above"};
  Counter icmp_unmatched{owner, "icmp_unmatched", "ICMP errors dropped: they quote nothing that we sent lately"};
  Counter icmp_implausible{owner, "icmp_implausible",
                           "reports of a path's MTU dropped: no such packet, or no such MTU"};
  Counter icmp_mtu_heeded{owner, "icmp_mtu_heeded",
                          "reports of a path's MTU about datagrams that may be fragmented: nothing to tell the user"};
  Counter icmp_errors_out{owner, "icmp_errors_out", "ICMP errors sent"};
  Counter icmp_errors_limited{owner, "icmp_errors_limited", "ICMP errors not sent: over the rate"};
  Counter icmp_errors_unquotable{owner, "icmp_errors_unquotable", "ICMP errors not sent: the packet's header is gone"};
  Counter icmp_errors_unroutable{owner, "icmp_errors_unroutable", "ICMP errors not sent: no route to the sender"};
  Counter icmp_errors_unsure{owner, "icmp_errors_unsure",
                             "ICMP errors not sent: what they are about may be another stream's of this link"};
  Counter redirects_heeded{owner, "redirects_heeded", "redirects that changed a next hop"};
  Counter redirects_refused{owner, "redirects_refused",
                            "redirects dropped: malformed, or not by the router that we use for what we sent"};
  Counter path_mtu_lowered{owner, "path_mtu_lowered", "times a path turned out to take less"};

  // Link
  Counter link_errors{owner, "link_errors", "requests and packets that the driver refused"};
  Counter link_downs{owner, "link_downs", "times the link went down"};

  /// See above.
  [[nodiscard]] auto ends() const {
    return std::array{&delivered,
                      &echo_answered,
                      &bad_primitive,
                      &unknown_sap,
                      &short_packet,
                      &bad_version,
                      &bad_header_length,
                      &bad_total_length,
                      &bad_checksum,
                      &bad_source,
                      &not_ours,
                      &source_routed,
                      &link_broadcast,
                      &bad_extension,
                      &ipv6_off,
                      &unknown_protocol,
                      &fragments_held,
                      &bad_fragment,
                      &fragment_tiny,
                      &fragment_duplicate,
                      &fragment_overlap,
                      &fragment_refused,
                      &fragment_excess,
                      &no_memory,
                      &arp_answered,
                      &arp_noted,
                      &bad_arp,
                      &ndp_answered,
                      &ndp_noted,
                      &bad_ndp,
                      &router_advertisements,
                      &address_conflict,
                      &icmp_bad_checksum,
                      &icmp_malformed,
                      &icmp_ignored,
                      &icmp_errors_in,
                      &icmp_unmatched,
                      &icmp_implausible,
                      &icmp_mtu_heeded,
                      &group_queries,
                      &group_reports_in,
                      &bad_group_message,
                      &redirects_heeded,
                      &redirects_refused};
  }
};

}  // namespace sluice::ip
