// SPDX-License-Identifier: Apache-2.0
#pragma once

// Addresses of this host, and where a destination is: on the link, behind the gateway, or nowhere.
//
// Not thread-safe. A handful of addresses, searched in order; what is asked for each datagram is cached by the caller.

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "stack/modules/ip_config.h"
#include "stack/wire/address.h"

namespace sluice::ip {

class Routes {
 public:
  static constexpr std::size_t joined_max = 32;

  explicit Routes(const Config& config)
      : prefixes_(config.addresses),
        gateway_v4_(config.gateway_v4),
        gateway_v6_(config.gateway_v6),
        autoconfigured_(config.autoconfigure) {}

  /// Adds the link-local address of this interface (fe80::/64), or replaces it.
  void set_link_local(const wire::Ipv6Address& address);

  /// An address that routers' prefixes have made, and its going. It says nothing of what is on the link: RFC 5942
  /// section 4, rule 1: "The assignment of an IPv6 address -- whether through IPv6 stateless address autoconfiguration
  /// [RFC4862], DHCPv6 [RFC3315], or manual configuration -- MUST NOT implicitly cause a prefix derived from that
  /// address to be treated as on-link and added to the Prefix List." (One in the stack file has its prefix length
  /// written with it.)
  void add(const wire::Ipv6Address& address) { prefixes_.push_back({address, 128}); }
  void remove(const wire::IpAddress& address);
  void set_deprecated(const wire::IpAddress& address, bool deprecated);
  /// What routers tell: a default router, which a `gateway` in the stack file takes precedence of, and the prefixes
  /// that are on the link.
  void set_learned(const std::optional<wire::Ipv6Address>& router, std::vector<wire::IpPrefix> on_link) {
    router_ = router;
    on_link_ = std::move(on_link);
  }

  /// An address that is tentative, or another host's, is held back: neither received for nor sent from.
  void hold(const wire::IpAddress& address);
  void release(const wire::IpAddress& address);

  /// Whether `address` is ours and in use.
  [[nodiscard]] bool is_local(const wire::IpAddress& address) const;
  /// Whether `address` means this host and nothing on any link: one of ours, or a loopback address of a family that we
  /// have. RFC 1122 section 3.2.1.3 (g), 127/8: "Internal host loopback address. Addresses of this form MUST NOT appear
  /// outside a host." RFC 4291 section 2.5.3, ::1: "It must not be assigned to any physical interface."
  [[nodiscard]] bool is_self(const wire::IpAddress& address) const {
    return is_local(address) || (address.is_loopback() && has(address.family()));
  }
  /// Whether it is ours, held back or not.
  [[nodiscard]] bool owns(const wire::IpAddress& address) const;
  [[nodiscard]] std::vector<wire::IpAddress> addresses() const;
  /// The limited broadcast, or the directed broadcast of a network we are on, in either form. RFC 1122 section 3.3.6:
  /// "There is a class of hosts that use non-standard broadcast address forms, substituting 0 for -1. All hosts SHOULD
  /// recognize and accept any of these non-standard broadcast addresses as the destination address of an incoming
  /// datagram."
  [[nodiscard]] bool is_broadcast(const wire::IpAddress& address) const;
  /// Whether one host can have `address`, so that it may be a source. RFC 1122 section 3.2.1.3 lists what none can.
  [[nodiscard]] bool is_host(const wire::IpAddress& address) const;
  /// Whether a host with `address` would be on the link: what neighbour discovery and ARP may tell us about.
  [[nodiscard]] bool is_neighbour(const wire::IpAddress& address) const;
  /// A user joins a group; each join wants a leave. False where joined_max are joined.
  [[nodiscard]] bool join(const wire::IpAddress& group);
  void leave(const wire::IpAddress& group);
  /// A group this host is in: all systems (224.0.0.1), all nodes (ff02::1), solicited-node groups of its addresses, and
  /// those that were joined.
  [[nodiscard]] bool is_member(const wire::IpAddress& group) const;
  [[nodiscard]] std::vector<wire::IpAddress> groups() const;
  [[nodiscard]] bool has(wire::Family family) const;

  /// Whom to hand a datagram for `destination` to: the destination itself on a link, a multicast group, or the
  /// gateway. Nothing: there is no route on a link, as to ourselves.
  [[nodiscard]] std::optional<wire::IpAddress> next_hop(const wire::IpAddress& destination) const;
  /// The address to send from, in short RFC 6724: of the destination's scope, not deprecated, and of its own network or
  /// with the longest prefix in common; else the first.
  [[nodiscard]] std::optional<wire::IpAddress> source_for(const wire::IpAddress& destination) const;

 private:
  std::vector<wire::IpPrefix> prefixes_;
  std::optional<wire::Ipv4Address> gateway_v4_;
  std::optional<wire::Ipv6Address> gateway_v6_;
  std::optional<wire::Ipv6Address> link_local_;  // also among prefixes_
  std::vector<wire::IpAddress> held_;            // some of prefixes_
  std::vector<wire::IpAddress> deprecated_;      // likewise
  bool autoconfigured_ = false;
  std::optional<wire::Ipv6Address> router_;
  std::vector<wire::IpPrefix> on_link_;
  struct Joined {
    wire::IpAddress group;
    std::size_t times = 0;
  };
  std::vector<Joined> joined_;
};

}  // namespace sluice::ip
