// SPDX-License-Identifier: Apache-2.0
// ICMP redirects that come to the ip module (RFC 792, RFC 1122 section 3.2.2.2; RFC 4861 section 8). It sends none: it
// is no router.
//
// Threat: a host that can name itself the next hop sees, and can drop, what we send. An IPv4 redirect can be forged
// from anywhere: so its source must be the router we use, and it must quote a datagram of a flow of the user's
// (ip_flows.h). An IPv6 redirect comes from the link (hop limit 255), where any host can pose as the router: so they
// are heeded only where the stack file says so.

#include <cstring>
#include <utility>

#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"

namespace sluice {

using wire::IpAddress;
using wire::Ipv4Address;
using wire::Ipv4View;
using wire::Ipv6Address;

/// The router that we use for `destination` now; nothing when it is on the link, or nowhere.
std::optional<IpAddress> Ip::first_hop_router(const IpAddress& destination) const {
  const auto redirected = redirects_.lookup(destination, set().now());
  const std::optional<IpAddress> hop = redirected ? std::optional(redirected->next_hop) : routes_.next_hop(destination);
  return hop && *hop != destination ? hop : std::nullopt;
}

void Ip::redirected(const IpAddress& destination, const IpAddress& next_hop) {
  redirects_.note(destination, next_hop, set().now());
  ++count_.redirects_heeded;
  forget_templates();
}

/// RFC 1122 section 3.2.2.2: "A Redirect message SHOULD be silently discarded if the new gateway address it specifies
/// is not on the same connected (sub-) net through which the Redirect arrived [...], or if the source of the Redirect
/// is not the current first-hop gateway for the specified destination".
void Ip::receive_redirect4(Arrival&& arrival) {
  constexpr std::byte code_max{3};  // RFC 792: network or host, for a type of service or for all
  const Ipv4Address gateway = Ipv4Address::load(arrival.data.bytes().data() + 4);
  const bool known = arrival.data.bytes()[1] <= code_max;
  arrival.data.trim_front(wire::icmp_header_size);
  constexpr std::size_t quoted_peek = 60 + ip::ports_size;
  const auto view = gather(arrival.data, quoted_peek) ? Ipv4View::check_quoted(arrival.data.bytes())
                                                      : std::unexpected(wire::Ipv4Malformed::short_header);
  if (!known || !view || view->fragment_offset() != 0 ||
      arrival.data.bytes().size() < view->header_length() + ip::ports_size) {
    ++count_.redirects_refused;
    return;
  }
  std::uint32_t word = 0;
  std::memcpy(&word, arrival.data.bytes().data() + view->header_length(), sizeof word);
  const IpAddress destination = view->destination();
  const bool sent = flows_.find({.source = view->source(),
                                 .destination = destination,
                                 .protocol = view->protocol(),
                                 .ports = ip::ports_of(view->protocol(), word)}) != nullptr;
  if (!sent || first_hop_router(destination) != arrival.source || !routes_.is_neighbour(gateway) ||
      IpAddress(gateway) == arrival.source) {
    ++count_.redirects_refused;
    return;
  }
  redirected(destination, gateway);
}

/// RFC 4861 section 8.1, "Validation of Redirect Messages": "IP Source Address is a link-local address", "The IP Hop
/// Limit field has a value of 255", "ICMP Code is 0", "ICMP length (derived from the IP length) is 40 or more octets",
/// "The IP source address of the Redirect is the same as the current first-hop router for the specified ICMP
/// Destination Address", "The ICMP Destination Address field in the redirect message does not contain a multicast
/// address", "The ICMP Target Address is either a link-local address (when redirected to a router) or the same as the
/// ICMP Destination Address (when redirected to the on-link destination)", "All included options have a length that is
/// greater than zero." What the options say is not used: the target is asked for its address.
void Ip::receive_redirect6(Arrival&& arrival) {
  constexpr std::size_t fixed_size = 40;
  Message& data = arrival.data;
  bool valid = arrival.source.is_link_local() && arrival.hop_limit == wire::ndp_hop_limit &&
               gather(data, data.size()) && data.size() >= fixed_size && data.bytes()[1] == std::byte{0};
  if (valid) {
    ConstBytes options = data.bytes().subspan(fixed_size);
    while (valid && !options.empty()) {
      const std::size_t size = wire::ndp_option_size(options);
      valid = size > 0;
      options = options.subspan(size);
    }
  }
  if (!valid) {
    ++count_.redirects_refused;
    return;
  }
  const Ipv6Address target = Ipv6Address::load(data.bytes().data() + 8);
  const IpAddress destination = Ipv6Address::load(data.bytes().data() + 24);
  const bool on_link = IpAddress(target) == destination;
  if (destination.is_multicast() || first_hop_router(destination) != arrival.source ||
      !(on_link || target.is_link_local()) || !routes_.is_host(target) || routes_.owns(target) ||
      IpAddress(target) == arrival.source) {
    ++count_.redirects_refused;
    return;
  }
  redirected(destination, target);
}

}  // namespace sluice
