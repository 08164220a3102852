// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_autoconfiguration.h"

#include <algorithm>
#include <utility>

namespace sluice::ip {

using wire::IpPrefix;
using wire::Ipv6Address;
using wire::PrefixInformation;
using wire::RouterAdvertisement;

namespace {

/// RFC 4861 section 4.6.2: "A value of all one bits (0xffffffff) represents infinity."
TimePoint end_of(std::uint32_t lifetime, TimePoint now) {
  return lifetime == PrefixInformation::infinity ? never : now + std::chrono::seconds(lifetime);
}

/// "The value ranges from 0 to 128." (RFC 4861 section 4.6.2) What no host can have an address of is no prefix, and
/// "If the prefix is the link-local prefix, silently ignore the Prefix Information option." (Section 6.3.4, and RFC
/// 4862 section 5.5.3 (b)) Threat: with the prefix of no bits all the Internet would be on the link (RFC 3756 section
/// 4.2.5), and each destination a neighbour that does not answer.
bool is_usable(const PrefixInformation& information) {
  if (information.length == 0 || information.length > 128) {
    return false;
  }
  const Ipv6Address prefix = IpPrefix{information.prefix, information.length}.network().v6();
  return !prefix.is_link_local() && !prefix.is_multicast() && !prefix.is_loopback() && !prefix.is_unspecified();
}

}  // namespace

/// RFC 4861 section 6.3.7: "Before a host sends an initial solicitation, it SHOULD delay the transmission for a random
/// amount of time between 0 and MAX_RTR_SOLICITATION_DELAY."
void Autoconfiguration::start(const Ipv6Address& link_local, TimePoint now) {
  if (link_local_ != link_local) {
    for (const Address& address : std::exchange(addresses_, {})) {
      user_.address_expired(address.address);
    }
    link_local_ = link_local;
  }
  searching_ = true;
  answered_ = false;
  must_solicit_ = true;
  solicitations_left_ = solicitations_max;
  const auto width = static_cast<std::uint64_t>(solicitation_delay_max.count()) + 1;
  solicit_at_ = now + Duration(static_cast<Duration::rep>(prng_.below(width)));
}

/// "a host SHOULD transmit up to MAX_RTR_SOLICITATIONS Router Solicitation messages, each separated by at least
/// RTR_SOLICITATION_INTERVAL seconds." And: "If a host sends MAX_RTR_SOLICITATIONS solicitations, and receives no
/// Router Advertisements after having waited MAX_RTR_SOLICITATION_DELAY seconds after sending the last solicitation,
/// the host concludes that there are no routers on the link for the purpose of [ADDRCONF]."
void Autoconfiguration::solicit(TimePoint now) {
  if (solicitations_left_ == 0) {
    solicit_at_ = never;
    searching_ = false;
    return;
  }
  --solicitations_left_;
  solicit_at_ = now + (solicitations_left_ > 0 ? solicitation_interval : solicitation_delay_max);
  must_solicit_ = false;
  if (answered_) {
    solicitations_left_ = 0;
    solicit_at_ = never;
  }
  user_.solicit_routers();
}

/// RFC 4861 section 6.3.7: "Once the host sends a Router Solicitation, and receives a valid Router Advertisement with a
/// non-zero Router Lifetime, the host MUST desist from sending additional solicitations on that interface, until the
/// next time one of the above events occurs. Moreover, a host SHOULD send at least one solicitation in the case where
/// an advertisement is received prior to having sent a solicitation."
Autoconfiguration::Unused Autoconfiguration::heard(const RouterAdvertisement& advertisement, const Ipv6Address& router,
                                                   TimePoint now) {
  Unused unused;
  searching_ = false;
  answered_ = answered_ || advertisement.lifetime > 0;
  if (answered_ && !must_solicit_) {
    solicitations_left_ = 0;
    solicit_at_ = never;
  }
  const std::optional<Ipv6Address> router_before = default_router();
  const std::vector<IpPrefix> on_link_before = on_link();
  heard_router(router, advertisement.lifetime, now, unused);
  ConstBytes options = advertisement.options;
  while (const auto information = wire::next_prefix(options)) {
    if (!is_usable(*information)) {
      ++unused.prefixes_refused;
      continue;
    }
    if (information->on_link) {
      heard_on_link(*information, now, unused);
    }
    if (information->autonomous) {
      heard_autonomous(*information, now, unused);
    }
  }
  if (router_before != default_router() || on_link_before != on_link()) {
    user_.routes_learned();
  }
  return unused;
}

/// RFC 4861 section 6.3.4: "If the address is already present in the host's Default Router List as a result of a
/// previously received advertisement, reset its invalidation timer to the Router Lifetime value in the newly received
/// advertisement." and "If the address is already present in the host's Default Router List and the received Router
/// Lifetime value is zero, immediately time-out the entry as specified in Section 6.3.5."
void Autoconfiguration::heard_router(const Ipv6Address& address, std::uint16_t lifetime, TimePoint now,
                                     Unused& unused) {
  const auto found = std::ranges::find(routers_, address, &Router::address);
  if (lifetime == 0) {
    if (found != routers_.end()) {
      routers_.erase(found);
    }
    return;
  }
  const TimePoint expires = now + std::chrono::seconds(lifetime);
  if (found != routers_.end()) {
    found->expires = expires;
  } else if (routers_.size() < routers_max) {
    routers_.push_back({address, expires});
  } else {
    ++unused.routers_full;
  }
}

/// RFC 4861 section 6.3.4: "If the prefix is already present in the host's Prefix List as the result of a previously
/// received advertisement, reset its invalidation timer to the Valid Lifetime value in the Prefix Information option.
/// If the new Lifetime value is zero, time-out the prefix immediately".
void Autoconfiguration::heard_on_link(const PrefixInformation& information, TimePoint now, Unused& unused) {
  const IpPrefix prefix{IpPrefix{information.prefix, information.length}.network(), information.length};
  const auto found = std::ranges::find(prefixes_, prefix, &Prefix::prefix);
  if (information.valid_lifetime == 0) {
    if (found != prefixes_.end()) {
      prefixes_.erase(found);
    }
    return;
  }
  const TimePoint expires = end_of(information.valid_lifetime, now);
  if (found != prefixes_.end()) {
    found->expires = expires;
  } else if (prefixes_.size() < prefixes_max) {
    prefixes_.push_back({prefix, expires});
  } else {
    ++unused.prefixes_full;
  }
}

/// RFC 4862 section 5.5.3 (c): "If the preferred lifetime is greater than the valid lifetime, silently ignore the
/// Prefix Information option." (d): "If the sum of the prefix length and interface identifier length does not equal 128
/// bits, the Prefix Information option MUST be ignored."
void Autoconfiguration::heard_autonomous(const PrefixInformation& information, TimePoint now, Unused& unused) {
  constexpr std::uint8_t length = 64;  // RFC 2464 section 4: an interface identifier has 64 bits
  if (information.preferred_lifetime > information.valid_lifetime || information.length != length) {
    ++unused.prefixes_refused;
    return;
  }
  const Ipv6Address address = form(information.prefix);
  const auto found = std::ranges::find(addresses_, address, &Address::address);
  if (found != addresses_.end()) {
    return set_lifetimes(*found, information, now);
  }
  // "if the Valid Lifetime is not 0, form an address"
  if (information.valid_lifetime == 0) {
    return;
  }
  if (addresses_.size() == addresses_max) {
    ++unused.addresses_full;
    return;
  }
  if (!user_.address_formed(address)) {
    return;
  }
  addresses_.push_back({.address = address, .valid_until = end_of(information.valid_lifetime, now)});
  set_lifetimes(addresses_.back(), information, now);
}

/// RFC 4862 section 5.5.3 (e): "the preferred lifetime of the address is reset to the Preferred Lifetime in the
/// received advertisement. [...] We call the remaining time "RemainingLifetime" in the following discussion: 1. If the
/// received Valid Lifetime is greater than 2 hours or greater than RemainingLifetime, set the valid lifetime of the
/// corresponding address to the advertised Valid Lifetime. 2. If RemainingLifetime is less than or equal to 2 hours,
/// ignore the Prefix Information option with regards to the valid lifetime [...]. 3. Otherwise, reset the valid
/// lifetime of the corresponding address to 2 hours." (Nothing here authenticates an advertisement.)
///
/// Threat: without it one forged advertisement would take the host's addresses away.
void Autoconfiguration::set_lifetimes(Address& address, const PrefixInformation& information, TimePoint now) {
  const TimePoint advertised = end_of(information.valid_lifetime, now);
  const TimePoint in_two_hours = now + two_hours;
  if (advertised > in_two_hours || advertised > address.valid_until) {
    address.valid_until = advertised;
  } else if (address.valid_until > in_two_hours) {
    address.valid_until = in_two_hours;
  }
  address.preferred_until = std::min(end_of(information.preferred_lifetime, now), address.valid_until);
  const bool deprecated = address.preferred_until <= now;
  if (address.deprecated != deprecated) {
    address.deprecated = deprecated;
    user_.address_deprecated(address.address, deprecated);
  }
}

/// RFC 4862 section 5.5.3 (d): the prefix, and behind it the interface identifier.
Ipv6Address Autoconfiguration::form(const Ipv6Address& prefix) const {
  Ipv6Address address = *link_local_;
  std::copy_n(prefix.octets.begin(), 8, address.octets.begin());
  return address;
}

/// RFC 4861 section 6.3.6: "When no routers on the list are known to be reachable or probably reachable, routers SHOULD
/// be selected in a round-robin fashion". The one that fails goes to the end; until it is its turn again, another is
/// used that may be reachable.
void Autoconfiguration::unreachable(const Ipv6Address& neighbour) {
  if (routers_.size() > 1 && routers_.front().address == neighbour) {
    std::ranges::rotate(routers_, routers_.begin() + 1);
    user_.routes_learned();
  }
}

/// RFC 4861 section 7.2.5: "In those cases where the IsRouter flag changes from TRUE to FALSE as a result of this
/// update, the node MUST remove that router from the Default Router List and update the Destination Cache entries for
/// all destinations using that neighbor as a router as specified in Section 7.3.3."
void Autoconfiguration::no_router(const Ipv6Address& neighbour) {
  if (std::erase_if(routers_, [&](const Router& router) { return router.address == neighbour; }) > 0) {
    user_.routes_learned();
  }
}

void Autoconfiguration::expire(TimePoint now) {
  if (solicit_at_ <= now) {
    solicit(now);
  }
  expire_addresses(now);
  // RFC 4861 section 6.3.5: "Whenever the invalidation timer expires for a Prefix List entry, that entry is discarded."
  // And: "Whenever the Lifetime of an entry in the Default Router List expires, that entry is discarded."
  const std::size_t gone = std::erase_if(prefixes_, [now](const Prefix& prefix) { return prefix.expires <= now; }) +
                           std::erase_if(routers_, [now](const Router& router) { return router.expires <= now; });
  if (gone > 0) {
    user_.routes_learned();
  }
}

/// RFC 4862 section 5.5.4: "A preferred address becomes deprecated when its preferred lifetime expires." and "An
/// address (and its association with an interface) becomes invalid when its valid lifetime expires."
void Autoconfiguration::expire_addresses(TimePoint now) {
  std::vector<Ipv6Address> gone;
  for (Address& address : addresses_) {
    if (address.valid_until <= now) {
      gone.push_back(address.address);
    } else if (!address.deprecated && address.preferred_until <= now) {
      address.deprecated = true;
      user_.address_deprecated(address.address, true);
    }
  }
  std::erase_if(addresses_, [now](const Address& address) { return address.valid_until <= now; });
  for (const Ipv6Address& address : gone) {
    user_.address_expired(address);
  }
}

TimePoint Autoconfiguration::next_deadline() const {
  TimePoint next = solicit_at_;
  for (const Router& router : routers_) {
    next = std::min(next, router.expires);
  }
  for (const Prefix& prefix : prefixes_) {
    next = std::min(next, prefix.expires);
  }
  for (const Address& address : addresses_) {
    next = std::min({next, address.valid_until, address.deprecated ? never : address.preferred_until});
  }
  return next;
}

std::optional<Ipv6Address> Autoconfiguration::default_router() const {
  return routers_.empty() ? std::nullopt : std::optional(routers_.front().address);
}

std::vector<Ipv6Address> Autoconfiguration::addresses() const {
  std::vector<Ipv6Address> addresses;
  for (const Address& address : addresses_) {
    addresses.push_back(address.address);
  }
  return addresses;
}

std::vector<IpPrefix> Autoconfiguration::on_link() const {
  std::vector<IpPrefix> prefixes;
  for (const Prefix& prefix : prefixes_) {
    prefixes.push_back(prefix.prefix);
  }
  return prefixes;
}

}  // namespace sluice::ip
