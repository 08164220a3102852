// SPDX-License-Identifier: Apache-2.0
#include "dlpi/demultiplexer.h"

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
};

std::vector<std::byte> ipv4_packet(const Datagram& datagram) {
  std::vector<std::byte> packet(20 + 8 + 16);
  wire::Ipv4Header header;
  header.payload_length = 24;
  header.protocol = datagram.protocol;
  header.more_fragments = datagram.more_fragments;
  header.fragment_offset = datagram.fragment_offset;
  header.source = peer_ip;
  header.destination = datagram.destination;
  header.emit(packet);
  wire::UdpHeader{.source_port = 9, .destination_port = datagram.port, .payload_length = 16}.emit(
      Bytes(packet).subspan(20));
  return packet;
}

std::vector<std::byte> ipv6_packet(std::uint8_t next_header, std::uint16_t port) {
  std::vector<std::byte> packet(40 + 8 + 16);
  wire::Ipv6Header header;
  header.payload_length = 24;
  header.next_header = next_header;
  header.emit(packet);
  wire::UdpHeader{.source_port = 9, .destination_port = port, .payload_length = 16}.emit(Bytes(packet).subspan(40));
  return packet;
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
