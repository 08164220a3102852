// SPDX-License-Identifier: Apache-2.0
// Routers are asked for and heard: addresses, routes and values that come from them, and what a false one can do.
#include "stack/modules/ip_autoconfiguration.h"

#include <gmock/gmock.h>

#include <random>

#include "stack/core/primitive.h"
#include "stack/wire/ndp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using ip::Autoconfiguration;
using testing::IsEmpty;

constexpr MacAddress router_mac{{2, 0, 0, 0, 0, 0xfe}};
const std::string router_1 = "fe80::fe";
const std::string our_address = "2001:db8:1::ff:fe00:1";  // of our_mac
constexpr std::uint32_t infinity = wire::PrefixInformation::infinity;

ip::Config autoconfigured(std::vector<std::string> addresses = {}, std::vector<std::string> gateways = {},
                          bool detects = false) {
  Parameters parameters;
  parameters.set("address", std::move(addresses));
  parameters.set("gateway", std::move(gateways));
  parameters.set("autoconfigure", true);
  parameters.set("duplicate_address_detection", detects);
  return ip::Config::from(parameters).value();
}

struct Prefix {
  std::string_view prefix = "2001:db8:1::";
  std::uint32_t valid = 86400;
  std::uint32_t preferred = 14400;
  std::uint8_t length = 64;
  bool on_link = true;
  bool autonomous = true;
};

Octets option_of(const Prefix& prefix) {
  Octets octets(32);
  octets[0] = std::byte{3};
  octets[1] = std::byte{4};
  octets[2] = std::byte{prefix.length};
  octets[3] = (prefix.on_link ? std::byte{0x80} : std::byte{}) | (prefix.autonomous ? std::byte{0x40} : std::byte{});
  store_big_endian(octets.data() + 4, prefix.valid);
  store_big_endian(octets.data() + 8, prefix.preferred);
  v6(prefix.prefix).store(octets.data() + 16);
  return octets;
}

Octets mtu_option(std::uint32_t mtu) {
  Octets octets(8);
  octets[0] = std::byte{5};
  octets[1] = std::byte{1};
  store_big_endian(octets.data() + 4, mtu);
  return octets;
}

struct Advert {
  std::uint16_t lifetime = 1800;
  std::vector<Prefix> prefixes{};
  std::uint8_t hop_limit = 0;
  std::uint32_t reachable = 0;
  std::uint32_t retransmit = 0;
  std::optional<std::uint32_t> mtu{};
  bool link_address = true;
  Octets more{};
  std::byte code{};
};

Octets message_of(const Advert& advert) {
  Octets octets(16);
  octets[0] = std::byte{134};
  octets[1] = advert.code;
  octets[4] = std::byte{advert.hop_limit};
  store_big_endian(octets.data() + 6, advert.lifetime);
  store_big_endian(octets.data() + 8, advert.reachable);
  store_big_endian(octets.data() + 12, advert.retransmit);
  if (advert.link_address) {
    const Octets option{std::byte{1}, std::byte{1}, std::byte{2}, std::byte{0},
                        std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0xfe}};
    octets = octets + option;
  }
  for (const Prefix& prefix : advert.prefixes) {
    octets = octets + option_of(prefix);
  }
  if (advert.mtu) {
    octets = octets + mtu_option(*advert.mtu);
  }
  return octets + advert.more;
}

void advertise(Bed& bed, const Advert& advert, std::string_view router = router_1, std::uint8_t hop_limit = 255) {
  const V6 header{.source = router, .destination = "ff02::1", .next_header = 58, .hop_limit = hop_limit};
  bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(message_of(advert), header)), true, router_mac);
}

/// Seconds pass, as far as there are deadlines in them.
void pass_to_deadlines(Bed& bed, Duration time) {
  const TimePoint end = bed.now + time;
  for (int turns = 0; turns < 100000; ++turns) {
    const TimePoint next = bed.set.scheduler().next_deadline();
    if (next > end) {
      bed.advance(end - bed.now);
      return;
    }
    bed.advance(std::max(next, bed.now) - bed.now);
  }
  FAIL() << "time does not pass";
}

std::vector<Frame> solicitations(const std::deque<Frame>& sent) {
  std::vector<Frame> found;
  for (const Frame& frame : sent) {
    if (frame.sap == wire::ethertype_ipv6 && frame.octets.size() >= 48 && frame.octets[6] == std::byte{58} &&
        frame.octets[40] == std::byte{133}) {
      found.push_back(frame);
    }
  }
  return found;
}

/// A bed whose start is over but for the router solicitations of its first seconds.
struct AutoconfiguredHost : Bed {
  explicit AutoconfiguredHost(ip::Config config = autoconfigured()) : Bed(std::move(config)) { bind(); }

  /// The source of the next datagram to `destination`, by whatever way; empty when there is none.
  std::string source_to(std::string_view destination) {
    link.sent.clear();
    user.received.clear();
    const network::RouteReq request{address(destination)};
    ask(request, network::RouteReq::size, MessageType::ctl);
    const auto ack = network::RouteAck::decode(next_up().bytes());
    return !ack ? "no answer" : ack->error != 0 ? "errno " + std::to_string(ack->error) : ack->source.to_text();
  }
  /// Whom a datagram leaves to: the neighbour that is asked for, or its MAC address.
  std::string next_hop_to(std::string_view destination) {
    link.sent.clear();
    send(destination, pattern(8));
    if (link.sent.empty()) {
      return "nobody";
    }
    const Frame frame = next_frame();
    const auto asked = wire::NeighborSolicitation::parse(ConstBytes(frame.octets).subspan(40));
    return asked ? asked->target.to_text() : frame.to.to_text();
  }
  [[nodiscard]] bool answers_for(std::string_view target) {
    link.sent.clear();
    Octets octets(wire::NeighborSolicitation::size_max);
    octets.resize(wire::NeighborSolicitation{v6(target), peer_mac}.emit(octets));
    const std::string group = wire::solicited_node(v6(target)).to_text();
    const V6 header{.source = "fe80::2", .destination = group, .next_header = 58, .hop_limit = 255};
    link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)), true);
    return std::ranges::any_of(link.sent, [&](const Frame& frame) {
      const auto answer = wire::NeighborAdvertisement::parse(ConstBytes(frame.octets).subspan(40));
      return answer && answer->solicited && answer->target == v6(target);
    });
  }
};

/// RFC 4861 section 6.3.7: "a host SHOULD transmit up to MAX_RTR_SOLICITATIONS Router Solicitation messages, each
/// separated by at least RTR_SOLICITATION_INTERVAL seconds." "Before a host sends an initial solicitation, it SHOULD
/// delay the transmission for a random amount of time between 0 and MAX_RTR_SOLICITATION_DELAY."
TEST(IpAutoconfiguration, AsksThreeTimesForRouters) {
  AutoconfiguredHost host;
  EXPECT_TRUE(host.ip->settling());
  pass_to_deadlines(host, 9s);
  std::deque<Frame> all = host.said_at_start;
  std::ranges::copy(host.link.sent, std::back_inserter(all));
  const std::vector<Frame> asked = solicitations(all);
  ASSERT_EQ(asked.size(), 3U);
  const auto header = wire::Ipv6Header::parse(asked[0].octets);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, v6(our_link_local));
  EXPECT_EQ(header->destination, v6("ff02::2")) << "the all-routers multicast address";
  EXPECT_EQ(header->hop_limit, 255);
  EXPECT_EQ(asked[0].to, wire::multicast_mac(address("ff02::2")));
  const Octets body = part(asked[0].octets, 40);
  EXPECT_EQ(part(body, 8), (Octets{std::byte{1}, std::byte{1}, std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0},
                                   std::byte{0}, std::byte{1}}))
      << "with our link-layer address";
  EXPECT_TRUE(body.size() == 16 &&
              checksum_of(add_sums(ilp::scalar::sum(body),
                                   wire::pseudo_header_sum(address(our_link_local), address("ff02::2"), 58, 16))) == 0);
  pass_to_deadlines(host, 2s);
  EXPECT_FALSE(host.ip->settling()) << "there are no routers on the link for the purpose of [ADDRCONF]";
  pass_to_deadlines(host, 24h);
  EXPECT_EQ(host.count("router_solicitations"), 3U);
  EXPECT_EQ(host.set.scheduler().next_deadline(), never) << "nothing is left to do";
}

/// The streams of a link are one host, which asks once: one that does not answer for its address does not ask either,
/// and hears what the other is told.
TEST(IpAutoconfiguration, OneStreamOfALinkAsks) {
  for (const bool answers : {true, false}) {
    AutoconfiguredHost host;
    Message told =
        primitive_message(host.set.pool(), dlpi::AnswerInd{address(our_link_local), answers, true}, MessageType::ctl);
    host.link.read_queue().put_next(std::move(told));
    const std::uint64_t before = host.count("router_solicitations");
    pass_to_deadlines(host, 9s);
    EXPECT_EQ(host.count("router_solicitations") - before, answers ? 3 - before : 0);
    advertise(host, {.prefixes = {{}}});
    EXPECT_EQ(host.source_to("2001:db8:1::9"), our_address);
  }
}

/// "...each separated by at least RTR_SOLICITATION_INTERVAL seconds"; and the first after a delay that the seed
/// decides.
TEST(IpAutoconfiguration, SpacesItsSolicitations) {
  std::vector<Duration> first;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    struct Recorder : ip::AutoconfigurationUser {
      void solicit_routers() override { times.push_back(now); }
      bool address_formed(const Ipv6Address&) override { return true; }
      void address_deprecated(const Ipv6Address&, bool) override {}
      void address_expired(const Ipv6Address&) override {}
      void routes_learned() override {}
      TimePoint now{};
      std::vector<TimePoint> times;
    } recorder;
    Prng prng(seed);
    Autoconfiguration table(prng, recorder);
    table.start(v6(our_link_local), recorder.now);
    while (table.next_deadline() != never) {
      recorder.now = table.next_deadline();
      table.expire(recorder.now);
    }
    ASSERT_EQ(recorder.times.size(), 3U) << "seed " << seed;
    EXPECT_LE(recorder.times[0] - TimePoint{}, 1s) << "seed " << seed;
    EXPECT_GE(recorder.times[1] - recorder.times[0], 4s);
    EXPECT_GE(recorder.times[2] - recorder.times[1], 4s);
    first.push_back(recorder.times[0] - TimePoint{});
  }
  std::ranges::sort(first);
  EXPECT_GT(first.back() - first.front(), 200ms) << "hosts must not ask in step";
}

/// "Once the host sends a Router Solicitation, and receives a valid Router Advertisement with a non-zero Router
/// Lifetime, the host MUST desist from sending additional solicitations [...]. Moreover, a host SHOULD send at least
/// one solicitation in the case where an advertisement is received prior to having sent a solicitation."
TEST(IpAutoconfiguration, StopsAskingWhenARouterHasSpoken) {
  AutoconfiguredHost host;  // two seconds old: it has asked once
  ASSERT_EQ(host.count("router_solicitations"), 1U);
  advertise(host, {});
  EXPECT_FALSE(host.ip->settling());
  pass_to_deadlines(host, 60s);
  EXPECT_EQ(host.count("router_solicitations"), 1U);

  AutoconfiguredHost zero;
  advertise(zero, {.lifetime = 0});
  pass_to_deadlines(zero, 60s);
  EXPECT_EQ(zero.count("router_solicitations"), 3U) << "that was no default router";

  AutoconfiguredHost back;
  advertise(back, {});
  back.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_UP, .address = {}});
  advertise(back, {});
  pass_to_deadlines(back, 60s);
  EXPECT_EQ(back.count("router_solicitations"), 2U) << "once after the interface came back, though one has spoken";
}

/// RFC 4862 section 5.5.3 (d): "if the Valid Lifetime is not 0, form an address (and add it to the list) by combining
/// the advertised prefix with an interface identifier of the link".
TEST(IpAutoconfiguration, FormsAnAddressAndUsesTheRouter) {
  AutoconfiguredHost host;
  EXPECT_EQ(host.source_to("2001:db8:9::9"), "errno " + std::to_string(ENETUNREACH));
  EXPECT_FALSE(host.answers_for(our_address));
  advertise(host, {.prefixes = {{}}});
  EXPECT_EQ(host.count("router_advertisements"), 1U);
  EXPECT_EQ(host.count("addresses_formed"), 1U);
  EXPECT_EQ(host.source_to("2001:db8:9::9"), our_address);
  EXPECT_TRUE(host.answers_for(our_address));
  EXPECT_EQ(host.next_hop_to("2001:db8:9::9"), router_mac.to_text()) << "whose address came with the advertisement";
  EXPECT_EQ(host.next_hop_to("2001:db8:1::77"), "2001:db8:1::77") << "on the link";
  EXPECT_EQ(host.source_to("fe80::77"), our_link_local);
}

/// RFC 4861 section 4.6.2: "When not set the advertisement makes no statement about on-link or off-link properties of
/// the prefix." RFC 5942 section 4: an address "MUST NOT implicitly cause a prefix derived from that address to be
/// treated as on-link".
TEST(IpAutoconfiguration, AnAddressDoesNotMakeItsPrefixOnLink) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{.on_link = false}, {.prefix = "2001:db8:2::", .autonomous = false}}});
  EXPECT_EQ(host.next_hop_to("2001:db8:1::77"), router_mac.to_text());
  EXPECT_EQ(host.next_hop_to("2001:db8:2::77"), "2001:db8:2::77");
  EXPECT_FALSE(host.answers_for("2001:db8:2::ff:fe00:1")) << "not autonomous";
  // "If the new Lifetime value is zero, time-out the prefix immediately" (section 6.3.4).
  advertise(host, {.prefixes = {{.prefix = "2001:db8:2::", .valid = 0, .preferred = 0, .autonomous = false}}});
  EXPECT_EQ(host.next_hop_to("2001:db8:2::77"), router_mac.to_text());
}

/// RFC 4861 section 6.3.5: "Whenever the invalidation timer expires for a Prefix List entry, that entry is discarded."
TEST(IpAutoconfiguration, PrefixesAndRoutersExpire) {
  AutoconfiguredHost host;
  advertise(host, {.lifetime = 300, .prefixes = {{.valid = 100, .preferred = 100, .autonomous = false}, {}}});
  advertise(host, {.lifetime = 300, .prefixes = {{.prefix = "2001:db8:5::", .valid = 100, .preferred = 100}}});
  pass_to_deadlines(host, 99s);
  EXPECT_EQ(host.next_hop_to("2001:db8:5::77"), "2001:db8:5::77");
  pass_to_deadlines(host, 2s);
  EXPECT_EQ(host.next_hop_to("2001:db8:5::77"), router_mac.to_text());
  pass_to_deadlines(host, 200s);
  EXPECT_EQ(host.source_to("2001:db8:9::9"), "errno " + std::to_string(ENETUNREACH)) << "no router is left";
}

TEST(IpAutoconfiguration, ARouterThatSaysSoIsOneNoLonger) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{}}});
  advertise(host, {.lifetime = 0});
  EXPECT_EQ(host.source_to("2001:db8:9::9"), "errno " + std::to_string(ENETUNREACH))
      << "RFC 4861 section 6.3.4: the received Router Lifetime value is zero, immediately time-out the entry";
  advertise(host, {});
  EXPECT_EQ(host.source_to("2001:db8:9::9"), our_address);
  // RFC 4861 section 7.2.5: a neighbour whose R flag is no longer set.
  Octets octets(wire::NeighborAdvertisement::size_max);
  octets.resize(wire::NeighborAdvertisement{false, false, true, v6(router_1), router_mac}.emit(octets));
  const V6 header{.source = router_1, .destination = "ff02::1", .next_header = 58, .hop_limit = 255};
  host.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)), true, router_mac);
  EXPECT_EQ(host.source_to("2001:db8:9::9"), "errno " + std::to_string(ENETUNREACH));
}

/// RFC 4861 section 6.3.6: "When no routers on the list are known to be reachable or probably reachable, routers SHOULD
/// be selected in a round-robin fashion".
TEST(IpAutoconfiguration, ARouterThatDoesNotAnswerMakesRoomForAnother) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{}}, .link_address = false});
  advertise(host, {.link_address = false}, "fe80::fd");
  EXPECT_EQ(host.next_hop_to("2001:db8:9::9"), router_1);
  pass_to_deadlines(host, 10s);
  EXPECT_EQ(host.next_hop_to("2001:db8:9::9"), "fe80::fd");
  pass_to_deadlines(host, 10s);
  EXPECT_EQ(host.next_hop_to("2001:db8:9::9"), router_1);
}

/// What the stack file says wins.
TEST(IpAutoconfiguration, AGatewayOfTheStackFileWins) {
  AutoconfiguredHost host(autoconfigured({"fd00:77::1/64", "10.77.0.1/24"}, {"fd00:77::fe"}));
  advertise(host, {.prefixes = {{}}});
  EXPECT_EQ(host.next_hop_to("2001:db8:9::9"), "fd00:77::fe");
  EXPECT_TRUE(host.answers_for(our_address));
  // An address that is formed alike is the stack file's, and no advertisement's to end.
  AutoconfiguredHost same(autoconfigured({our_address + "/64"}));
  advertise(same, {.prefixes = {{.valid = 10, .preferred = 10}}});
  EXPECT_EQ(same.count("addresses_formed"), 0U);
  pass_to_deadlines(same, 1h);
  EXPECT_TRUE(same.answers_for(our_address));
}

/// RFC 4862 section 5.5.4: "A preferred address becomes deprecated when its preferred lifetime expires. [...] An
/// address (and its association with an interface) becomes invalid when its valid lifetime expires." RFC 6724 section
/// 5, rule 3: "Avoid deprecated addresses."
TEST(IpAutoconfiguration, ADeprecatedAddressIsAvoidedThenGoes) {
  AutoconfiguredHost host;
  advertise(host, {.lifetime = 65535, .prefixes = {{.valid = 20000, .preferred = 100}}});
  advertise(host, {.lifetime = 65535, .prefixes = {{.prefix = "2001:db8:2::"}}});
  const std::string second = "2001:db8:2::ff:fe00:1";
  EXPECT_EQ(host.source_to("2001:db8:1::9"), our_address) << "rule 8: \"Use longest matching prefix.\"";
  EXPECT_EQ(host.source_to("2001:db8:2::9"), second);
  pass_to_deadlines(host, 101s);
  EXPECT_EQ(host.source_to("2001:db8:1::9"), second) << "rule 3 comes before rule 8";
  EXPECT_TRUE(host.answers_for(our_address)) << "it is still ours";
  // RFC 4862 section 5.5.4: "Implementations MUST NOT prevent" using it where the user has asked for it.
  host.link.sent.clear();
  host.send("2001:db8:2::9", pattern(8), {.source = address(our_address)});
  EXPECT_FALSE(host.link.sent.empty());
  advertise(host, {.lifetime = 65535, .prefixes = {{.valid = 20000, .preferred = 100}}});
  EXPECT_EQ(host.source_to("2001:db8:1::9"), our_address) << "preferred again";
  pass_to_deadlines(host, 19999s);
  EXPECT_TRUE(host.answers_for(our_address));
  pass_to_deadlines(host, 2s);
  EXPECT_FALSE(host.answers_for(our_address));
  EXPECT_EQ(host.count("addresses_expired"), 1U);
  EXPECT_EQ(host.source_to("2001:db8:1::9"), second);
}

TEST(IpAutoconfiguration, ADeprecatedAddressIsUsedWhereThereIsNoOther) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{.preferred = 0}}});
  EXPECT_EQ(host.source_to("2001:db8:9::9"), our_address);
}

/// RFC 4862 section 5.5.3 (e): the two-hour rule.
TEST(IpAutoconfiguration, NoAdvertisementTakesAnAddressAwayInLessThanTwoHours) {
  struct Case {
    std::string_view rule;
    std::uint32_t first;
    Duration later;
    std::uint32_t second;
    Duration lives;  // from the second on
  };
  const std::vector<Case> cases{
      {"1: greater than 2 hours", 86400, 0s, 7201, 7201s},
      {"1: greater than RemainingLifetime", 100, 50s, 60, 60s},
      {"2: RemainingLifetime is less than or equal to 2 hours, ignore", 7200, 100s, 0, 7100s},
      {"2: and a short one", 7200, 100s, 5, 7100s},
      {"3: otherwise 2 hours", 86400, 0s, 0, 7200s},
      {"3: from infinity, too", infinity, 1s, 1, 7200s},
      {"1: infinity", 100, 1s, infinity, 24h * 365},
  };
  for (const Case& at : cases) {
    AutoconfiguredHost host;
    advertise(host, {.prefixes = {{.valid = at.first, .preferred = 0}}});
    pass_to_deadlines(host, at.later);
    advertise(host, {.prefixes = {{.valid = at.second, .preferred = 0}}});
    pass_to_deadlines(host, at.lives - 1s);
    EXPECT_TRUE(host.answers_for(our_address)) << at.rule;
    pass_to_deadlines(host, 2s);
    EXPECT_EQ(host.answers_for(our_address), at.second == infinity) << at.rule;
  }
}

/// Of a template nothing may outlive what it was made of: a datagram from an address that has gone, or to a router that
/// has, must not leave.
TEST(IpAutoconfiguration, HeadersOfADatagramDoNotOutliveItsAddressOrRouter) {
  AutoconfiguredHost host;
  advertise(host, {.lifetime = 1000, .prefixes = {{.valid = 500, .preferred = 500}}});
  advertise(host, {.lifetime = 65535, .prefixes = {{.prefix = "2001:db8:2::"}}}, "fe80::fd");
  const auto source_of = [&] {
    host.link.sent.clear();
    host.send("2001:db8:1::9", pattern(8));
    return host.link.sent.empty() ? "none" : wire::Ipv6Header::parse(host.next_frame().octets)->source.to_text();
  };
  Octets octets(wire::NeighborAdvertisement::size_max);
  octets.resize(wire::NeighborAdvertisement{false, true, true, v6("2001:db8:1::9"), peer_mac}.emit(octets));
  static_cast<void>(source_of());  // asks
  const V6 header{.source = "2001:db8:1::9", .destination = our_address, .next_header = 58, .hop_limit = 255};
  host.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)));
  EXPECT_EQ(source_of(), our_address);
  EXPECT_EQ(source_of(), our_address) << "from the template";
  // What arrives, too.
  const V6 to_us{.source = "2001:db8:1::9", .destination = our_address};
  const auto delivered = [&] {
    host.user.received.clear();
    host.link.inject(wire::ethertype_ipv6, packet(to_us, pattern(8)));
    return host.user.received.size();
  };
  EXPECT_EQ(delivered(), 1U);
  EXPECT_EQ(delivered(), 1U) << "from the template";
  pass_to_deadlines(host, 501s);
  EXPECT_EQ(delivered(), 0U) << "the address has gone";
  EXPECT_NE(source_of(), our_address);
  // The user is told, so that what he knows of routes goes, too (stack/wire/network.h).
  AutoconfiguredHost told;
  told.user.received.clear();
  advertise(told, {.prefixes = {{.valid = 10, .preferred = 10}}});
  EXPECT_FALSE(told.user.received.empty());
  told.user.received.clear();
  pass_to_deadlines(told, 11s);
  EXPECT_FALSE(told.user.received.empty());
  EXPECT_TRUE(network::RouteAck::decode(told.next_up().bytes()));
}

/// RFC 4861 section 6.3.4: "If the received Cur Hop Limit value is non-zero, the host SHOULD set its CurHopLimit
/// variable to the received value." "If the MTU option is present, hosts SHOULD copy the option's value into LinkMTU so
/// long as the value is greater than or equal to the minimum link MTU [IPv6] and does not exceed the maximum LinkMTU
/// value".
TEST(IpAutoconfiguration, TakesTheValuesOfTheLinkWithinBounds) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{}}, .hop_limit = 200, .mtu = 1400});
  const auto sent_hop_limit = [](AutoconfiguredHost& from) {
    from.link.sent.clear();
    from.send("2001:db8:9::9", pattern(8));
    return wire::Ipv6Header::parse(from.next_frame().octets)->hop_limit;
  };
  EXPECT_EQ(sent_hop_limit(host), 200);
  advertise(host, {.hop_limit = 100});
  EXPECT_EQ(sent_hop_limit(host), 100) << "the template has gone";
  host.user.received.clear();
  host.ask(network::RouteReq{address("2001:db8:9::9")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(host.next_up().bytes())->mtu, 1400U);
  // Threat: values that would cut the host off.
  const std::uint64_t refused = host.count("router_values_refused");
  for (const std::uint32_t mtu : {0U, 68U, 1279U, 1501U, 0xffff'ffffU}) {
    advertise(host, {.mtu = mtu});
  }
  EXPECT_EQ(host.count("router_values_refused"), refused + 5);
  for (const std::uint8_t hop_limit : std::array<std::uint8_t, 3>{1, 2, 63}) {
    advertise(host, {.hop_limit = hop_limit});
  }
  for (const std::uint32_t time : {1U, 0xffff'ffffU}) {
    advertise(host, {.reachable = time, .retransmit = time});
  }
  EXPECT_EQ(host.count("router_values_refused"), refused + 5 + 3 + 4);
  EXPECT_EQ(sent_hop_limit(host), 100);
  host.user.received.clear();
  host.ask(network::RouteReq{address("2001:db8:9::9")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(host.next_up().bytes())->mtu, 1400U);
  // "a host MUST NOT interpret the unspecified value as meaning change back to the default value".
  advertise(host, {});
  EXPECT_EQ(sent_hop_limit(host), 100);
  ip::Config given = autoconfigured();
  given.ttl = 77;
  given.ttl_is_given = true;
  AutoconfiguredHost by_hand(given);
  advertise(by_hand, {.prefixes = {{}}, .hop_limit = 200});
  EXPECT_EQ(sent_hop_limit(by_hand), 77) << "what the stack file says wins";
}

/// "The RetransTimer variable SHOULD be copied from the Retrans Timer field, if the received value is non-zero."
TEST(IpAutoconfiguration, NeighboursAreAskedAsOftenAsTheRouterSays) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{}}, .retransmit = 3000});
  host.link.sent.clear();
  host.send("2001:db8:1::9", pattern(8));
  const auto questions = [&] {
    return std::ranges::count_if(host.link.sent, [](const Frame& frame) {
      const auto asked = wire::NeighborSolicitation::parse(ConstBytes(frame.octets).subspan(40));
      return asked && asked->target == v6("2001:db8:1::9");
    });
  };
  pass_to_deadlines(host, 2900ms);
  EXPECT_EQ(questions(), 1);
  pass_to_deadlines(host, 200ms);
  EXPECT_EQ(questions(), 2);
}

/// RFC 4862 section 5.4: "Duplicate Address Detection MUST be performed on all unicast addresses prior to assigning
/// them to an interface" (where the stack file asks for it).
TEST(IpAutoconfiguration, AnAddressIsTriedFirstWhereTheStackFileAsksForIt) {
  Bed bed(autoconfigured({}, {}, /*detects=*/true));
  pass_to_deadlines(bed, 12s);
  EXPECT_TRUE(bed.ip->addresses().any_usable());
  advertise(bed, {.prefixes = {{}}});
  EXPECT_TRUE(bed.ip->settling());
  EXPECT_TRUE(bed.ip->addresses().is_tentative(address(our_address)));
  // RFC 4862 section 5.4.4: "If the target address is tentative, the tentative address is not unique."
  Octets octets(wire::NeighborAdvertisement::size_max);
  octets.resize(wire::NeighborAdvertisement{false, false, true, v6(our_address), peer_mac}.emit(octets));
  const V6 header{.source = our_address, .destination = "ff02::1", .next_header = 58, .hop_limit = 255};
  bed.link.inject(wire::ethertype_ipv6, packet(header, icmp_summed(octets, header)), true);
  EXPECT_FALSE(bed.ip->settling());
  EXPECT_EQ(bed.count("address_duplicate"), 1U);

  Bed free(autoconfigured({}, {}, /*detects=*/true));
  pass_to_deadlines(free, 12s);
  advertise(free, {.prefixes = {{}}});
  pass_to_deadlines(free, 3s);
  EXPECT_FALSE(free.ip->settling());
  EXPECT_EQ(free.count("address_duplicate"), 0U);
}

/// RFC 4861 section 7.2.1: "the node MUST join and leave the solicited-node multicast address corresponding to the new
/// and old addresses, respectively." A second address with the same end shares the group; another MAC address makes
/// another end.
TEST(IpAutoconfiguration, GroupsOfAddressesComeAndGo) {
  constexpr MacAddress new_mac{{2, 0, 0, 0, 0, 0x33}};
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{}}});
  const MacAddress old_group = wire::multicast_mac(address("ff02::1:ff00:1"));
  EXPECT_EQ(std::ranges::count(host.link.groups, old_group), 1);
  host.link.sent.clear();
  host.link.mac = new_mac;
  host.link.tell(
      dlpi::NotifyInd{.notification = dlpi::DL_NOTE_PHYS_ADDR, .address = dlpi::LinkAddress{.mac = new_mac, .sap = 0}});
  EXPECT_EQ(std::ranges::count(host.link.groups, old_group), 0) << "left";
  EXPECT_EQ(std::ranges::count(host.link.groups, wire::multicast_mac(address("ff02::1:ff00:33"))), 1);
  EXPECT_EQ(host.count("addresses_expired"), 1U) << "it was made of the old MAC address";
  pass_to_deadlines(host, 1s);
  // RFC 3810 section 5.2.12: a change to include mode with no source, which is a leave.
  const auto is_leave = [](const Frame& frame) {
    const Octets& octets = frame.octets;
    for (std::size_t at = 56;
         frame.sap == wire::ethertype_ipv6 && octets[6] == std::byte{0} && at + 20 <= octets.size(); at += 20) {
      if (octets[at] == std::byte{3} && Ipv6Address::load(octets.data() + at + 4) == v6("ff02::1:ff00:1")) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(std::ranges::any_of(host.link.sent, is_leave));
  advertise(host, {.prefixes = {{}}});
  EXPECT_TRUE(host.answers_for("2001:db8:1::ff:fe00:33"));
}

/// RFC 2710 section 4: "When a node ceases to listen to a multicast address on an interface, it SHOULD send a single
/// Done message". Not while another stream of this host listens.
TEST(IpAutoconfiguration, GroupsAreLeftWhenTheStreamIsClosed) {
  const auto leaves = [](const std::deque<Frame>& sent) {
    return std::ranges::count_if(sent, [](const Frame& frame) {
      return frame.sap == wire::ethertype_ipv6 && frame.octets.size() >= 76 && frame.octets[6] == std::byte{0} &&
             frame.octets[48] == std::byte{143} && frame.octets[56] == std::byte{3};
    });
  };
  for (const bool alone : {true, false}) {
    Bed bed(config_of({"fd00:77::1/64"}));
    if (!alone) {
      Message told =
          primitive_message(bed.set.pool(), dlpi::AnswerInd{address("ff02::1:ff00:1"), true, true}, MessageType::ctl);
      bed.link.read_queue().put_next(std::move(told));
    }
    bed.link.sent.clear();
    bed.ip->close();
    EXPECT_EQ(leaves(bed.link.sent), alone ? 1 : 0);
    const auto unbind = std::ranges::find(bed.link.requests, std::uint32_t{dlpi::DL_UNBIND_REQ});
    EXPECT_NE(unbind, bed.link.requests.end());
  }
}

/// RFC 4861 section 6.1.2: "A node MUST silently discard any received Router Advertisement messages that do not satisfy
/// all of the following validity checks". RFC 6980 section 5 adds fragments.
TEST(IpAutoconfiguration, AFalseAdvertisementChangesNothing) {
  AutoconfiguredHost host;
  const Advert good{.prefixes = {{}}};
  advertise(host, good, "fe80::66", 254);
  advertise(host, good, "fe80::66", 1);
  advertise(host, good, "2001:db8:66::66");
  advertise(host, good, "fd00::66");
  advertise(host, {.prefixes = {{}}, .code = std::byte{1}});
  advertise(host, {.prefixes = {{}}, .more = Octets(8)});  // an option of no length
  advertise(host, {.prefixes = {{}},
                   .more = Octets{std::byte{99}, std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                                  std::byte{0}, std::byte{0}}});
  advertise(host, {.prefixes = {{}}, .more = Octets(3)});
  const Octets whole = message_of(good);
  const V6 header{.source = router_1, .destination = "ff02::1", .next_header = 58, .hop_limit = 255};
  const auto inject = [&](const Octets& octets, const V6& with) {
    host.link.inject(wire::ethertype_ipv6, packet(with, octets), true, router_mac);
  };
  for (const std::size_t size : {4U, 8U, 15U}) {
    inject(icmp_summed(part(whole, 0, size), header), header);
  }
  V6 fragmented = header;
  fragmented.next_header = 44;
  inject(fragment_header(58, 0, false) + icmp_summed(whole, header), fragmented);
  const Octets summed = icmp_summed(whole, header);
  inject(fragment_header(58, 0, true, 5) + part(summed, 0, 24), fragmented);
  inject(fragment_header(58, 24, false, 5) + part(summed, 24), fragmented);
  EXPECT_EQ(host.count("bad_ndp"), 13U);
  Octets wrong_sum = summed;
  wrong_sum[2] ^= std::byte{1};
  inject(wrong_sum, header);
  EXPECT_EQ(host.count("icmp_bad_checksum"), 1U);
  advertise(host, good, our_link_local);
  EXPECT_EQ(host.count("router_advertisements"), 0U);
  EXPECT_EQ(host.count("addresses_formed"), 0U);
  EXPECT_EQ(host.source_to("2001:db8:9::9"), "errno " + std::to_string(ENETUNREACH));
}

/// RFC 4862 section 5.5.3 (b) to (d), RFC 4861 section 4.6.2: what is no prefix, and lifetimes that cannot be.
TEST(IpAutoconfiguration, FalsePrefixesAreRefused) {
  struct Case {
    std::string_view what;
    Prefix prefix;
    std::uint64_t refused;
  };
  const std::vector<Case> cases{
      {"129 bits", {.length = 129}, 1},
      {"255 bits", {.length = 255}, 1},
      {"no bits: all the Internet", {.length = 0}, 1},
      {"the link-local prefix", {.prefix = "fe80::"}, 1},
      {"a multicast prefix", {.prefix = "ff02::"}, 1},
      {"the loopback network", {.prefix = "::1"}, 1},
      {"an address of 63 bits", {.length = 63, .on_link = false}, 1},
      {"an address of 128 bits", {.length = 128, .on_link = false}, 1},
      {"preferred for longer than valid", {.valid = 100, .preferred = 101, .on_link = false}, 1},
      {"preferred for ever, valid for a while", {.valid = 100, .preferred = infinity, .on_link = false}, 1},
      {"no lifetime", {.valid = 0, .preferred = 0}, 0},
      {"neither flag", {.on_link = false, .autonomous = false}, 0},
  };
  for (const Case& at : cases) {
    AutoconfiguredHost host;
    advertise(host, {.prefixes = {at.prefix}});
    EXPECT_EQ(host.count("router_advertisements"), 1U) << at.what;
    EXPECT_EQ(host.count("prefixes_refused"), at.refused) << at.what;
    EXPECT_EQ(host.count("addresses_formed"), 0U) << at.what;
    EXPECT_NE(host.next_hop_to("2001:db8:1::77"), "2001:db8:1::77") << at.what;
  }
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{.valid = infinity, .preferred = infinity}}});
  pass_to_deadlines(host, 24h * 365 * 10);
  EXPECT_TRUE(host.answers_for(our_address)) << "for ever";
}

/// Threat: a false router fills the tables. What is known makes no room for what is new, and each is counted.
TEST(IpAutoconfiguration, AFloodOfPrefixesAndRoutersIsBounded) {
  AutoconfiguredHost host;
  advertise(host, {.prefixes = {{}}});
  std::mt19937 random(4862);  // seed: fixed
  constexpr int prefixes = 10000;
  constexpr int each = 40;
  for (int sent = 0; sent < prefixes; sent += each) {
    Advert advert{.lifetime = 1800};
    std::vector<std::string> names(each);
    for (std::string& name : names) {
      Ipv6Address prefix = v6("2001:db8:8000::");
      for (std::size_t at = 4; at < 8; ++at) {
        prefix.octets[at] = static_cast<std::uint8_t>(random());
      }
      name = prefix.to_text();
      advert.prefixes.push_back({.prefix = name});
    }
    Ipv6Address router = v6("fe80::");
    store_big_endian(std::as_writable_bytes(std::span(router.octets)).data() + 12,
                     static_cast<std::uint32_t>(0x10000 + sent));
    advertise(host, advert, router.to_text());
  }
  EXPECT_EQ(host.count("router_advertisements"), 1U + prefixes / each);
  EXPECT_EQ(host.count("addresses_formed"), Autoconfiguration::addresses_max);
  EXPECT_EQ(host.count("learned_addresses_full"), 1 + prefixes - Autoconfiguration::addresses_max);
  EXPECT_EQ(host.count("prefixes_full"), 1 + prefixes - Autoconfiguration::prefixes_max);
  EXPECT_EQ(host.count("routers_full"), 1 + prefixes / each - Autoconfiguration::routers_max);
  EXPECT_EQ(host.source_to("2001:db8:1::9"), our_address) << "what was there first stays";
  EXPECT_EQ(host.next_hop_to("2001:db8:9::9"), router_mac.to_text());
  EXPECT_LE(host.ip->neighbours().size(), ip::Config{}.neighbours_max);
  pass_to_deadlines(host, 24h * 2);
  EXPECT_EQ(host.count("addresses_expired"), Autoconfiguration::addresses_max);
  EXPECT_EQ(host.set.scheduler().next_deadline(), never) << "and goes, with all of it";
}

/// Off, advertisements are what they were: ignored, and nothing is asked.
TEST(IpAutoconfiguration, IsOffUnlessTheStackFileSaysSo) {
  Bed bed;
  EXPECT_THAT(solicitations(bed.said_at_start), IsEmpty());
  advertise(bed, {.prefixes = {{}}, .hop_limit = 100, .mtu = 1300});
  EXPECT_EQ(bed.count("icmp_ignored"), 1U);
  EXPECT_EQ(bed.count("router_advertisements"), 0U);
  EXPECT_EQ(bed.count("addresses_formed"), 0U);
  pass_to_deadlines(bed, 60s);
  EXPECT_THAT(solicitations(bed.link.sent), IsEmpty());
  bed.bind(58);
  bed.user.received.clear();
  advertise(bed, {});
  EXPECT_EQ(bed.user.received.size(), 1U) << "a user that is bound to ICMPv6 gets them";
}

TEST(IpAutoconfiguration, NeedsNoAddressInTheStackFile) {
  Parameters parameters;
  EXPECT_FALSE(ip::Config::from(parameters));
  parameters.set("autoconfigure", true);
  EXPECT_TRUE(ip::Config::from(parameters));
  parameters.set("gateway", std::vector<std::string>{"fe80::1"});
  EXPECT_TRUE(ip::Config::from(parameters)) << "a router's link-local address is on the link";
  parameters.set("mtu", std::int64_t{1000});
  EXPECT_FALSE(ip::Config::from(parameters)) << "IPv6 requires 1280";
}

}  // namespace
}  // namespace sluice::ip_test
