// SPDX-License-Identifier: Apache-2.0
// Frames that look like the one before go the same way without a table being asked. Every case brings a flow that is
// known, then something else, and what no template knows decides who must get it.
#include <functional>

#include "dlpi/demultiplexer.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/protocol.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::uint16_t flow_port = 7000;
constexpr std::size_t udp_offset_v4 = 14 + 20;
constexpr std::size_t udp_offset_v6 = 14 + 40;

using Octets = std::vector<std::byte>;

/// A frame of the flow.
Octets flow_v4() {
  Octets packet(20 + 8 + 40);
  wire::Ipv4Header{
      .payload_length = 48, .protocol = wire::protocol_udp, .source = {{10, 0, 0, 2}}, .destination = here_ip}
      .emit(packet);
  wire::UdpHeader{.source_port = 9, .destination_port = flow_port, .payload_length = 40}.emit(
      Bytes(packet).subspan(20));
  return frame(TestLink::mac, wire::ethertype_ipv4, packet);
}
Octets flow_v6() {
  Octets packet(40 + 8 + 40);
  wire::Ipv6Header{.payload_length = 48, .next_header = wire::protocol_udp, .source = {}, .destination = {}}.emit(
      packet);
  wire::UdpHeader{.source_port = 9, .destination_port = flow_port, .payload_length = 40}.emit(
      Bytes(packet).subspan(40));
  return frame(TestLink::mac, wire::ethertype_ipv6, packet);
}

Octets with(Octets octets, std::size_t at, unsigned value) {
  octets[at] = static_cast<std::byte>(value);
  return octets;
}

class FrameTemplates : public testing::Test {
 protected:
  FrameTemplates() {
    EXPECT_TRUE(rest->open(driver_on(link)));
    EXPECT_TRUE(full->open(driver_on(link)));
    for (Stream* stream : {rest.get(), full.get()}) {
      stream->bind(wire::ethertype_ipv4);
      stream->bind_also(wire::ethertype_ipv6);
    }
    full->filter({wire::ethertype_ipv4, {}, wire::protocol_udp, flow_port});
    full->filter({wire::ethertype_ipv6, {}, wire::protocol_udp, flow_port});
  }

  void bring(const Octets& octets) { link->bring(octets); }
  /// How many frames each has got since it was asked last: rest, full, and the one that was added, as digits.
  std::string got() {
    std::string counts;
    for (Stream* stream : {rest.get(), full.get(), added.get()}) {
      if (stream != nullptr) {
        counts += std::to_string(stream->waiting());
        stream->forget();
      }
    }
    return counts;
  }
  void warm(const Octets& octets) {
    bring(octets);
    bring(octets);
    ASSERT_EQ(got().substr(0, 2), "02");
  }
  void add() {
    added = std::make_unique<Stream>(set);
    ASSERT_TRUE(added->open(driver_on(link)));
  }

  StreamSet set;
  std::shared_ptr<TestLink> link = std::make_shared<TestLink>(set);
  std::unique_ptr<Stream> rest = std::make_unique<Stream>(set);
  std::unique_ptr<Stream> full = std::make_unique<Stream>(set);
  std::unique_ptr<Stream> added;
};

TEST_F(FrameTemplates, AFlowGoesToItsStream) {
  for (const Octets& flow : {flow_v4(), flow_v6()}) {
    for (int i = 0; i < 3; ++i) {
      bring(flow);
      const Message up = full->next();
      ASSERT_TRUE(up);
      const auto indication = UnitdataInd::decode(up.bytes());
      ASSERT_TRUE(indication);
      const auto sap = load_big_endian<std::uint16_t>(flow.data() + 12);
      EXPECT_EQ(*indication, (UnitdataInd{{TestLink::mac, sap}, {{{0x02, 0, 0, 0, 0, 0x99}}, sap}, false}));
      EXPECT_EQ(up.data_size(), flow.size() - 14);
    }
    EXPECT_EQ(got(), "00");
  }
  EXPECT_EQ(link->statistics().frames_received, 6U);
}

struct Row {
  std::string_view name;
  Octets octets;
  std::string_view expected;   // rest, full
  std::string_view counted{};  // by the first stream
};

void expect_rows(const std::vector<Row>& rows, const Octets& flow, TestLink& link, Stream& rest,
                 const std::function<std::string()>& got) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    link.bring(flow);
    link.bring(flow);
    ASSERT_EQ(got(), "02");
    const std::uint64_t before = row.counted.empty() ? 0 : rest.counted(row.counted);
    link.bring(row.octets);
    EXPECT_EQ(got(), row.expected);
    EXPECT_EQ(row.counted.empty() ? 1 : rest.counted(row.counted), before + 1);
    link.bring(flow);
    EXPECT_EQ(got(), "01") << "and the flow goes on";
  }
}

TEST_F(FrameTemplates, WhatDiffersWhereItDecidesIsLookedAt) {
  const Octets flow = flow_v4();
  Octets options = flow;
  options.insert(options.begin() + udp_offset_v4, 4, std::byte{1});
  options[14] = std::byte{0x46};
  Octets options_and_port = with(options, udp_offset_v4 + 4 + 3, (flow_port & 0xff) + 1);
  Octets large = flow;
  large.resize(14 + 1501);
  Octets largest = flow;
  largest.resize(14 + 1500);
  Octets shortest = flow;
  shortest.resize(udp_offset_v4 + 4);
  Octets no_port = flow;
  no_port.resize(udp_offset_v4 + 3);
  expect_rows(
      {
          {"another source", with(flow, 14 + 15, 3), "01"},
          {"another source port", with(flow, udp_offset_v4, 3), "01"},
          {"another identification", with(flow, 14 + 5, 3), "01"},
          {"not to be fragmented", with(flow, 14 + 6, 0x40), "01"},
          {"another sender on the link", with(flow, 11, 3), "01"},
          {"another destination", with(flow, 14 + 19, 3), "01"},  // the filter is for any address
          {"another port", with(flow, udp_offset_v4 + 3, 0), "10"},
          {"another protocol", with(flow, 14 + 9, 6), "10"},
          {"ICMP", with(flow, 14 + 9, 1), "11"},
          {"first fragment", with(flow, 14 + 6, 0x20), "11"},
          {"later fragment", with(flow, 14 + 7, 1), "11"},
          {"later fragment, far", with(flow, 14 + 6, 0x1f), "11"},
          {"with options", options, "01"},
          {"with options, another port", options_and_port, "10"},
          {"another version", with(flow, 14, 0x65), "10"},
          {"another station", with(flow, 5, 0x77), "00", "not_ours"},
          {"a group that nobody joined", with(flow, 0, 0x03), "00", "not_ours"},
          {"VLAN", with(with(flow, 12, 0x81), 13, 0), "00", "vlan_frame"},
          {"another type", with(flow, 13, 1), "00", "unclaimed"},
          {"as large as there may be", largest, "01"},
          {"larger", large, "00", "oversize_frame"},
          {"as short as a flow's", shortest, "01"},
          {"too short for a port", no_port, "10"},
          {"too short for a header", {flow.begin(), flow.begin() + 13}, "00", "short_frame"},
      },
      flow, *link, *rest, [this] { return got(); });
}

TEST_F(FrameTemplates, WhatDiffersWhereItDecidesIsLookedAtOverIpv6) {
  const Octets flow = flow_v6();
  Octets large = flow;
  large.resize(14 + 1501);
  Octets shortest = flow;
  shortest.resize(udp_offset_v6 + 4);
  Octets no_port = flow;
  no_port.resize(udp_offset_v6 + 3);
  expect_rows(
      {
          {"another source", with(flow, 14 + 23, 3), "01"},
          {"another class", with(flow, 14, 0x6f), "01"},
          {"another hop limit", with(flow, 14 + 7, 3), "01"},
          {"another destination", with(flow, 14 + 39, 3), "01"},
          {"another port", with(flow, udp_offset_v6 + 3, 0), "10"},
          {"another protocol", with(flow, 14 + 6, 6), "10"},
          {"ICMP", with(flow, 14 + 6, 58), "11"},
          {"fragment", with(flow, 14 + 6, 44), "11"},
          {"hop by hop", with(flow, 14 + 6, 0), "11"},
          {"another version", with(flow, 14, 0x45), "10"},
          {"another station", with(flow, 5, 0x77), "00", "not_ours"},
          {"larger", large, "00", "oversize_frame"},
          {"as short as a flow's", shortest, "01"},
          {"too short for a port", no_port, "10"},
      },
      flow, *link, *rest, [this] { return got(); });
}

// The template holds what decides within the first 64 bytes of frames that have as many; shorter ones and those in
// many blocks are looked at one by one.
TEST_F(FrameTemplates, FramesInBlocksGoTheSameWay) {
  for (const Octets& flow : {flow_v4(), flow_v6()}) {
    for (const std::size_t cut : {1U, 13U, 14U, 20U, 37U, 58U, 63U, 64U}) {
      warm(flow);
      Message message = Message::copy_of(set.pool(), ConstBytes(flow).first(cut));
      message.link(Message::copy_of(set.pool(), ConstBytes(flow).subspan(cut)));
      link->bring(Batch(std::move(message)));
      EXPECT_EQ(got(), "01") << cut;
    }
  }
}

TEST_F(FrameTemplates, AFilterOfAnotherStreamIsHeeded) {
  add();
  added->bind(wire::ethertype_ipv4);
  warm(flow_v4());
  added->filter({wire::ethertype_ipv4, here_ip, wire::protocol_udp, flow_port});  // more specific
  bring(flow_v4());
  EXPECT_EQ(got(), "001");
  added.reset();
  bring(flow_v4());
  EXPECT_EQ(got(), "01");
}

TEST_F(FrameTemplates, AFilterForAFlowThatNobodyHadClaimedIsHeeded) {
  const Octets unclaimed = with(flow_v4(), udp_offset_v4 + 3, (flow_port + 1) & 0xff);
  bring(unclaimed);
  bring(unclaimed);
  EXPECT_EQ(got(), "20");
  full->filter({wire::ethertype_ipv4, {}, wire::protocol_udp, flow_port + 1});
  bring(unclaimed);
  EXPECT_EQ(got(), "01");
}

// Two flows to one port that differ only in where they come from are two as soon as a connection asks for one of them.
TEST_F(FrameTemplates, TheRemoteEndDecidesWhereAConnectionAsks) {
  const auto tries = [this](std::uint16_t sap, const wire::IpAddress& local, const wire::IpAddress& remote,
                            const Octets& flow, std::size_t source, std::size_t source_port) {
    SCOPED_TRACE(sap);
    add();
    added->bind(sap);
    warm(flow);
    added->filter({sap, local, wire::protocol_udp, flow_port, remote, 9});
    for (const Octets& other : {with(flow, source, 3), with(flow, source_port, 3), with(flow, source_port + 1, 3)}) {
      bring(flow);
      bring(flow);
      EXPECT_EQ(got(), "002");
      bring(other);
      bring(other);
      EXPECT_EQ(got(), "020");
      bring(flow);
      EXPECT_EQ(got(), "001");
    }
    added.reset();
    bring(flow);
    bring(with(flow, source, 3));
    EXPECT_EQ(got(), "02");
  };
  const wire::IpAddress nowhere = wire::Ipv6Address{};
  const wire::IpAddress peer = wire::Ipv4Address{{10, 0, 0, 2}};
  for (const std::size_t octet : {0U, 1U, 2U, 3U}) {
    tries(wire::ethertype_ipv4, here_ip, peer, flow_v4(), 14 + 12 + octet, udp_offset_v4);
  }
  for (std::size_t octet = 0; octet < 16; ++octet) {
    tries(wire::ethertype_ipv6, nowhere, nowhere, flow_v6(), 14 + 8 + octet, udp_offset_v6);
  }
}

TEST_F(FrameTemplates, AStreamThatUnbindsOrGoesGetsNothing) {
  warm(flow_v4());
  full->request(UnbindReq{});
  EXPECT_EQ(full->acknowledged(), DL_UNBIND_REQ);
  bring(flow_v4());
  EXPECT_EQ(got(), "10");

  full->bind(wire::ethertype_ipv4);
  full->filter({wire::ethertype_ipv4, {}, wire::protocol_udp, flow_port});
  warm(flow_v4());
  full.reset();
  bring(flow_v4());
  EXPECT_EQ(got(), "1");
}

TEST_F(FrameTemplates, AStreamThatLooksAtEverythingDoes) {
  add();
  warm(flow_v4());
  for (const std::uint32_t level : {DL_PROMISC_PHYS, DL_PROMISC_SAP}) {
    added->request(PromisconReq{level});
    EXPECT_EQ(added->acknowledged(), DL_PROMISCON_REQ);
    bring(flow_v4());
    bring(flow_v4());
    EXPECT_EQ(got(), "022");
    added->request(PromiscoffReq{level});
    EXPECT_EQ(added->acknowledged(), DL_PROMISCOFF_REQ);
    bring(flow_v4());
    EXPECT_EQ(got(), "010");
  }
}

TEST_F(FrameTemplates, ANewStationAddressIsHeeded) {
  warm(flow_v4());
  link->change_address(other_mac);
  bring(flow_v4());
  EXPECT_EQ(got(), "00");
  EXPECT_EQ(rest->counted("not_ours"), 1U);
  Octets to_the_new = flow_v4();
  std::ranges::copy(std::as_bytes(std::span(other_mac.octets)), to_the_new.begin());
  bring(to_the_new);
  EXPECT_EQ(got(), "01");
}

TEST_F(FrameTemplates, ANewMtuIsHeeded) {
  warm(flow_v4());
  Octets large = flow_v4();
  large.resize(14 + 1000);
  bring(large);
  EXPECT_EQ(got(), "01");
  link->set_mtu(999);
  bring(large);
  EXPECT_EQ(got(), "00");
  EXPECT_EQ(rest->counted("oversize_frame"), 1U);
}

TEST_F(FrameTemplates, AGroupIsLeftWhenItsStreamLeavesIt) {
  Octets to_group = flow_v4();
  std::ranges::copy(std::as_bytes(std::span(group_mac.octets)), to_group.begin());
  bring(to_group);
  EXPECT_EQ(got(), "00");
  full->request(EnabmultiReq{group_mac});
  full->forget();
  for (int i = 0; i < 2; ++i) {
    bring(to_group);
    const Message up = full->next();
    ASSERT_TRUE(up);
    EXPECT_TRUE(UnitdataInd::decode(up.bytes())->group_address);
  }
  full->request(DisabmultiReq{group_mac});
  full->forget();
  bring(to_group);
  EXPECT_EQ(got(), "00");
}

}  // namespace
}  // namespace sluice::dlpi::test
