// SPDX-License-Identifier: Apache-2.0
#pragma once

// What routers tell of the link, and the addresses that follow from it: router discovery (RFC 4861 section 6.3) and
// stateless address autoconfiguration (RFC 4862 section 5.5).
//
//     start ──random delay──► solicit ──4 s──► solicit ──4 s──► solicit ──1 s──► no router, until one speaks
//                                └──────── a default router has spoken ──────────────► quiet
//
//     address: formed ──► preferred ──preferred lifetime──► deprecated ──valid lifetime──► gone
//                             ▲                                │
//                             └─────── advertised again ───────┘
//
// Interface identifiers are the modified EUI-64 of the MAC address, as that of the link-local address is. RFC 7217
// would have opaque ones, of a secret key that stays for good: this stack keeps nothing from one run to the next, and
// the streams of a link, each with an ip of its own, must come to the same addresses without talking to each other.
// What that costs: who sees an address learns the MAC address, and finds the host again on other links (RFC 7721
// section 3). Where that matters, configure addresses.
//
// The threat: any host on the link can pose as a router (RFC 3756 section 4.2), and there is no telling. So all of
// this is off unless the stack file asks for it, and what a false router can do is bounded: tables have bounds, and
// what is known makes no room for what is new; an address cannot be taken away in less than two hours (RFC 4862
// section 5.5.3 (e)); values that would cut the host off (hop limit, MTU, times) are not taken. It can still be the
// router, and read what we send. Against that the switches must help (RFC 6105, "RA-Guard").
//
// Not here: managed and other configuration (the M and O flags: DHCPv6), route and router preferences (RFC 4191), name
// servers (RFC 8106; nothing here resolves names), temporary addresses (RFC 8981), solicitations without end (RFC
// 7559).
//
// Not thread-safe. Sends nothing itself: what is to be done goes to an AutoconfigurationUser, which must not call back
// in.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "stack/wire/address.h"
#include "stack/wire/ndp.h"

namespace sluice::ip {

class AutoconfigurationUser {
 public:
  /// "Routers, advertise yourselves."
  virtual void solicit_routers() = 0;
  /// `address` is to be one of ours. False when it is already, by configuration: then it is none of this table's.
  [[nodiscard]] virtual bool address_formed(const wire::Ipv6Address& address) = 0;
  virtual void address_deprecated(const wire::Ipv6Address& address, bool deprecated) = 0;
  virtual void address_expired(const wire::Ipv6Address& address) = 0;
  /// default_router() or on_link() has changed.
  virtual void routes_learned() = 0;

 protected:
  ~AutoconfigurationUser() = default;
};

class Autoconfiguration {
 public:
  // RFC 4861 section 10.
  static constexpr int solicitations_max = 3;                                  // MAX_RTR_SOLICITATIONS
  static constexpr Duration solicitation_delay_max = std::chrono::seconds(1);  // MAX_RTR_SOLICITATION_DELAY
  static constexpr Duration solicitation_interval = std::chrono::seconds(4);   // RTR_SOLICITATION_INTERVAL
  /// RFC 4862 section 5.5.3 (e).
  static constexpr Duration two_hours = std::chrono::hours(2);

  /// RFC 4861 section 6.3.4: "a host MUST retain at least two router addresses and SHOULD retain more."
  static constexpr std::size_t routers_max = 8;
  static constexpr std::size_t prefixes_max = 16;
  static constexpr std::size_t addresses_max = 8;

  /// What of an advertisement was not used, in options and routers.
  struct Unused {
    unsigned routers_full = 0;
    unsigned prefixes_full = 0;
    unsigned addresses_full = 0;
    unsigned prefixes_refused = 0;
  };

  Autoconfiguration(Prng& prng, AutoconfigurationUser& user) : prng_(prng), user_(user) {}

  /// The interface has come up, or back: routers are asked for. Where `link_local` is another than before, addresses
  /// that were formed of the old one go.
  void start(const wire::Ipv6Address& link_local, TimePoint now);
  /// A valid advertisement (RFC 4861 section 6.1.2). REQUIRES: started.
  Unused heard(const wire::RouterAdvertisement& advertisement, const wire::Ipv6Address& router, TimePoint now);
  /// A neighbour does not answer. If it is the default router, another one is tried.
  void unreachable(const wire::Ipv6Address& neighbour);
  /// A neighbour says that it is no router.
  void no_router(const wire::Ipv6Address& neighbour);

  /// Handles what is due.
  void expire(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Whether routers have been asked for and none has spoken yet.
  [[nodiscard]] bool searching() const { return searching_; }
  [[nodiscard]] std::optional<wire::Ipv6Address> default_router() const;
  [[nodiscard]] std::vector<wire::IpPrefix> on_link() const;
  [[nodiscard]] std::vector<wire::Ipv6Address> addresses() const;

 private:
  struct Router {
    wire::Ipv6Address address;
    TimePoint expires = never;
  };
  struct Prefix {
    wire::IpPrefix prefix;
    TimePoint expires = never;
  };
  struct Address {
    wire::Ipv6Address address;
    TimePoint valid_until = never;
    TimePoint preferred_until = never;
    bool deprecated = false;
  };

  void heard_router(const wire::Ipv6Address& address, std::uint16_t lifetime, TimePoint now, Unused& unused);
  void heard_on_link(const wire::PrefixInformation& information, TimePoint now, Unused& unused);
  void heard_autonomous(const wire::PrefixInformation& information, TimePoint now, Unused& unused);
  void set_lifetimes(Address& address, const wire::PrefixInformation& information, TimePoint now);
  void expire_addresses(TimePoint now);
  void solicit(TimePoint now);
  [[nodiscard]] wire::Ipv6Address form(const wire::Ipv6Address& prefix) const;

  Prng& prng_;
  AutoconfigurationUser& user_;
  std::optional<wire::Ipv6Address> link_local_;  // whose last 64 bits are the interface identifier
  std::vector<Router> routers_;                  // the first is the default router
  std::vector<Prefix> prefixes_;
  std::vector<Address> addresses_;
  int solicitations_left_ = 0;
  bool must_solicit_ = false;  // at least once, whoever has spoken
  bool answered_ = false;      // by a default router
  bool searching_ = false;
  TimePoint solicit_at_ = never;
};

}  // namespace sluice::ip
