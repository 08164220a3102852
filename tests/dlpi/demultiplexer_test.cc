// SPDX-License-Identifier: Apache-2.0
#include "dlpi/demultiplexer.h"

#include <algorithm>
#include <random>

#include "base/prng.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/protocol.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::uint16_t arp = wire::ethertype_arp;
constexpr wire::Ipv4Address peer_ip{{10, 0, 0, 2}};

struct Datagram {
  wire::Ipv4Address destination = here_ip;
  std::uint16_t port = 7000;
  std::uint8_t protocol = wire::protocol_udp;
  bool more_fragments = false;
  std::uint16_t fragment_offset = 0;
  wire::Ipv4Address source = peer_ip;
  std::uint16_t source_port = 9;
};

/// Long enough for a FrameTemplate.
std::vector<std::byte> ipv4_packet(const Datagram& datagram) {
  std::vector<std::byte> packet(20 + 8 + 24);
  wire::Ipv4Header header;
  header.payload_length = 32;
  header.protocol = datagram.protocol;
  header.more_fragments = datagram.more_fragments;
  header.fragment_offset = datagram.fragment_offset;
  header.source = datagram.source;
  header.destination = datagram.destination;
  header.emit(packet);
  wire::UdpHeader{.source_port = datagram.source_port, .destination_port = datagram.port, .payload_length = 24}.emit(
      Bytes(packet).subspan(20));
  return packet;
}

std::vector<std::byte> ipv6_packet(std::uint8_t next_header, std::uint16_t port, const wire::Ipv6Address& source = {},
                                   std::uint16_t source_port = 9) {
  std::vector<std::byte> packet(40 + 8 + 16);
  wire::Ipv6Header header;
  header.payload_length = 24;
  header.next_header = next_header;
  header.source = source;
  header.emit(packet);
  wire::UdpHeader{.source_port = source_port, .destination_port = port, .payload_length = 16}.emit(
      Bytes(packet).subspan(40));
  return packet;
}

/// Whether a filter accepts what `flow`, in which nothing is absent, says of a datagram.
bool accepts(const FilterReq& filter, const FilterReq& flow) {
  return filter.sap == flow.sap && (!filter.local || filter.local == flow.local) &&
         (!filter.protocol || filter.protocol == flow.protocol) &&
         (!filter.local_port || filter.local_port == flow.local_port) &&
         (!filter.remote || (filter.remote == flow.remote && filter.remote_port == flow.remote_port));
}

class Demultiplexing : public testing::Test {
 protected:
  std::unique_ptr<Stream> stream(std::initializer_list<std::uint16_t> saps) {
    auto made = std::make_unique<Stream>(set_);
    EXPECT_TRUE(made->open(driver_on(link_)));
    for (const std::uint16_t sap : saps) {
      if (sap == *saps.begin()) {
        made->bind(sap);
      } else {
        made->bind_also(sap);
      }
    }
    return made;
  }
  std::unique_ptr<Stream> filtered(std::optional<wire::IpAddress> local, std::optional<std::uint8_t> protocol,
                                   std::optional<std::uint16_t> port) {
    auto made = stream({wire::ethertype_ipv4, arp, wire::ethertype_ipv6});
    made->filter({wire::ethertype_ipv4, local, protocol, port});
    return made;
  }
  void bring(const Datagram& datagram) {
    link_->bring(frame(TestLink::mac, wire::ethertype_ipv4, ipv4_packet(datagram)));
  }
  /// How many frames each stream got, as digits.
  static std::string got(std::initializer_list<Stream*> streams) {
    std::string counts;
    for (Stream* stream : streams) {
      counts += std::to_string(stream->waiting());
      stream->forget();
    }
    return counts;
  }

  StreamSet set_;
  std::shared_ptr<TestLink> link_ = std::make_shared<TestLink>(set_);
};

TEST_F(Demultiplexing, BySap) {
  const auto a = stream({wire::ethertype_ipv4});
  const auto b = stream({arp});
  const auto c = stream({arp, wire::ethertype_ipv4});
  link_->bring(frame(TestLink::mac, arp, bytes_of("arp")));
  EXPECT_EQ(got({a.get(), b.get(), c.get()}), "011");
  link_->bring(frame(TestLink::mac, 0x9999, bytes_of("?")));
  EXPECT_EQ(got({a.get(), b.get(), c.get()}), "000");
  EXPECT_EQ(a->counted("unclaimed"), 1U);
}

// DL_SUBS_UNBIND_REQ takes the SAP and what was asked for on it: its filters claim nothing any more, and when the SAP
// is bound again its frames come without them.
TEST_F(Demultiplexing, FiltersGoWithTheirSap) {
  const auto one = stream({arp, wire::ethertype_ipv4});
  const auto two = stream({wire::ethertype_ipv4});
  const FilterReq wanted{wire::ethertype_ipv4, here_ip, wire::protocol_udp, 7000};
  one->filter(wanted);
  bring({.port = 7000});
  EXPECT_EQ(got({one.get(), two.get()}), "10");
  one->request(SubsUnbindReq{.sap = wire::ethertype_ipv4});
  EXPECT_EQ(one->acknowledged(), DL_SUBS_UNBIND_REQ);
  bring({.port = 7000});
  EXPECT_EQ(got({one.get(), two.get()}), "01");
  two->filter(wanted);  // nobody has it
  bring({.port = 7000});
  EXPECT_EQ(got({one.get(), two.get()}), "01");
  one->bind_also(wire::ethertype_ipv4);
  bring({.port = 7001});
  EXPECT_EQ(got({one.get(), two.get()}), "10") << "one has no filter now";
}

TEST_F(Demultiplexing, ByDestination) {
  const auto a = stream({arp});
  const auto b = stream({arp});
  b->request(EnabmultiReq{group_mac});
  b->forget();
  EXPECT_EQ(link_->interests.groups, std::vector{group_mac});
  link_->bring(frame(wire::mac_broadcast, arp, bytes_of("all")));
  EXPECT_EQ(got({a.get(), b.get()}), "11");
  // DL_ENABMULTI_REQ: "It is invalid for a DLS Provider to pass upstream messages that are destined for any address
  // other than those explicitly enabled on that Stream by the DLS User."
  link_->bring(frame(group_mac, arp, bytes_of("group")));
  EXPECT_EQ(got({a.get(), b.get()}), "01");
  link_->bring(frame(other_mac, arp, bytes_of("other station")));
  EXPECT_EQ(got({a.get(), b.get()}), "00");
  EXPECT_EQ(a->counted("not_ours"), 1U);
}

// A unicast has one owner; what is sent to a group goes to all that accept it and whose filter claims its port,
// whatever local address they are bound to. Who has no filter gets what none of them takes.
TEST_F(Demultiplexing, GroupsHaveManyMembers) {
  constexpr wire::Ipv4Address there{{10, 0, 0, 3}};
  const auto one = filtered(here_ip, wire::protocol_udp, 7000);
  const auto two = filtered(there, wire::protocol_udp, 7000);
  const auto wild = filtered({}, wire::protocol_udp, 7000);
  const auto stranger = filtered(wire::Ipv4Address{{10, 0, 0, 4}}, wire::protocol_udp, 7000);
  const auto elsewhere = filtered({}, wire::protocol_udp, 7001);
  const auto rest = stream({wire::ethertype_ipv4});
  two->filter({wire::ethertype_ipv4, wire::Ipv4Address{{10, 0, 0, 5}}, wire::protocol_udp,
               7000});  // takes what both claim once
  for (Stream* const member : {one.get(), two.get(), wild.get(), elsewhere.get(), rest.get()}) {
    member->request(EnabmultiReq{group_mac});
    member->forget();
  }
  const auto all = {one.get(), two.get(), wild.get(), stranger.get(), elsewhere.get(), rest.get()};
  const auto bring_to = [&](const wire::MacAddress& mac, const Datagram& datagram) {
    link_->bring(frame(mac, wire::ethertype_ipv4, ipv4_packet(datagram)));
    return got(all);
  };
  constexpr wire::Ipv4Address members{{224, 0, 0, 5}};
  EXPECT_EQ(bring_to(group_mac, {.destination = members, .port = 7000}), "111000");
  EXPECT_EQ(bring_to(group_mac, {.destination = members, .port = 7001}), "000010");
  EXPECT_EQ(bring_to(group_mac, {.destination = members, .port = 7002}), "000001");
  EXPECT_EQ(bring_to(wire::mac_broadcast, {.destination = {{255, 255, 255, 255}}, .port = 7000}), "111100");
  EXPECT_EQ(bring_to(TestLink::mac, {.destination = there, .port = 7000}), "010000");
  one->request(DisabmultiReq{group_mac});
  one->forget();
  EXPECT_EQ(bring_to(group_mac, {.destination = members, .port = 7000}), "011000");
  wild->filter({wire::ethertype_ipv4, {}, {}, {}});
  EXPECT_EQ(bring_to(group_mac, {.destination = members, .port = 7000}), "010000");
  two->filter({wire::ethertype_ipv4, {}, {}, {}});
  EXPECT_EQ(bring_to(group_mac, {.destination = members, .port = 7000}), "011001") << "nobody claims it";
}

TEST_F(Demultiplexing, PromiscuousStreams) {
  const auto plain = stream({arp});
  const auto phys = stream({});
  const auto sap = stream({});
  const auto multi = stream({});
  phys->request(PromisconReq{DL_PROMISC_PHYS});
  sap->request(PromisconReq{DL_PROMISC_SAP});
  multi->request(PromisconReq{DL_PROMISC_MULTI});
  for (Stream* each : {phys.get(), sap.get(), multi.get()}) {
    each->forget();
  }
  const auto counts = [&] { return got({plain.get(), phys.get(), sap.get(), multi.get()}); };
  link_->bring(frame(other_mac, arp, bytes_of("1")));
  EXPECT_EQ(counts(), "0100");
  link_->bring(frame(TestLink::mac, 0x9999, bytes_of("2")));
  EXPECT_EQ(counts(), "0110");
  link_->bring(frame(group_mac, 0x9999, bytes_of("3")));
  EXPECT_EQ(counts(), "0101");
  link_->bring(frame(wire::mac_broadcast, arp, bytes_of("4")));
  EXPECT_EQ(counts(), "1111");
  link_->bring(frame(TestLink::mac, 100, bytes_of("LLC")));
  EXPECT_EQ(counts(), "0110");
}

TEST_F(Demultiplexing, TheMostSpecificFilterWins) {
  const auto rest = stream({wire::ethertype_ipv4});
  const auto port = filtered({}, {}, 7000);
  const auto full = filtered(here_ip, wire::protocol_udp, 7000);
  const auto address = filtered(here_ip, {}, {});
  const auto counts = [&] { return got({rest.get(), port.get(), full.get(), address.get()}); };
  bring({});
  EXPECT_EQ(counts(), "0010");
  bring({.protocol = wire::protocol_tcp});
  EXPECT_EQ(counts(), "0100");
  bring({.port = 1});
  EXPECT_EQ(counts(), "0001");
  bring({.destination = peer_ip, .port = 1});
  EXPECT_EQ(counts(), "1000");
}

TEST_F(Demultiplexing, WhatNoFilterClaimsAndNobodyWantsIsCounted) {
  const auto full = filtered(here_ip, wire::protocol_udp, 7000);
  bring({.port = 1});
  EXPECT_EQ(full->waiting(), 0U);
  EXPECT_EQ(full->counted("unclaimed"), 1U);
}

TEST_F(Demultiplexing, WhatEveryStreamNeedsGoesToAll) {
  const auto rest = stream({wire::ethertype_ipv4, arp, wire::ethertype_ipv6});
  const auto one = filtered(here_ip, wire::protocol_udp, 1);
  const auto two = filtered(here_ip, wire::protocol_udp, 2);
  two->filter({wire::ethertype_ipv6, {}, wire::protocol_udp, 2});
  const auto counts = [&] { return got({rest.get(), one.get(), two.get()}); };
  bring({.protocol = wire::protocol_icmp4});
  EXPECT_EQ(counts(), "111");
  bring({.port = 1, .more_fragments = true});
  EXPECT_EQ(counts(), "111") << "first fragment";
  bring({.port = 1, .fragment_offset = 8});
  EXPECT_EQ(counts(), "111") << "later fragment";
  link_->bring(frame(wire::mac_broadcast, arp, bytes_of("arp")));
  EXPECT_EQ(counts(), "111");
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv6, ipv6_packet(wire::protocol_icmp6, 2)));
  EXPECT_EQ(counts(), "111");
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv6, ipv6_packet(wire::protocol_ipv6_fragment, 2)));
  EXPECT_EQ(counts(), "111");
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv6, ipv6_packet(wire::protocol_hop_by_hop, 2)));
  EXPECT_EQ(counts(), "111");
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv6, ipv6_packet(wire::protocol_udp, 2)));
  EXPECT_EQ(counts(), "001");
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv6, ipv6_packet(wire::protocol_udp, 3)));
  EXPECT_EQ(counts(), "110") << "stream one has no filter on IPv6";
}

TEST_F(Demultiplexing, IpOptionsMoveThePort) {
  const auto full = filtered(here_ip, wire::protocol_udp, 7000);
  std::vector<std::byte> packet = ipv4_packet({});
  packet.insert(packet.begin() + 20, 40, std::byte{1});
  packet[0] = std::byte{0x4f};
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv4, packet));
  EXPECT_EQ(full->waiting(), 1U);
}

TEST_F(Demultiplexing, AHeaderThatIsNotThereAsAWholeHasNoFilter) {
  const auto rest = stream({wire::ethertype_ipv4});
  const auto address = filtered(here_ip, {}, {});
  std::vector<std::byte> packet = ipv4_packet({.protocol = wire::protocol_icmp4});
  packet[0] = std::byte{0x4f};  // of 60 bytes, more than there are
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv4, packet));
  EXPECT_EQ(got({rest.get(), address.get()}), "10");
}

TEST_F(Demultiplexing, AFilterBelongsToOneStream) {
  const auto one = filtered(here_ip, wire::protocol_udp, 7000);
  const auto two = stream({wire::ethertype_ipv4});
  const FilterReq same{wire::ethertype_ipv4, here_ip, wire::protocol_udp, 7000};
  two->request(same, MessageType::ctl);
  EXPECT_EQ(two->error(), DL_BOUND);
  one->filter(same);  // its own, again
  one->filter({wire::ethertype_ipv4, {}, {}, {}});
  two->filter(same);
  bring({});
  EXPECT_EQ(got({one.get(), two.get()}), "01");
}

TEST_F(Demultiplexing, FilterErrors) {
  const auto one = stream({wire::ethertype_ipv4});
  one->request(FilterReq{wire::ethertype_ipv6, {}, wire::protocol_udp, {}}, MessageType::ctl);
  EXPECT_EQ(one->error(), DL_BADSAP);
  for (std::uint16_t port = 1; port <= Subscription::filters_max; ++port) {
    one->filter({wire::ethertype_ipv4, {}, {}, port});
  }
  one->request(FilterReq{wire::ethertype_ipv4, {}, {}, 9999}, MessageType::ctl);
  EXPECT_EQ(one->error(), DL_TOOMANY);
}

/// An address of the other version, of which the table sees the same bytes, is no second filter.
TEST_F(Demultiplexing, AFilterThatIsThereIsNotAddedAgain) {
  const auto one = stream({wire::ethertype_ipv4});
  const wire::Ipv6Address same_bytes{{10, 0, 0, 1}};
  one->filter({wire::ethertype_ipv4, here_ip, {}, 7000});
  one->filter({wire::ethertype_ipv4, same_bytes, {}, 7000});
  EXPECT_EQ(one->driver().subscription().filters.size(), 1U);
  one->filter({wire::ethertype_ipv4, {}, {}, {}});
  bring({.port = 7000});
  bring({.port = 7001});
  EXPECT_EQ(got({one.get()}), "2");
}

/// A stream that leaves while another gets its frames of the same burst.
TEST_F(Demultiplexing, AStreamLeavesBeforeItHasItsFrames) {
  auto second = filtered(here_ip, wire::protocol_udp, 7001);
  auto third = filtered(here_ip, wire::protocol_udp, 7002);
  const auto first = filtered(here_ip, wire::protocol_udp, 7000);
  first->head().on_burst = [&second] { second.reset(); };
  Batch burst;
  for (const std::uint16_t port : std::initializer_list<std::uint16_t>{7000, 7001, 7002, 7000}) {
    burst.push(Message::copy_of(set_.pool(), frame(TestLink::mac, wire::ethertype_ipv4, ipv4_packet({.port = port}))));
  }
  link_->bring(std::move(burst));
  EXPECT_EQ(got({first.get(), third.get()}), "21");
}

TEST_F(Demultiplexing, ManyFiltersEachFindTheirStream) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::uint16_t port = 0; port < 300; ++port) {
    streams.push_back(filtered(here_ip, wire::protocol_udp, static_cast<std::uint16_t>(7000 + port)));
  }
  for (std::uint16_t port = 0; port < 300; ++port) {
    bring({.port = static_cast<std::uint16_t>(7000 + port)});
    for (std::uint16_t at = 0; at < 300; ++at) {
      EXPECT_EQ(streams[at]->waiting(), at == port ? 1U : 0U);
    }
    streams[port]->forget();
  }
}

TEST_F(Demultiplexing, AConnectionComesBeforeWhoListensOnItsPort) {
  const auto rest = stream({wire::ethertype_ipv4});
  const FilterReq first{wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000, peer_ip, 9};
  const auto one = stream({wire::ethertype_ipv4});
  one->filter(first);
  const auto listener = filtered(here_ip, wire::protocol_tcp, 7000);
  auto two = stream({wire::ethertype_ipv4});
  two->filter({wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000, peer_ip, 10});
  const auto to = [&](Datagram datagram) {
    datagram.protocol = datagram.protocol == wire::protocol_udp ? wire::protocol_tcp : wire::protocol_udp;
    bring(datagram);
    bring(datagram);
    return got({rest.get(), listener.get(), one.get()}) + (two ? got({two.get()}) : "");
  };
  constexpr wire::Ipv4Address stranger{{10, 0, 0, 3}};
  EXPECT_EQ(to({.source_port = 9}), "0020");
  EXPECT_EQ(to({.source_port = 10}), "0002");
  EXPECT_EQ(to({.source_port = 11}), "0200");
  EXPECT_EQ(to({.source = stranger, .source_port = 9}), "0200");
  EXPECT_EQ(to({.source_port = 9}), "0020");
  EXPECT_EQ(to({.port = 7001, .source_port = 9}), "2000");
  EXPECT_EQ(to({.protocol = wire::protocol_tcp, .source_port = 9}), "2000") << "UDP";
  EXPECT_EQ(to({.destination = stranger, .source_port = 9}), "2000");
  one->filter({wire::ethertype_ipv4, {}, {}, {}});
  EXPECT_EQ(to({.source_port = 9}), "0200") << "the connection is no more";
  EXPECT_EQ(to({.source_port = 10}), "0002");
  two.reset();
  EXPECT_EQ(to({.source_port = 10}), "020");
  one->filter(first);
  EXPECT_EQ(to({.source_port = 9}), "002");
}

TEST_F(Demultiplexing, AConnectionComesBeforeWhoListensOnItsPortOverIpv6) {
  const wire::Ipv6Address peer = wire::Ipv6Address::from_text("fd00::2").value();
  const wire::Ipv6Address stranger = wire::Ipv6Address::from_text("fd00::1:0:0:2").value();
  const FilterReq listens{wire::ethertype_ipv6, wire::Ipv6Address{}, wire::protocol_tcp, 7000};
  const auto listener = stream({wire::ethertype_ipv6});
  listener->filter(listens);
  const auto one = stream({wire::ethertype_ipv6});
  const auto two = stream({wire::ethertype_ipv6});
  for (const auto& [connection, port] : {std::pair{one.get(), std::uint16_t{9}}, {two.get(), std::uint16_t{10}}}) {
    FilterReq filter = listens;
    filter.remote = peer;
    filter.remote_port = port;
    connection->filter(filter);
  }
  const auto to = [&](const wire::Ipv6Address& source, std::uint16_t source_port) {
    link_->bring(
        frame(TestLink::mac, wire::ethertype_ipv6, ipv6_packet(wire::protocol_tcp, 7000, source, source_port)));
    return got({listener.get(), one.get(), two.get()});
  };
  EXPECT_EQ(to(peer, 9), "010");
  EXPECT_EQ(to(peer, 10), "001");
  EXPECT_EQ(to(peer, 11), "100");
  EXPECT_EQ(to(stranger, 9), "100");
  EXPECT_EQ(to(peer, 9), "010");
}

TEST_F(Demultiplexing, AConnectionBelongsToOneStream) {
  const FilterReq connection{wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000, peer_ip, 9};
  const auto one = stream({wire::ethertype_ipv4});
  const auto two = stream({wire::ethertype_ipv4});
  one->filter(connection);
  two->request(connection, MessageType::ctl);
  EXPECT_EQ(two->error(), DL_BOUND);
  two->filter({wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000});
  two->filter({wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000, peer_ip, 10});
  one->request(FilterReq{wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000}, MessageType::ctl);
  EXPECT_EQ(one->error(), DL_BOUND);
}

// A group has no connections: what is sent to one goes to those whose filters name no remote end.
TEST_F(Demultiplexing, AConnectionClaimsNothingOfAGroup) {
  const auto listener = filtered(here_ip, wire::protocol_udp, 7000);
  const auto connection = stream({wire::ethertype_ipv4});
  const auto rest = stream({wire::ethertype_ipv4});
  connection->filter({wire::ethertype_ipv4, here_ip, wire::protocol_udp, 7000, peer_ip, 9});
  connection->filter({wire::ethertype_ipv4, here_ip, wire::protocol_udp, 7001, peer_ip, 9});
  const auto to_all = [&](std::uint16_t port) {
    link_->bring(frame(wire::mac_broadcast, wire::ethertype_ipv4,
                       ipv4_packet({.destination = {{255, 255, 255, 255}}, .port = port})));
    return got({listener.get(), connection.get(), rest.get()});
  };
  EXPECT_EQ(to_all(7000), "100");
  EXPECT_EQ(to_all(7001), "001");
}

TEST_F(Demultiplexing, HalfAConnectionIsRefused) {
  const auto one = stream({wire::ethertype_ipv4});
  const FilterReq whole{wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000, peer_ip, 9};
  const auto refused = [&](auto member) {
    FilterReq filter = whole;
    (filter.*member).reset();
    one->request(filter, MessageType::ctl);
    return one->error();
  };
  one->filter(whole);
  EXPECT_EQ(refused(&FilterReq::local), DL_BADADDR);
  EXPECT_EQ(refused(&FilterReq::protocol), DL_BADADDR);
  EXPECT_EQ(refused(&FilterReq::local_port), DL_BADADDR);
  EXPECT_EQ(refused(&FilterReq::remote), DL_BADADDR);
  EXPECT_EQ(refused(&FilterReq::remote_port), DL_BADADDR);
  one->request(FilterReq{wire::ethertype_ipv4, {}, {}, {}, peer_ip, 9}, MessageType::ctl);
  EXPECT_EQ(one->error(), DL_BADADDR);
  one->request(FilterReq{wire::ethertype_ipv4, here_ip, wire::protocol_tcp, 7000, wire::Ipv6Address{}, 9},
               MessageType::ctl);
  EXPECT_EQ(one->error(), DL_BADADDR) << "another family";
  bring({.source_port = 10});
  bring({.port = 1});
  EXPECT_EQ(got({one.get()}), "0") << "no filter was added or removed";
}

// Against the rule itself, with filters that come and go: the first of the most specific that accepts a datagram.
TEST_F(Demultiplexing, TheMostSpecificFilterWinsWhateverThereIs) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  const auto some_flow = [&prng] {
    const auto octet = [&prng] { return static_cast<std::uint8_t>(1 + prng.below(2)); };
    return FilterReq{wire::ethertype_ipv4,
                     wire::Ipv4Address{{10, 0, 0, octet()}},
                     prng.chance(0.5) ? wire::protocol_tcp : wire::protocol_udp,
                     octet(),
                     wire::Ipv4Address{{10, 0, 1, octet()}},
                     octet()};
  };
  const std::array filters_by_specificity{15U, 7U, 6U, 5U, 3U, 4U, 2U, 1U};
  const auto rest = stream({wire::ethertype_ipv4});
  std::vector<std::unique_ptr<Stream>> streams;
  for (int count = 0; count < 12; ++count) {
    streams.push_back(stream({wire::ethertype_ipv4}));
  }
  std::vector<std::optional<FilterReq>> filters(streams.size());
  for (int round = 0; round < 2'000; ++round) {
    const std::size_t at = prng.below(streams.size());
    FilterReq filter = some_flow();
    const unsigned shape = filters_by_specificity[prng.below(filters_by_specificity.size())];
    if ((shape & 8U) == 0) {
      filter.remote.reset();
      filter.remote_port.reset();
    }
    filter.local_port = (shape & 4U) != 0 ? filter.local_port : std::nullopt;
    filter.local = (shape & 2U) != 0 ? filter.local : std::nullopt;
    filter.protocol = (shape & 1U) != 0 ? filter.protocol : std::nullopt;
    streams[at]->filter({wire::ethertype_ipv4, {}, {}, {}});
    filters[at].reset();
    if (std::ranges::find(filters, std::optional(filter)) == filters.end()) {
      streams[at]->filter(filter);
      filters[at] = filter;
    }
    for (int datagrams = 0; datagrams < 6; ++datagrams) {
      const FilterReq flow = some_flow();
      std::optional<std::size_t> winner;
      std::ptrdiff_t rank = 0;
      for (std::size_t of = 0; of < filters.size(); ++of) {
        if (filters[of] && accepts(*filters[of], flow)) {
          const auto place = std::ranges::find(filters_by_specificity, FilterKey::of(*filters[of]).shape());
          const std::ptrdiff_t found = place - filters_by_specificity.begin();
          rank = winner && rank < found ? rank : found;
          winner = rank == found ? of : winner;
        }
      }
      for (int twice = 0; twice < 2; ++twice) {
        bring({.destination = flow.local->v4(),
               .port = *flow.local_port,
               .protocol = *flow.protocol,
               .source = flow.remote->v4(),
               .source_port = *flow.remote_port});
        for (std::size_t of = 0; of < streams.size(); ++of) {
          const bool gets = winner ? of == *winner : !filters[of];
          ASSERT_EQ(streams[of]->waiting(), gets ? 1U : 0U) << "round " << round << ", stream " << of;
          streams[of]->forget();
        }
        ASSERT_EQ(rest->waiting(), winner ? 0U : 1U);
        rest->forget();
      }
    }
  }
}

TEST_F(Demultiplexing, FramesThatAreNoEthernet) {
  const auto one = stream({wire::ethertype_ipv4});
  link_->bring(ConstBytes(bytes_of("thirteen byte")).first(13));
  EXPECT_EQ(one->counted("short_frame"), 1U);
  link_->bring(frame(TestLink::mac, 0x8100, bytes_of("tagged")));
  EXPECT_EQ(one->counted("vlan_frame"), 1U);
  link_->bring(frame(TestLink::mac, wire::ethertype_ipv4, std::vector<std::byte>(1501)));
  EXPECT_EQ(one->counted("oversize_frame"), 1U);
  EXPECT_EQ(one->waiting(), 0U);
}

// The head of a frame may lie in several blocks: the wire carries messages as the sender made them.
TEST_F(Demultiplexing, HeadersInSeveralBlocks) {
  const auto full = filtered(here_ip, wire::protocol_udp, 7000);
  const auto whole = frame(TestLink::mac, wire::ethertype_ipv4, ipv4_packet({}));
  for (const std::size_t cut : {1U, 13U, 14U, 20U, 34U, 40U, 57U}) {
    Message message = Message::copy_of(set_.pool(), ConstBytes(whole).first(cut));
    message.link(Message::copy_of(set_.pool(), ConstBytes(whole).subspan(cut)));
    link_->bring(Batch(std::move(message)));
    const Message up = full->next();
    ASSERT_TRUE(up) << cut;
    EXPECT_EQ(up.data_size(), whole.size() - 14) << cut;
  }
}

TEST_F(Demultiplexing, HostileFramesNeverCrash) {
  constexpr std::uint64_t seed = 20260;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  const auto full = filtered(here_ip, wire::protocol_udp, 7000);
  const auto rest = stream({wire::ethertype_ipv4, arp, wire::ethertype_ipv6});
  const std::array types{wire::ethertype_ipv4, wire::ethertype_ipv6, arp, std::uint16_t{0x8100}, std::uint16_t{0}};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(prng.below(90));
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(prng());
    }
    if (bytes.size() > 14 && prng.chance(0.9)) {
      wire::EthernetHeader{TestLink::mac, other_mac, types[prng.below(types.size())]}.emit(bytes);
      bytes[14] = static_cast<std::byte>((prng.chance(0.5) ? 0x40U : 0x60U) | prng.below(16));
    }
    link_->bring(bytes);
    full->forget();
    rest->forget();
  }
  EXPECT_EQ(set_.pool().statistics().buffers_in_use, 0U);
}

}  // namespace
}  // namespace sluice::dlpi::test
