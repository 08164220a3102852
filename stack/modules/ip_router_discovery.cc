// SPDX-License-Identifier: Apache-2.0
// What the ip module does about routers, when the stack file says `autoconfigure`: solicits them, and takes from their
// advertisements addresses, routes and the link's parameters (RFC 4861 section 6.3, RFC 4862 section 5.5). Which of
// these when is the business of ip::Autoconfiguration, whose manual has the threat.

#include <algorithm>
#include <chrono>

#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/ethernet.h"

namespace sluice {

using wire::Ipv6Address;
using wire::RouterAdvertisement;
using wire::RouterSolicitation;

namespace {

/// What of an advertised time is taken. Threat: with a retransmission timer of weeks no neighbour is ever found to be
/// gone, with one of no time each question is asked three times at once. RFC 4861 section 6.2.1: AdvReachableTime "MUST
/// be no greater than 3,600,000 milliseconds (1 hour)."
constexpr std::uint32_t retransmit_ms_min = 100;
constexpr std::uint32_t retransmit_ms_max = 10'000;
constexpr std::uint32_t reachable_ms_min = 1'000;
constexpr std::uint32_t reachable_ms_max = 3'600'000;
/// Threat: with a hop limit of 1 the host reaches nobody beyond the link. 64 is what IANA's "IP option numbers"
/// recommend, and RFC 4861 section 6.3.2 has as the default.
constexpr std::uint8_t hop_limit_min = 64;

bool is_within(std::uint32_t value, std::uint32_t least, std::uint32_t most) { return value >= least && value <= most; }

}  // namespace

/// RFC 4861 section 6.3.7: "A host sends Router Solicitations to the all-routers multicast address. The IP source
/// address is set to either one of the interface's unicast addresses or the unspecified address. The Source Link-Layer
/// Address option SHOULD be set to the host's link-layer address, if the IP source address is not the unspecified
/// address."
void Ip::solicit_routers() {
  if (!link_.ready() || !has_ipv6()) {
    return;
  }
  const auto source = routes_.source_for(wire::ipv6_all_routers);
  if (source && !answers_for(*source)) {
    return;  // another stream of this link asks, and what comes of it reaches all
  }
  const bool asked =
      send_ndp(RouterSolicitation{source ? link_.mac() : std::nullopt}, source ? source->v6() : Ipv6Address{},
               wire::ipv6_all_routers, wire::multicast_mac(wire::ipv6_all_routers));
  ++(asked ? count_.router_solicitations : count_.no_memory_out);
}

/// RFC 4861 section 6.1.2: "IP Source Address is a link-local address. Routers must use their link-local address as the
/// source for Router Advertisement and Redirect messages so that hosts can uniquely identify routers."
void Ip::receive_router_advertisement(const Arrival& arrival) {
  const auto message = RouterAdvertisement::parse(arrival.data.bytes());
  if (!message || !arrival.source.is_link_local() || !link_.ready() ||
      !is_station(message->source_link_layer.value_or(arrival.link_source))) {
    ++count_.bad_ndp;
    return;
  }
  if (routes_.owns(arrival.source)) {
    ++count_.bad_source;
    return;
  }
  ++count_.router_advertisements;
  const Ipv6Address router = arrival.source.v6();
  // RFC 4861 section 6.3.4: "If the advertisement contains a Source Link-Layer Address option, the link-layer address
  // SHOULD be recorded in the Neighbor Cache entry for the router (creating an entry if necessary)".
  if (message->source_link_layer) {
    neighbours_.heard(router, *message->source_link_layer, set().now());
  }
  take_link_values(*message);
  const ip::Autoconfiguration::Unused unused = autoconfiguration_.heard(*message, router, set().now());
  count_.routers_full += unused.routers_full;
  count_.prefixes_full += unused.prefixes_full;
  count_.learned_addresses_full += unused.addresses_full;
  count_.prefixes_refused += unused.prefixes_refused;
  arm_host_timer();
  advance_link();
}

/// RFC 4861 section 6.3.4: "In such cases, the parameter should be ignored and the host should continue using whatever
/// value it is already using." A `ttl` in the stack file is what the host is told, and stays.
void Ip::take_link_values(const RouterAdvertisement& message) {
  const auto take = [this](std::uint32_t value, bool plausible, auto&& use) {
    if (value == 0) {
      return;
    }
    if (plausible) {
      use();
    } else {
      ++count_.router_values_refused;
    }
  };
  take(message.hop_limit, message.hop_limit >= hop_limit_min, [&] {
    if (!config_.ttl_is_given && hop_limit_v6_ != message.hop_limit) {
      settings_.hops = settings_.hops == hop_limit_v6_ ? message.hop_limit : settings_.hops;
      hop_limit_v6_ = message.hop_limit;
      forget_templates();
    }
  });
  take(message.reachable_time, is_within(message.reachable_time, reachable_ms_min, reachable_ms_max),
       [&] { neighbours_.set_reachable_time(std::chrono::milliseconds(message.reachable_time)); });
  take(message.retransmit_timer, is_within(message.retransmit_timer, retransmit_ms_min, retransmit_ms_max), [&] {
    neighbours_.set_retransmit_time(std::chrono::milliseconds(message.retransmit_timer));
    addresses_.set_retransmit_time(std::chrono::milliseconds(message.retransmit_timer));
  });
  if (!message.mtu) {
    return;
  }
  // "If the MTU option is present, hosts SHOULD copy the option's value into LinkMTU so long as the value is greater
  // than or equal to the minimum link MTU [IPv6] and does not exceed the maximum LinkMTU value".
  if (!is_within(*message.mtu, ip::mtu_min_v6, link_.mtu())) {
    ++count_.router_values_refused;
  } else if (advertised_mtu_ != *message.mtu) {
    advertised_mtu_ = *message.mtu;
    routes_changed({});
  }
}

bool Ip::address_formed(const Ipv6Address& address) {
  if (routes_.owns(address)) {
    return false;
  }
  const bool news = !routes_.is_member(wire::solicited_node(address));
  routes_.add(address);
  if (news) {
    enter_group(wire::solicited_node(address));
  }
  tell_address(address, true);
  addresses_.start(address, set().now());
  if (addresses_.is_tentative(address)) {
    routes_.hold(address);
  }
  ++count_.addresses_formed;
  forget_templates();
  routes_changed({});
  return true;
}

void Ip::address_deprecated(const Ipv6Address& address, bool deprecated) {
  routes_.set_deprecated(address, deprecated);
  forget_templates();
  routes_changed({});
}

/// RFC 4861 section 7.2.1: "In such cases the node MUST join and leave the solicited-node multicast address
/// corresponding to the new and old addresses, respectively. [...] Note that multiple unicast addresses may map into
/// the same solicited-node multicast address; a node MUST NOT leave the solicited-node multicast group until all
/// assigned addresses corresponding to that multicast address have been removed."
void Ip::address_expired(const Ipv6Address& address) {
  routes_.remove(address);
  tell_address(address, false);
  addresses_.forget(address);
  ++count_.addresses_expired;
  if (const Ipv6Address group = wire::solicited_node(address); !routes_.is_member(group)) {
    leave_group(group);
  }
  forget_templates();
  routes_changed({});
}

/// RFC 4861 section 6.3.5: "the node MUST update the Destination Cache in such a way that all entries using the router
/// perform next-hop determination again".
void Ip::routes_learned() {
  routes_.set_learned(autoconfiguration_.default_router(), autoconfiguration_.on_link());
  forget_templates();
  routes_changed({});
}

}  // namespace sluice
