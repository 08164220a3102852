// SPDX-License-Identifier: Apache-2.0
// The ip module and its DLPI driver.
#include "stack/modules/ip_link.h"

#include <gmock/gmock.h>

#include "tests/stack/modules/ip_bed.h"

namespace sluice::ip_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(IpLink, BindsItsSapsAndJoinsItsGroups) {
  Bed bed;
  ASSERT_TRUE(bed.opened) << bed.opened.error().text;
  EXPECT_THAT(bed.link.saps, ElementsAre(0x0800, 0x0806, 0x86dd));
  EXPECT_THAT(bed.link.requests, Contains(dlpi::DL_NOTIFY_REQ));
  // All systems, all nodes, and the solicited-node group that fd00:77::1 and the link-local address share.
  EXPECT_THAT(bed.link.groups, UnorderedElementsAre(MacAddress{{1, 0, 0x5e, 0, 0, 1}}, all_nodes_mac,
                                                    MacAddress{{0x33, 0x33, 0xff, 0, 0, 1}}));
}

TEST(IpLink, LeavesWhatItTookWhenItCloses) {
  Bed bed;
  ASSERT_TRUE(bed.chain.pop());
  EXPECT_THAT(bed.link.groups, IsEmpty());
  EXPECT_EQ(bed.link.requests.back(), dlpi::DL_UNBIND_REQ);
}

TEST(IpLink, WorksWhenAnswersComeLater) {
  auto driver = std::make_unique<Link>();
  driver->answers_late = true;
  Bed bed(both_families(), std::move(driver));
  ASSERT_TRUE(bed.opened);
  bed.bind();
  bed.send("10.77.0.2", pattern(10));
  EXPECT_EQ(uderror_of(bed.next_up()).error, ENETDOWN);
  for (int round = 0; round < 32 && !bed.link.held.empty(); ++round) {
    bed.link.answer_all();
  }
  EXPECT_TRUE(bed.link.held.empty());
  bed.send("10.77.0.2", pattern(10));
  EXPECT_EQ(bed.next_frame().sap, wire::ethertype_arp);
}

TEST(IpLink, RefusalsOfWhatItNeedsRefuseThePush) {
  for (const std::uint32_t primitive :
       {dlpi::DL_INFO_REQ, dlpi::DL_BIND_REQ, dlpi::DL_SUBS_BIND_REQ, dlpi::DL_PHYS_ADDR_REQ}) {
    auto driver = std::make_unique<Link>();
    driver->refuses = primitive;
    Bed bed(both_families(), std::move(driver));
    EXPECT_FALSE(bed.opened) << primitive;
    EXPECT_EQ(bed.opened.error().code, ENXIO);
  }
}

TEST(IpLink, RefusalsOfWhatItCanDoWithoutAreCounted) {
  for (const std::uint32_t primitive : {dlpi::DL_NOTIFY_REQ, dlpi::DL_ENABMULTI_REQ}) {
    auto driver = std::make_unique<Link>();
    driver->refuses = primitive;
    Bed bed(both_families(), std::move(driver));
    EXPECT_TRUE(bed.opened);
    EXPECT_EQ(bed.count("link_errors"), primitive == dlpi::DL_NOTIFY_REQ ? 1 : 3);
  }
}

TEST(IpLink, ALateRefusalIsAnError) {
  auto driver = std::make_unique<Link>();
  driver->answers_late = true;
  driver->refuses = dlpi::DL_BIND_REQ;
  Bed bed(both_families(), std::move(driver));
  bed.link.answer_all();
  const Message message = bed.next_up();
  EXPECT_EQ(message.type(), MessageType::error);
  EXPECT_EQ(message.bytes()[0], static_cast<std::byte>(ENXIO));
}

TEST(IpLink, RefusesALinkTooNarrowForIpv6) {
  auto driver = std::make_unique<Link>();
  driver->mtu = 1279;
  Bed bed(both_families(), std::move(driver));
  ASSERT_FALSE(bed.opened);
  EXPECT_EQ(bed.opened.error().code, EINVAL);
  EXPECT_THAT(bed.opened.error().text, testing::HasSubstr("1280"));
}

TEST(IpLink, HeedsANewMtuAndTellsTheUserThatRoutesAreVoid) {
  Bed bed;
  bed.bind();
  bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_SDU_SIZE, .data = 1400, .address = {}},
                MessageType::proto);
  const auto told = network::RouteAck::decode(bed.next_up().bytes());
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->destination.is_unspecified());
  bed.ask(network::RouteReq{address("10.77.0.2")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 1400);
}

/// RFC 8200 section 5: "IPv6 requires that every link in the Internet have an MTU of 1280 octets or greater."
TEST(IpLink, HasNoIpv6WhileTheLinkIsTooNarrow) {
  Bed bed;
  bed.bind();
  bed.know_neighbours();
  const auto set_mtu = [&](std::uint32_t mtu) {
    bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_SDU_SIZE, .data = mtu, .address = {}},
                  MessageType::proto);
    bed.user.received.clear();
  };
  set_mtu(1279);
  bed.send("fd00:77::2", pattern(8));
  EXPECT_EQ(uderror_of(bed.next_up()).error, ENETDOWN);
  bed.link.inject(wire::ethertype_ipv6, packet(V6{}, pattern(8)));
  EXPECT_EQ(bed.count("ipv6_off"), 1);
  EXPECT_TRUE(bed.user.received.empty());
  EXPECT_TRUE(bed.link.sent.empty());
  bed.send("10.77.0.2", pattern(1260));
  EXPECT_EQ(bed.next_frame().octets.size(), 1276U) << "IPv4 goes on, in fragments that fit";
  set_mtu(1280);
  bed.link.inject(wire::ethertype_ipv6, packet(V6{}, pattern(8)));
  EXPECT_EQ(unitdata_of(bed.next_up()).data, pattern(8));
  set_mtu(67);
  bed.ask(network::RouteReq{address("10.77.0.2")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 1280U) << "no link is that narrow";
  set_mtu(68);  // RFC 791: "Every internet module must be able to forward a datagram of 68 octets"
  bed.ask(network::RouteReq{address("10.77.0.2")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->mtu, 68U);
}

TEST(IpLink, ProbesNeighboursAnewWhenTheLinkComesBack) {
  Bed bed;
  bed.bind();
  bed.send("10.77.0.2", pattern(8));
  bed.arp(wire::ArpOperation::reply, "10.77.0.2", "10.77.0.1");
  EXPECT_EQ(bed.ip->neighbours().state(address("10.77.0.2"), bed.now), ip::NeighbourState::reachable);
  bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_DOWN, .address = {}}, MessageType::proto);
  bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_LINK_UP, .address = {}}, MessageType::proto);
  EXPECT_EQ(bed.ip->neighbours().state(address("10.77.0.2"), bed.now), ip::NeighbourState::stale);
  EXPECT_EQ(bed.count("link_downs"), 1);
}

TEST(IpLink, TakesANewMacAddress) {
  Bed bed;
  bed.bind();
  const MacAddress fresh{{2, 0, 0, 0, 9, 9}};
  bed.link.tell(dlpi::NotifyInd{.notification = dlpi::DL_NOTE_PHYS_ADDR, .address = dlpi::LinkAddress{fresh, 0x0800}},
                MessageType::proto);
  EXPECT_THAT(bed.link.groups, Contains(MacAddress{{0x33, 0x33, 0xff, 0, 9, 9}}));
  // The link-local address is another one, so every route that was told is void.
  const Message news = bed.next_up();
  ASSERT_TRUE(news);
  const auto told = network::RouteAck::decode(news.bytes());
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->destination.is_unspecified());
  bed.ask(network::RouteReq{address("fe80::2")}, network::RouteReq::size, MessageType::ctl);
  EXPECT_EQ(network::RouteAck::decode(bed.next_up().bytes())->source, address("fe80::ff:fe00:909"));
  bed.send("10.77.0.2", pattern(8));
  EXPECT_EQ(wire::ArpPacket::parse(bed.next_frame().octets)->sender_mac, fresh);
}

TEST(IpLink, FiltersAreCompletedPerFamilyAndAnsweredOnce) {
  Bed bed;
  bed.bind();
  bed.ask(dlpi::FilterReq{.local = {}, .protocol = {}, .local_port = 7000}, dlpi::FilterReq::encoded_size_max,
          MessageType::ctl);
  ASSERT_EQ(bed.link.filters.size(), 2);
  EXPECT_EQ(bed.link.filters[0], (dlpi::FilterReq{.sap = 0x0800, .local = {}, .protocol = udp, .local_port = 7000}));
  EXPECT_EQ(bed.link.filters[1], (dlpi::FilterReq{.sap = 0x86dd, .local = {}, .protocol = udp, .local_port = 7000}));
  const Message answer = bed.next_up();
  EXPECT_EQ(answer.type(), MessageType::ctl);
  EXPECT_EQ(dlpi::OkAck::decode(answer.bytes())->value, dlpi::DL_FILTER_REQ);
  EXPECT_TRUE(bed.user.received.empty());
}

TEST(IpLink, AFilterForOneAddressIsForItsFamilyOnly) {
  Bed bed;
  bed.bind(udp, address("fd00:77::1"));
  bed.ask(dlpi::FilterReq{.local = {}, .protocol = {}, .local_port = 7000}, dlpi::FilterReq::encoded_size_max,
          MessageType::ctl);
  ASSERT_EQ(bed.link.filters.size(), 1);
  EXPECT_EQ(bed.link.filters[0].local, address("fd00:77::1"));
  EXPECT_EQ(bed.link.filters[0].sap, 0x86dd);
}

/// RFC 3493 section 5.3: a port of [::] may be for IPv6 alone, and one of 0.0.0.0 is for IPv4.
TEST(IpLink, AFilterForASapIsForItsFamilyOnly) {
  for (const std::uint16_t sap : {wire::ethertype_ipv4, wire::ethertype_ipv6}) {
    Bed bed;
    bed.bind();
    const dlpi::FilterReq wanted{.sap = sap, .local = {}, .protocol = udp, .local_port = 7000};
    bed.ask(wanted, dlpi::FilterReq::encoded_size_max, MessageType::ctl);
    EXPECT_THAT(bed.link.filters, testing::ElementsAre(wanted));
    EXPECT_EQ(dlpi::OkAck::decode(bed.next_up().bytes())->value, dlpi::DL_FILTER_REQ);
  }
}

TEST(IpLink, AFilterForASapWithoutTheFamilysAddressIsRefused) {
  Bed bed;
  bed.bind(udp, address("fd00:77::1"));
  bed.ask(dlpi::FilterReq{.sap = wire::ethertype_ipv4, .local = {}, .protocol = {}, .local_port = 7000},
          dlpi::FilterReq::encoded_size_max, MessageType::ctl);
  EXPECT_EQ(dlpi::ErrorAck::decode(bed.next_up().bytes())->error, dlpi::DL_BADADDR);
  EXPECT_TRUE(bed.link.filters.empty());
}

/// Threat: a connection's filter that lost its remote end would claim what is for who listens on the port.
TEST(IpLink, AFilterOfAConnectionIsPassedOnForItsFamily) {
  for (const auto& [sap, local, remote] : {std::tuple{std::uint16_t{0x0800}, "10.77.0.1", "10.77.0.2"},
                                           std::tuple{std::uint16_t{0x86dd}, "fd00:77::1", "fd00:77::2"}}) {
    for (const bool bound : {true, false}) {
      Bed bed;
      bound ? bed.bind(udp, address(local)) : bed.bind();
      dlpi::FilterReq wanted{
          .local = {}, .protocol = {}, .local_port = 7000, .remote = address(remote), .remote_port = 5000};
      if (!bound) {
        wanted.local = address(local);
      }
      bed.ask(wanted, dlpi::FilterReq::encoded_size_max, MessageType::ctl);
      EXPECT_THAT(bed.link.filters,
                  testing::ElementsAre(dlpi::FilterReq{sap, address(local), udp, 7000, address(remote), 5000}));
      EXPECT_EQ(dlpi::OkAck::decode(bed.next_up().bytes())->value, dlpi::DL_FILTER_REQ);
      EXPECT_TRUE(bed.user.received.empty());
    }
  }
}

TEST(IpLink, AFilterThatConcernsNoFamilyIsRefused) {
  Bed bed;
  bed.bind(udp, address("fd00:77::1"));
  bed.ask(
      dlpi::FilterReq{
          .local = {}, .protocol = {}, .local_port = 7000, .remote = address("10.77.0.2"), .remote_port = 5000},
      dlpi::FilterReq::encoded_size_max, MessageType::ctl);
  EXPECT_EQ(dlpi::ErrorAck::decode(bed.next_up().bytes()), (dlpi::ErrorAck{dlpi::DL_FILTER_REQ, dlpi::DL_BADADDR, 0}));
  EXPECT_TRUE(bed.link.filters.empty());
  EXPECT_TRUE(bed.user.received.empty());
}

constexpr std::size_t filter_size = dlpi::FilterReq::encoded_size_max;
const dlpi::FilterReq port_7000{.local = {}, .protocol = {}, .local_port = 7000};

/// The user tells a port that is taken (DL_BOUND) from a driver that cannot filter by the driver's own error.
TEST(IpLink, ARefusedFilterIsReportedWithTheDriversError) {
  for (const std::uint32_t error : {dlpi::DL_BOUND, dlpi::DL_NOTSUPPORTED}) {
    auto driver = std::make_unique<Link>();
    driver->refuses = dlpi::DL_FILTER_REQ;
    driver->refuses_with = error;
    Bed bed(both_families(), std::move(driver));
    bed.bind();
    bed.ask(port_7000, filter_size, MessageType::ctl);
    EXPECT_EQ(dlpi::ErrorAck::decode(bed.next_up().bytes()), (dlpi::ErrorAck{dlpi::DL_FILTER_REQ, error, 0}));
    EXPECT_TRUE(bed.user.received.empty());
  }
}

/// Half a filter is none: where the driver refuses the second family, that of the first goes, too.
TEST(IpLink, AFilterOfOneFamilyAloneDoesNotStay) {
  Bed bed;
  bed.bind();
  bed.link.refuses_sap = wire::ethertype_ipv6;
  bed.ask(port_7000, filter_size, MessageType::ctl);
  EXPECT_EQ(dlpi::ErrorAck::decode(bed.next_up().bytes()),
            (dlpi::ErrorAck{dlpi::DL_FILTER_REQ, dlpi::DL_NOTSUPPORTED, 0}));
  EXPECT_TRUE(bed.user.received.empty()) << "answered once";
  ASSERT_FALSE(bed.link.filters.empty());
  EXPECT_EQ(bed.link.filters.front().local_port, 7000) << "IPv4 had been granted";
  EXPECT_EQ(bed.link.filters.back(), (dlpi::FilterReq{.sap = 0x0800, .local = {}, .protocol = {}, .local_port = {}}))
      << "and is given back";
  // A stream without a filter is the host: it answers.
  bed.know_neighbours();
  bed.link.inject(wire::ethertype_ipv4, packet(V4{.protocol = 99}, pattern(8)));
  EXPECT_EQ(bed.count("icmp_errors_out"), 1);
}

TEST(IpLink, AFilterNeedsABinding) {
  Bed bed;
  bed.ask(port_7000, filter_size, MessageType::ctl);
  EXPECT_EQ(dlpi::ErrorAck::decode(bed.next_up().bytes())->error, dlpi::DL_OUTSTATE);
  EXPECT_TRUE(bed.link.filters.empty());
}

TEST(IpLink, FiltersGoWithTheBinding) {
  Bed bed;
  bed.bind();
  bed.ask(port_7000, filter_size, MessageType::ctl);
  bed.link.filters.clear();
  bed.ask(tpi::UnbindReq{}, 4);
  ASSERT_EQ(bed.link.filters.size(), 2) << "one without conditions for each SAP";
  EXPECT_EQ(bed.link.filters[0], (dlpi::FilterReq{0x0800, {}, {}, {}}));
  EXPECT_EQ(bed.link.filters[1], (dlpi::FilterReq{0x86dd, {}, {}, {}}));
  bed.know_neighbours();
  bed.link.inject(wire::ethertype_ipv4,
                  packet(V4{.protocol = 1}, icmp(wire::Icmp4Message(wire::IcmpEcho{}), pattern(8))));
  EXPECT_EQ(bed.count("echo_answered"), 1) << "it is the host again";
}

TEST(IpLink, CountsWhatIsNoDlpi) {
  Bed bed;
  bed.link.read_queue().put_next(Message::copy_of(bed.set.pool(), pattern(3), 0, MessageType::proto));
  bed.link.read_queue().put_next(Message::copy_of(bed.set.pool(), pattern(64), 0, MessageType::proto));
  EXPECT_EQ(bed.count("bad_primitive"), 2);
  bed.link.tell(dlpi::UderrorInd{.destination = {}, .error = dlpi::DL_BADDATA}, MessageType::proto);
  EXPECT_EQ(bed.count("link_errors"), 1);
}

}  // namespace
}  // namespace sluice::ip_test
