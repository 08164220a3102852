// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_routes.h"

#include <algorithm>
#include <bit>

#include "stack/wire/ndp.h"

namespace sluice::ip {
namespace {

using wire::Family;
using wire::IpAddress;
using wire::IpPrefix;
using wire::Ipv4Address;
using wire::Ipv6Address;

constexpr Ipv4Address all_systems{{224, 0, 0, 1}};  // RFC 1112

/// Whether `destination` means something on one link only.
bool is_link_scoped(const IpAddress& destination) {
  return destination.is_v6() &&
         (destination.is_link_local() || (destination.is_multicast() && (destination.v6().octets[1] & 0xfU) == 2));
}

/// RFC 6724 section 2.2: CommonPrefixLen, "up to the length of S's prefix (i.e., the portion of the address not
/// including the interface ID)", which has 64 bits here.
unsigned common_prefix(const Ipv6Address& source, const Ipv6Address& destination) {
  unsigned bits = 0;
  for (std::size_t at = 0; at < 8; ++at) {
    const auto differs = static_cast<std::uint8_t>(source.octets[at] ^ destination.octets[at]);
    bits += static_cast<unsigned>(std::countl_zero(differs));
    if (differs != 0) {
      break;
    }
  }
  return bits;
}

}  // namespace

void Routes::set_link_local(const Ipv6Address& address) {
  std::erase_if(prefixes_, [&](const IpPrefix& prefix) { return link_local_ && prefix.address == *link_local_; });
  if (link_local_) {
    release(*link_local_);
  }
  link_local_ = address;
  if (!owns(address)) {
    prefixes_.push_back({address, 64});
  }
}

void Routes::remove(const IpAddress& address) {
  std::erase_if(prefixes_, [&](const IpPrefix& prefix) { return prefix.address == address; });
  release(address);
  set_deprecated(address, false);
}

void Routes::set_deprecated(const IpAddress& address, bool deprecated) {
  std::erase(deprecated_, address);
  if (deprecated) {
    deprecated_.push_back(address);
  }
}

void Routes::hold(const IpAddress& address) {
  release(address);
  held_.push_back(address);
}

void Routes::release(const IpAddress& address) { std::erase(held_, address); }

bool Routes::owns(const IpAddress& address) const {
  return std::ranges::find(prefixes_, address, &IpPrefix::address) != prefixes_.end();
}

bool Routes::is_local(const IpAddress& address) const {
  return owns(address) && std::ranges::find(held_, address) == held_.end();
}

std::vector<IpAddress> Routes::addresses() const {
  std::vector<IpAddress> addresses;
  for (const IpPrefix& prefix : prefixes_) {
    addresses.push_back(prefix.address);
  }
  return addresses;
}

bool Routes::is_broadcast(const IpAddress& address) const {
  return address.is_broadcast() || std::ranges::any_of(prefixes_, [&](const IpPrefix& prefix) {
           // RFC 3021 section 2.1: a network of two addresses has no broadcast, in no form.
           const bool is_zero_form = address.is_v4() && prefix.length < 31 && address == prefix.network();
           return prefix.is_broadcast(address) || is_zero_form;
         });
}

bool Routes::is_host(const IpAddress& address) const {
  const bool is_this_network = address.is_v4() && address.v4().octets[0] == 0;  // 0.0.0.0/8
  // RFC 1122 section 3.2.2 counts class E, 240.0.0.0/4, among what "does not define a single host".
  const bool is_class_e = address.is_v4() && address.v4().octets[0] >= 240;
  return !is_this_network && !is_class_e && !address.is_unspecified() && !address.is_loopback() &&
         !address.is_multicast() && !is_broadcast(address);
}

bool Routes::is_neighbour(const IpAddress& address) const { return is_host(address) && next_hop(address) == address; }

bool Routes::has(Family family) const {
  return (autoconfigured_ && family == Family::ipv6) ||
         std::ranges::any_of(prefixes_, [&](const IpPrefix& prefix) { return prefix.address.family() == family; });
}

std::vector<IpAddress> Routes::groups() const {
  std::vector<IpAddress> groups;
  if (has(Family::ipv4)) {
    groups.emplace_back(all_systems);
  }
  if (has(Family::ipv6)) {
    groups.emplace_back(wire::ipv6_all_nodes);
  }
  const auto add = [&](const IpAddress& group) {
    if (std::ranges::find(groups, group) == groups.end()) {
      groups.push_back(group);
    }
  };
  for (const IpPrefix& prefix : prefixes_) {
    if (prefix.address.is_v6()) {
      add(wire::solicited_node(prefix.address.v6()));  // addresses that end alike share a group
    }
  }
  for (const Joined& joined : joined_) {
    add(joined.group);
  }
  return groups;
}

bool Routes::join(const IpAddress& group) {
  auto found = std::ranges::find(joined_, group, &Joined::group);
  if (found == joined_.end()) {
    if (joined_.size() == joined_max) {
      return false;
    }
    joined_.push_back({group});
    found = joined_.end() - 1;
  }
  ++found->times;
  return true;
}

void Routes::leave(const IpAddress& group) {
  const auto found = std::ranges::find(joined_, group, &Joined::group);
  if (found != joined_.end() && --found->times == 0) {
    joined_.erase(found);
  }
}

bool Routes::is_member(const IpAddress& group) const {
  if (!group.is_multicast()) {
    return false;
  }
  if (group == IpAddress(all_systems) || group == IpAddress(wire::ipv6_all_nodes)) {
    return has(group.family());
  }
  if (std::ranges::find(joined_, group, &Joined::group) != joined_.end()) {
    return true;
  }
  return std::ranges::any_of(prefixes_, [&](const IpPrefix& prefix) {
    return prefix.address.is_v6() && group == IpAddress(wire::solicited_node(prefix.address.v6()));
  });
}

std::optional<IpAddress> Routes::next_hop(const IpAddress& destination) const {
  if (!has(destination.family()) || owns(destination) || destination.is_unspecified() || destination.is_loopback()) {
    return std::nullopt;
  }
  const bool on_link = destination.is_multicast() || is_link_scoped(destination) ||
                       std::ranges::any_of(prefixes_, [&](const IpPrefix& p) { return p.contains(destination); }) ||
                       std::ranges::any_of(on_link_, [&](const IpPrefix& p) { return p.contains(destination); });
  if (on_link) {
    return destination;
  }
  if (destination.is_v4()) {
    return gateway_v4_ ? std::optional<IpAddress>(*gateway_v4_) : std::nullopt;
  }
  const std::optional<Ipv6Address>& router = gateway_v6_ ? gateway_v6_ : router_;
  return router ? std::optional<IpAddress>(*router) : std::nullopt;
}

std::optional<IpAddress> Routes::source_for(const IpAddress& destination) const {
  if (is_link_scoped(destination)) {
    return link_local_ && is_local(*link_local_) ? std::optional<IpAddress>(*link_local_) : std::nullopt;
  }
  const IpPrefix* best = nullptr;
  unsigned best_rank = 0;
  for (const IpPrefix& prefix : prefixes_) {
    // RFC 6724 section 5, rule 2: "Prefer appropriate scope." A link-local source would never be answered.
    const bool contains = prefix.contains(destination);
    const bool eligible = prefix.address.family() == destination.family() &&
                          (contains || !(prefix.address.is_v6() && prefix.address.is_link_local()));
    if (!eligible || !is_local(prefix.address)) {
      continue;
    }
    // Rule 3: "Avoid deprecated addresses." Rule 8: "Use longest matching prefix."
    constexpr unsigned preferred = 256;
    constexpr unsigned own_network = 128;
    const bool deprecated = std::ranges::find(deprecated_, prefix.address) != deprecated_.end();
    const unsigned rank = 1 + (deprecated ? 0 : preferred) + (contains ? own_network : 0) +
                          (destination.is_v6() ? common_prefix(prefix.address.v6(), destination.v6()) : 0);
    if (rank > best_rank) {
      best = &prefix;
      best_rank = rank;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(best->address);
}

}  // namespace sluice::ip
