// SPDX-License-Identifier: Apache-2.0
// What routers are told of this host's groups: MLD and IGMP.
#include "stack/modules/ip_groups.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "stack/wire/ndp.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using ip::Groups;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::string_view our_group = "ff02::1:ff00:1";  // the solicited-node group of both our addresses

/// A report, as it was sent: "TYPE GROUP" for each record of a new one, where TYPE is "is", "in" or "ex"; "old GROUP"
/// or "left GROUP" of an old one.
struct GroupReport {
  std::string source;
  std::string destination;
  std::vector<std::string> says;
};

std::string record(std::uint8_t type, const IpAddress& group) {
  return (type == 2 ? "is " : type == 3 ? "in " : type == 4 ? "ex " : "? ") + group.to_text();
}

/// Checks what every report must have, whatever it says.
std::optional<GroupReport> report_of(const Frame& frame) {
  const ConstBytes packet = frame.octets;
  if (frame.sap == wire::ethertype_ipv6 && packet[6] == std::byte{0}) {
    const auto header = wire::Ipv6Header::parse(packet);
    EXPECT_TRUE(header);
    // RFC 3810 section 5: "an IPv6 Hop Limit of 1, and an IPv6 Router Alert option [RFC2711] in a Hop-by-Hop Options
    // header".
    EXPECT_EQ(header->hop_limit, 1);
    EXPECT_EQ(part(packet, 40, 8), (Octets{std::byte{58}, {}, std::byte{5}, std::byte{2}, {}, {}, std::byte{1}, {}}));
    const Octets body = part(packet, 48);
    const std::uint16_t pseudo =
        wire::pseudo_header_sum(header->source, header->destination, 58, static_cast<std::uint32_t>(body.size()));
    EXPECT_TRUE(sum_holds(add_sums(pseudo, ilp::scalar::sum(body))));
    EXPECT_EQ(frame.to, wire::multicast_mac(header->destination));
    GroupReport report{header->source.to_text(), header->destination.to_text(), {}};
    const auto type = std::to_integer<int>(body[0]);
    if (type == 131 || type == 132) {
      EXPECT_EQ(body.size(), 24U);
      report.says.push_back((type == 131 ? "old " : "left ") + Ipv6Address::load(body.data() + 8).to_text());
      return report;
    }
    EXPECT_EQ(type, 143);
    const std::size_t records = load_big_endian<std::uint16_t>(body.data() + 6);
    EXPECT_EQ(body.size(), 8 + 20 * records);
    for (std::size_t at = 8; at < body.size(); at += 20) {
      report.says.push_back(record(std::to_integer<std::uint8_t>(body[at]), Ipv6Address::load(body.data() + at + 4)));
    }
    return report;
  }
  if (frame.sap == wire::ethertype_ipv4 && packet[9] == std::byte{2}) {
    const auto header = wire::Ipv4View::check(packet);
    EXPECT_TRUE(header);
    // RFC 3376 section 4: "sent with an IP Time-to-Live of 1, IP Precedence of Internetwork Control (e.g., Type of
    // Service 0xc0), and carries an IP Router Alert option [RFC-2113] in its IP header."
    EXPECT_EQ(header->time_to_live(), 1);
    EXPECT_EQ(header->type_of_service(), 0xc0);
    EXPECT_EQ(part(packet, 20, 4), (Octets{std::byte{148}, std::byte{4}, {}, {}}));
    const Octets body = part(packet, 24);
    EXPECT_TRUE(sum_holds(ilp::scalar::sum(body)));
    EXPECT_EQ(frame.to, wire::multicast_mac(header->destination()));
    GroupReport report{header->source().to_text(), header->destination().to_text(), {}};
    const auto type = std::to_integer<int>(body[0]);
    if (type != 0x22) {
      EXPECT_EQ(body.size(), 8U);
      report.says.push_back((type == 0x12   ? "oldest "
                             : type == 0x16 ? "old "
                             : type == 0x17 ? "left "
                                            : "? ") +
                            Ipv4Address::load(body.data() + 4).to_text());
      return report;
    }
    const std::size_t records = load_big_endian<std::uint16_t>(body.data() + 6);
    EXPECT_EQ(body.size(), 8 + 8 * records);
    for (std::size_t at = 8; at < body.size(); at += 8) {
      report.says.push_back(record(std::to_integer<std::uint8_t>(body[at]), Ipv4Address::load(body.data() + at + 4)));
    }
    return report;
  }
  return std::nullopt;
}

std::vector<GroupReport> reports(std::deque<Frame>& frames) {
  std::vector<GroupReport> found;
  for (; !frames.empty(); frames.pop_front()) {
    if (const auto report = report_of(frames.front())) {
      found.push_back(*report);
    }
  }
  return found;
}

std::vector<std::string> reports_said(Bed& bed) {
  std::vector<std::string> words;
  for (const GroupReport& report : reports(bed.link.sent)) {
    words.insert(words.end(), report.says.begin(), report.says.end());
  }
  return words;
}

struct Mld {
  std::uint8_t type = 130;
  std::string_view group = "::";
  std::uint16_t delay_code = 1000;
  std::size_t size = 28;  // 24: of MLDv1
  std::string_view source = "fe80::fe";
  std::string_view destination = "ff02::1";
  std::uint8_t hop_limit = 1;
  std::uint8_t option = 5;  // router alert
};

void tell(Bed& bed, const Mld& mld) {
  Octets octets(mld.size);
  octets[0] = std::byte{mld.type};
  store_big_endian(octets.data() + 4, mld.delay_code);
  if (mld.size >= 24) {
    v6(mld.group).store(octets.data() + 8);
  }
  const V6 header{.source = mld.source, .destination = mld.destination, .next_header = 58, .hop_limit = mld.hop_limit};
  Octets options{std::byte{58}, {}, std::byte{mld.option}, std::byte{2}, {}, {}, std::byte{1}, {}};
  V6 outer = header;
  outer.next_header = 0;
  bed.link.inject(wire::ethertype_ipv6, packet(outer, options + icmp_summed(octets, header)), true);
}

struct Igmp {
  std::uint8_t type = 0x11;
  std::uint8_t delay_code = 100;  // 10 seconds
  std::string_view group = "0.0.0.0";
  std::size_t size = 12;  // 8: of IGMPv2, or v1
  std::string_view destination = "224.0.0.1";
  std::uint8_t ttl = 1;
};

void tell(Bed& bed, const Igmp& igmp) {
  Octets octets(igmp.size);
  octets[0] = std::byte{igmp.type};
  octets[1] = std::byte{igmp.delay_code};
  v4(igmp.group).store(octets.data() + 4);
  store_checksum(octets.data() + 2, checksum_of(ilp::scalar::sum(octets)));
  bed.link.inject(wire::ethertype_ipv4,
                  packet(V4{.destination = igmp.destination, .protocol = 2, .ttl = igmp.ttl}, octets), true);
}

/// Time passes, a hundredth of a second at a time.
void pass_finely(Bed& bed, Duration time) {
  for (const TimePoint end = bed.now + time; bed.now < end;) {
    bed.advance(10ms);
  }
}

/// RFC 3810 section 6: "The link-scope all-nodes multicast address, (FF02::1), is handled as a special case. On all
/// nodes [...] No MLD messages are ever sent regarding neither the link-scope all-nodes multicast address".
/// Section 6.1: a second report follows within the Unsolicited Report Interval.
TEST(IpGroups, SolicitedNodeGroupsAreReportedAtStart) {
  Bed bed;
  const std::vector<GroupReport> told = reports(bed.said_at_start);
  ASSERT_EQ(told.size(), 2U);
  for (const GroupReport& report : told) {
    EXPECT_EQ(report.source, our_link_local);
    EXPECT_EQ(report.destination, "ff02::16");
    EXPECT_THAT(report.says, ElementsAre("ex " + std::string(our_group)));
  }
  pass_finely(bed, 30s);
  EXPECT_THAT(reports_said(bed), IsEmpty());
  EXPECT_EQ(bed.count("group_reports_out"), 2U);
}

/// RFC 3810 section 5.2.13: "or with the unspecified address (::), if the sending interface has not acquired a valid
/// link-local address yet". RFC 3590 section 4: "Once a valid link-local address is available, a node SHOULD generate
/// new MLD Report messages for all multicast addresses joined on the interface."
TEST(IpGroups, ReportsOfATentativeHostComeFromNobodyAndAreRepeated) {
  ip::Config config = both_families();
  config.duplicate_address_detection = true;
  Bed bed(config);
  bed.advance(0s);
  std::vector<GroupReport> told = reports(bed.link.sent);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].source, "::");
  pass_finely(bed, 4s);
  told = reports(bed.link.sent);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().source, our_link_local);
  EXPECT_THAT(told.back().says, ElementsAre("ex " + std::string(our_group)));
}

/// RFC 3810 section 6.2: "When a new valid General Query arrives on an interface, the node checks whether it has any
/// per-interface listening state record to report on, or not." and the answer comes after a delay "in the range (0,
/// [Maximum Response Delay])"; "If there is a pending response to a previous General Query scheduled sooner than the
/// selected delay, no additional response needs to be scheduled."
TEST(IpGroups, QueriesAreAnsweredOnceAndInTime) {
  std::vector<Duration> delays;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Bed bed;
    for (std::uint64_t draws = 0; draws < seed; ++draws) {
      bed.set.prng()();
    }
    tell(bed, Mld{.delay_code = 1000});
    EXPECT_TRUE(bed.link.sent.empty());
    const TimePoint asked = bed.now;
    while (bed.link.sent.empty() && bed.now < asked + 1s) {
      bed.advance(10ms);
    }
    delays.push_back(bed.now - asked);
    EXPECT_THAT(reports_said(bed), ElementsAre("is " + std::string(our_group)));
    pass_finely(bed, 5s);
    EXPECT_THAT(reports_said(bed), IsEmpty());
  }
  EXPECT_GT(*std::ranges::max_element(delays) - *std::ranges::min_element(delays), 300ms) << "spread";
}

/// The attack: a flood of queries. Each answer that waits is the answer to all.
TEST(IpGroups, AFloodOfQueriesIsAnsweredOnce) {
  Bed bed;
  ASSERT_TRUE(bed.ip->join(address("239.1.2.3")));
  pass_finely(bed, 2s);
  reports_said(bed);
  for (int query = 0; query < 1000; ++query) {
    tell(bed, Mld{.delay_code = 1000});
    tell(bed, Mld{.group = our_group, .delay_code = 1000, .destination = our_group});
    tell(bed, Igmp{.delay_code = 10});
  }
  EXPECT_EQ(bed.count("group_queries"), 3000U);
  pass_finely(bed, 2s);
  EXPECT_LE(reports_said(bed).size(), 3U);
}

/// RFC 3810 section 8.1: "Query messages that do not match any of the above conditions (e.g., a Query of length
/// 26 octets) MUST be silently ignored." Section 6.2: a query is dropped unless "the source address of the message is a
/// valid link-local address, [...] the Hop Limit is set to 1, and [...] the Router Alert option is present".
TEST(IpGroups, WhatIsNoQueryOfThisLinkIsDropped) {
  const std::pair<const char*, Mld> rows[] = {
      {"no router alert", {.option = 1}},
      {"through a router", {.hop_limit = 254}},
      {"source of elsewhere", {.source = "2001:db8::1"}},
      {"26 octets", {.size = 26}},
      {"23 octets", {.size = 23}},
      {"8 octets", {.size = 8}},
      {"group that is none", {.group = "fd00:77::1"}},
  };
  for (const auto& [what, mld] : rows) {
    SCOPED_TRACE(what);
    Bed bed;
    tell(bed, mld);
    EXPECT_EQ(bed.count("bad_group_message"), 1U);
    pass_finely(bed, 5s);
    EXPECT_THAT(reports_said(bed), IsEmpty());
  }
  const std::pair<const char*, Igmp> rows4[] = {
      {"through a router", {.ttl = 2}}, {"10 octets", {.size = 10}}, {"group that is none", {.group = "10.77.0.1"}}};
  for (const auto& [what, igmp] : rows4) {
    SCOPED_TRACE(what);
    Bed bed;
    tell(bed, igmp);
    EXPECT_EQ(bed.count("bad_group_message"), 1U);
  }
}

TEST(IpGroups, QueriesAboutOneGroupAreAnsweredForThatOne) {
  Bed bed;
  ASSERT_TRUE(bed.ip->join(address("ff05::77")));
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("ex ff05::77", "ex ff05::77"));
  tell(bed, Mld{.group = "ff05::77", .destination = "ff05::77"});
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("is ff05::77"));
  tell(bed, Mld{.group = "ff05::78"});
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), IsEmpty());
}

/// RFC 3810 section 8.2.1: "When Host Compatibility Mode is MLDv1, a host acts in MLDv1 compatibility mode, using
/// only the MLDv1 protocol, on that interface." RFC 2710 section 4: "If a node receives another node's Report from an
/// interface for a multicast address while it has a timer running for that same address on that interface, it stops its
/// timer".
TEST(IpGroups, SpeaksTheVersionOfAnOldRouter) {
  Bed bed;
  ASSERT_TRUE(bed.ip->join(address("ff05::77")));
  pass_finely(bed, 2s);
  reports_said(bed);
  tell(bed, Mld{.size = 24});
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), UnorderedElementsAre("old " + std::string(our_group), "old ff05::77"));
  tell(bed, Mld{.size = 24});
  tell(bed, Mld{.type = 131, .group = "ff05::77", .size = 24, .destination = "ff05::77"});
  EXPECT_EQ(bed.count("group_reports_in"), 1U);
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("old " + std::string(our_group)))
      << "the other one was told by another host";
  bed.ip->leave(address("ff05::77"));
  EXPECT_THAT(reports_said(bed), IsEmpty()) << "RFC 2710 section 4: who reported it last says so";
  ASSERT_TRUE(bed.ip->join(address("ff05::78")));
  pass_finely(bed, Groups::unsolicited_report_interval_old);
  EXPECT_THAT(reports_said(bed), ElementsAre("old ff05::78", "old ff05::78"));
  bed.ip->leave(address("ff05::78"));
  const std::vector<GroupReport> told = reports(bed.link.sent);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].destination, "ff02::2");
  EXPECT_THAT(told[0].says, ElementsAre("left ff05::78"));
  pass_finely(bed, Groups::older_version_querier_present);
  tell(bed, Mld{});
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("is " + std::string(our_group))) << "the old router is gone";
}

/// RFC 3810 section 8.2.1: "Whenever a host changes its compatibility mode, it cancels all its pending responses and
/// retransmission timers."
TEST(IpGroups, AnOldRouterCancelsWhatANewOneWaitsFor) {
  Bed bed;
  pass_finely(bed, 2s);
  for (int times = 0; times < 8; ++times) {
    reports_said(bed);
    tell(bed, Mld{.delay_code = 10'000});
    tell(bed, Mld{.delay_code = 1, .size = 24});
    pass_finely(bed, 11s);
    EXPECT_THAT(reports_said(bed), ElementsAre("old " + std::string(our_group))) << times;
    pass_finely(bed, Groups::older_version_querier_present);
  }
}

/// RFC 3376 section 4: "sent with an IP Time-to-Live of 1"; section 6: "The all-systems multicast address, 224.0.0.1,
/// is handled as a special case. On all systems [...] no IGMP messages are ever sent regarding the all-systems
/// multicast address."
TEST(IpGroups, IgmpReportsWhatWasJoined) {
  Bed bed;
  const IpAddress group = address("239.1.2.3");
  ASSERT_TRUE(bed.ip->join(group));
  ASSERT_TRUE(bed.ip->join(group));
  ASSERT_TRUE(bed.ip->join(address("224.0.0.1")));
  pass_finely(bed, 2s);
  const std::vector<GroupReport> told = reports(bed.link.sent);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].source, "10.77.0.1");
  EXPECT_EQ(told[0].destination, "224.0.0.22");
  EXPECT_THAT(told[0].says, ElementsAre("ex 239.1.2.3"));
  EXPECT_THAT(bed.link.groups, testing::Contains(wire::multicast_mac(group)));
  bed.bind();
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.destination = "239.1.2.3"}, pattern(8)), true);
  EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(8));
  tell(bed, Igmp{});
  pass_finely(bed, 10s);
  EXPECT_THAT(reports_said(bed), ElementsAre("is 239.1.2.3"));
  tell(bed, Igmp{.size = 8});
  pass_finely(bed, 10s);
  EXPECT_THAT(reports_said(bed), ElementsAre("old 239.1.2.3"));
  tell(bed, Igmp{.delay_code = 0, .size = 8});
  pass_finely(bed, 10s);
  EXPECT_THAT(reports_said(bed), ElementsAre("oldest 239.1.2.3"));
  pass_finely(bed, Groups::older_version_querier_present);
  bed.ip->leave(group);
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), IsEmpty()) << "one user is left";
  bed.ip->leave(group);
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("in 239.1.2.3", "in 239.1.2.3"));
  EXPECT_THAT(bed.link.groups, testing::Not(testing::Contains(wire::multicast_mac(group))));
  tell(bed, Igmp{});
  pass_finely(bed, 10s);
  EXPECT_THAT(reports_said(bed), IsEmpty());
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.destination = "239.1.2.3"}, pattern(8)), true);
  EXPECT_EQ(bed.count("not_ours"), 1U);
}

/// RFC 2236 section 3: a host that leaves sends a Leave Group message "to the all-routers multicast group (224.0.0.2)".
TEST(IpGroups, AnOldIgmpRouterIsToldOfLeaving) {
  Bed bed;
  tell(bed, Igmp{.size = 8});
  ASSERT_TRUE(bed.ip->join(address("239.1.2.3")));
  pass_finely(bed, Groups::unsolicited_report_interval_old);
  EXPECT_THAT(reports_said(bed), ElementsAre("old 239.1.2.3", "old 239.1.2.3"));
  bed.ip->leave(address("239.1.2.3"));
  const std::vector<GroupReport> told = reports(bed.link.sent);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].destination, "224.0.0.2");
  EXPECT_THAT(told[0].says, ElementsAre("left 239.1.2.3"));
}

/// The user's requests in M_CTL. What he is in when he unbinds or the stream closes is left at once: no timer follows a
/// close.
TEST(IpGroups, TheUserJoinsAndLeaves) {
  using Action = network::GroupReq::Action;
  Bed bed;
  const auto ask = [&](Action action, std::string_view group, std::string_view interface = "0.0.0.0") {
    bed.ask(network::GroupReq{action, address(group), address(interface)}, network::GroupReq::size, MessageType::ctl);
    const auto ack = network::GroupAck::decode(bed.next_up().bytes());
    EXPECT_EQ(ack->group, address(group));
    return static_cast<int>(ack->error);
  };
  EXPECT_EQ(ask(Action::join, "239.1.2.3"), 0);
  EXPECT_EQ(ask(Action::join, "239.1.2.3"), EADDRINUSE);
  EXPECT_EQ(ask(Action::join, "239.1.2.4", "10.77.0.9"), EADDRNOTAVAIL) << "no interface of ours";
  EXPECT_EQ(ask(Action::join, "10.77.0.9"), EADDRNOTAVAIL);
  EXPECT_EQ(ask(Action::leave, "239.1.2.5"), EADDRNOTAVAIL);
  EXPECT_EQ(ask(Action::join, "ff05::77", "10.77.0.1"), 0);
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), UnorderedElementsAre("ex 239.1.2.3", "ex 239.1.2.3", "ex ff05::77", "ex ff05::77"));
  EXPECT_EQ(ask(Action::leave, "239.1.2.3"), 0);
  EXPECT_EQ(ask(Action::leave, "239.1.2.3"), EADDRNOTAVAIL);
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("in 239.1.2.3", "in 239.1.2.3"));
  EXPECT_EQ(ask(Action::leave_all, "0.0.0.0"), 0);
  EXPECT_THAT(reports_said(bed), ElementsAre("in ff05::77")) << "at once";
  EXPECT_EQ(ask(Action::leave_all, "0.0.0.0"), 0);
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), ElementsAre("in ff05::77"));

  EXPECT_EQ(ask(Action::join, "239.1.2.3"), 0);
  EXPECT_EQ(ask(Action::join, "ff05::77"), 0);
  pass_finely(bed, 2s);
  reports_said(bed);
  ASSERT_TRUE(bed.chain.pop());
  // And with its addresses go their groups.
  EXPECT_THAT(reports_said(bed), UnorderedElementsAre("in 239.1.2.3", "in ff05::77", "in ff02::1:ff00:1"));
}

TEST(IpGroups, JoiningIsBoundedAndChecked) {
  Bed bed;
  EXPECT_EQ(bed.ip->join(address("10.77.0.9")).error().code, EADDRNOTAVAIL);
  Bed lone(config_of({"10.77.0.1/24"}));
  EXPECT_EQ(lone.ip->join(address("ff05::77")).error().code, EADDRNOTAVAIL);
  for (std::uint32_t number = 0; number < ip::Routes::joined_max; ++number) {
    EXPECT_TRUE(bed.ip->join(IpAddress(Ipv4Address::from_value(0xef00'0000 + number))));
  }
  EXPECT_EQ(bed.ip->join(address("239.255.0.1")).error().code, ENOBUFS);
  EXPECT_TRUE(bed.ip->join(address("239.0.0.1"))) << "that one is joined";
  pass_finely(bed, 2s);
  EXPECT_EQ(reports_said(bed).size(), 2 * ip::Routes::joined_max);
  bed.ip->leave(address("239.0.0.77"));
  bed.ip->leave(address("ff02::1"));
  bed.ip->leave(address(our_group));
  pass_finely(bed, 2s);
  EXPECT_THAT(reports_said(bed), IsEmpty()) << "what was not joined is not left";
}

}  // namespace
}  // namespace sluice::ip_test
