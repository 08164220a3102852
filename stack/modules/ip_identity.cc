// SPDX-License-Identifier: Apache-2.0
// What the ip module does for its own addresses: detects duplicates, announces, defends (RFC 4862 section 5.4, RFC
// 5227). Which of these when is the business of ip::Addresses.

#include <algorithm>

#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/ethernet.h"

namespace sluice {

using wire::ArpOperation;
using wire::IpAddress;
using wire::Ipv6Address;
using wire::NeighborAdvertisement;
using wire::NeighborSolicitation;

/// The link has come, or come back, or has another MAC address. RFC 5227 section 2.1: "This also applies when a
/// network interface transitions from an inactive to an active state".
void Ip::start_addresses() {
  if (!link_.ready()) {
    return;
  }
  addresses_.begin(routes_.addresses(), set().now());
  for (const IpAddress& address : routes_.addresses()) {
    if (addresses_.is_tentative(address)) {
      routes_.hold(address);
    } else {
      routes_.release(address);
    }
  }
  start_groups(wire::Family::ipv4);
  start_groups(wire::Family::ipv6);
}

void Ip::arm_host_timer() {
  const TimePoint deadline = std::min(
      {addresses_.next_deadline(), autoconfiguration_.next_deadline(), mld_.next_deadline(), igmp_.next_deadline()});
  if (deadline == never) {
    host_timer_.cancel();
  } else {
    host_timer_.arm(deadline);
  }
}

void Ip::on_host_timer() {
  // RFC 4862 section 5.4.2: "Before sending a Neighbor Solicitation, an interface MUST join the all-nodes multicast
  // address and the solicited-node multicast address of the tentative address."
  mld_.expire(set().now());
  igmp_.expire(set().now());
  autoconfiguration_.expire(set().now());
  addresses_.expire(set().now());
  arm_host_timer();
  finish();
}

void Ip::claimed(const IpAddress& address, const wire::MacAddress& by) {
  ++count_.address_conflict;
  const std::uint64_t defended = addresses_.defended();
  static_cast<void>(addresses_.claimed(address, by, set().now()));
  count_.address_defended += addresses_.defended() - defended;
  arm_host_timer();
}

/// RFC 5227 section 1.1: an ARP Probe has "an all-zero 'sender IP address'". RFC 4862 section 5.4.2: "The
/// solicitation's Target Address is set to the address being checked, the IP source is set to the unspecified address,
/// and the IP destination is set to the solicited-node multicast address of the target address."
void Ip::ask_for(const IpAddress& address) {
  bool asked = true;
  if (address.is_v4()) {
    asked = send_arp({ArpOperation::request, *link_.mac(), {}, {}, address.v4()}, wire::mac_broadcast);
  } else if (has_ipv6()) {
    const Ipv6Address group = wire::solicited_node(address.v6());
    asked = send_ndp(NeighborSolicitation{address.v6(), std::nullopt}, {}, group, wire::multicast_mac(group));
  }
  count_.no_memory_out += asked ? 0U : 1U;
}

/// RFC 5227 section 2.3: "An ARP Announcement is identical to the ARP Probe described above, except that now the sender
/// and target IP addresses are both set to the host's newly selected IPv4 address."
void Ip::announce(const IpAddress& address) {
  if (!answers_for(address)) {
    return;  // another stream of this link says so
  }
  bool told = true;
  if (address.is_v4()) {
    told = send_arp({ArpOperation::request, *link_.mac(), address.v4(), {}, address.v4()}, wire::mac_broadcast);
  } else if (has_ipv6()) {
    told = send_ndp(NeighborAdvertisement{.router = false,
                                          .solicited = false,
                                          .override_entry = true,
                                          .target = address.v6(),
                                          .target_link_layer = link_.mac()},
                    address.v6(), wire::ipv6_all_nodes, wire::multicast_mac(wire::ipv6_all_nodes));
  }
  count_.no_memory_out += told ? 0U : 1U;
}

void Ip::address_settled(const IpAddress& address, bool ours) {
  if (ours) {
    routes_.release(address);
  } else {
    ++count_.address_duplicate;
  }
  // RFC 3590 section 4: "Once a valid link-local address is available, a node SHOULD generate new MLD Report messages
  // for all multicast addresses joined on the interface."
  if (ours && address.is_v6() && address.is_link_local()) {
    start_groups(wire::Family::ipv6);
  }
  forget_templates();
  routes_changed({});
}

}  // namespace sluice
