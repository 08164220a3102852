// SPDX-License-Identifier: Apache-2.0
// What udp remembers of the last datagram's flow: whatever comes in between, every header and checksum is right.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "stack/wire/data_unit.h"
#include "tests/stack/modules/udp_stack.h"

namespace sluice::test {
namespace {

using wire::DataUnit;

const IpAddress other_local = Ipv4Address{{10, 0, 0, 77}};
const IpAddress other_peer = Ipv4Address{{10, 0, 9, 9}};

class UdpFlow : public testing::Test {
 protected:
  /// Sends a datagram and expects it below: from `source` and `source_port`, with the right checksum.
  void expect_sent(const IpAddress& to, const IpAddress& source, std::uint16_t source_port = port,
                   const std::optional<IpAddress>& wanted = std::nullopt, std::string_view text = "text") {
    Message request = Message::of_native(
        stack.pool(), DataUnit{.options = wanted ? DataUnit::Options::sending : DataUnit::Options::none,
                               .has_local = wanted.has_value(),
                               .peer = to,
                               .local = wanted.value_or(IpAddress()),
                               .peer_port = peer_port});
    request.link(Message::copy_of(stack.pool(), as_bytes(text), 64));
    stack.down(std::move(request));
    ASSERT_EQ(stack.driver().count(), 1U);
    const Message message = stack.driver().take();
    EXPECT_EQ(data_text(message), datagram(source, source_port, to, peer_port, text));
    const auto unitdata = UnitdataReq::decode(message.bytes());
    ASSERT_TRUE(unitdata);
    EXPECT_EQ(NetworkAddress::decode(unitdata->address), (NetworkAddress{to, wire::protocol_udp}));
    EXPECT_EQ(Sending::decode(unitdata->options)->source, source);
  }
  void warm(const IpAddress& to, const IpAddress& source) {
    expect_sent(to, source);
    expect_sent(to, source);
  }
  void unbind() {
    stack.down(proto(stack, UnbindReq{}));
    while (stack.head().count() > 0) {
      stack.head().take().reset();
    }
    while (stack.driver().count() > 0) {
      stack.driver().take().reset();
    }
  }
  void route_ack(const RouteAck& ack) { stack.up(proto(stack, ack, MessageType::ctl)); }
  /// What a datagram with these bytes brings to the user: its text, or nothing.
  std::string received(const IpAddress& from, const IpAddress& to, std::string_view bytes) {
    Message message = Message::of_native(stack.pool(), DataUnit{.kind = DataUnit::Kind::network_indication,
                                                                .options = DataUnit::Options::received,
                                                                .protocol = wire::protocol_udp,
                                                                .peer = from,
                                                                .local = to,
                                                                .header_size = 20});
    message.link(Message::copy_of(stack.pool(), as_bytes(bytes)));
    stack.up(std::move(message));
    if (stack.head().count() == 0) {
      return "nothing";
    }
    const Message up = stack.head().take();
    const auto unitdata = UnitdataInd::decode(up.bytes());
    EXPECT_TRUE(unitdata);
    EXPECT_EQ(TransportAddress::decode(unitdata->address), (TransportAddress{from, peer_port}));
    EXPECT_EQ(Received::decode(unitdata->options)->local, to);
    return data_text(up);
  }

  UdpStack stack;
};

TEST_F(UdpFlow, AnotherPortAfterRebinding) {
  stack.bind();
  warm(peer_v4, local_v4);
  unbind();
  stack.bind({{}, 7001});
  expect_sent(peer_v4, local_v4, 7001);
}

TEST_F(UdpFlow, AnotherAddressAfterRebinding) {
  stack.bind({local_v4, port});
  warm(peer_v4, local_v4);
  unbind();
  stack.bind({other_local, port});
  expect_sent(peer_v4, other_local);
  unbind();
  stack.bind();
  expect_sent(peer_v4, local_v4);
}

TEST_F(UdpFlow, NothingIsSentUnbound) {
  stack.bind();
  warm(peer_v4, local_v4);
  unbind();
  stack.down(Message::of_native(stack.pool(), DataUnit{.peer = peer_v4, .peer_port = peer_port}));
  EXPECT_EQ(stack.counted("sent"), 2U);
  EXPECT_EQ(stack.counted("protocol_errors"), 1U);
}

TEST_F(UdpFlow, ARouteThatChanges) {
  stack.bind();
  warm(peer_v4, local_v4);
  route_ack({peer_v4, other_local, 1500, 0});
  warm(peer_v4, other_local);
  stack.ip().source_v4 = local_v4;
  route_ack({});  // every earlier answer is void
  expect_sent(peer_v4, local_v4);
}

TEST_F(UdpFlow, ARouteThatIsLost) {
  stack.bind();
  warm(peer_v4, local_v4);
  stack.ip().route_error = EHOSTUNREACH;
  route_ack({});
  stack.down(Message::of_native(stack.pool(), DataUnit{.peer = peer_v4, .peer_port = peer_port}));
  EXPECT_EQ(stack.uderror(), EHOSTUNREACH);
  stack.ip().route_error = 0;
  expect_sent(peer_v4, local_v4);
}

TEST_F(UdpFlow, DestinationsInTurn) {
  stack.bind();
  for (int round = 0; round < 3; ++round) {
    expect_sent(peer_v4, local_v4);
    expect_sent(peer_v6, local_v6);
    expect_sent(other_peer, local_v4);
  }
}

TEST_F(UdpFlow, TheUsersChoiceOfASource) {
  stack.bind();
  warm(peer_v4, local_v4);
  expect_sent(peer_v4, other_local, port, other_local);
  expect_sent(peer_v4, local_v4);
  expect_sent(peer_v4, local_v4, port, local_v4);
  expect_sent(peer_v4, other_local, port, other_local);
}

TEST_F(UdpFlow, AnotherFamilyThanTheBoundOneIsRefusedAndTheFlowGoesOn) {
  stack.bind({local_v4, port});
  warm(peer_v4, local_v4);
  stack.down(Message::of_native(stack.pool(), DataUnit{.peer = peer_v6, .peer_port = peer_port}));
  EXPECT_EQ(stack.uderror(), EAFNOSUPPORT);
  expect_sent(peer_v4, local_v4);
}

TEST_F(UdpFlow, AnyOrderOfDatagrams) {
  stack.bind();
  const std::array hosts{peer_v4, other_peer, peer_v6};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Prng prng(seed);
    for (int step = 0; step < 200; ++step) {
      const IpAddress& to = hosts[prng.below(hosts.size())];
      const bool chooses = to.is_v4() && prng.below(3) == 0;
      const IpAddress& source = chooses ? other_local : to.is_v4() ? local_v4 : local_v6;
      const std::string text(prng.below(40), 'x');
      expect_sent(to, source, port, chooses ? std::optional(other_local) : std::nullopt, text);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
  }
}

// The sum of the pseudo header is that of the datagram's addresses, whichever came before.
TEST_F(UdpFlow, ChecksumsOnTheWayUp) {
  stack.bind();
  const std::pair<IpAddress, IpAddress> flows[] = {
      {peer_v4, local_v4}, {peer_v4, local_v4}, {other_peer, local_v4}, {peer_v4, other_local}, {peer_v6, local_v6}};
  for (int round = 0; round < 2; ++round) {
    for (const auto& [from, to] : flows) {
      EXPECT_EQ(received(from, to, datagram(from, peer_port, to, port, "text")), "text");
    }
  }
  EXPECT_EQ(received(peer_v4, local_v4, datagram(other_peer, peer_port, local_v4, port, "text")), "nothing");
  EXPECT_EQ(received(other_peer, local_v4, datagram(peer_v4, peer_port, local_v4, port, "text")), "nothing");
  EXPECT_EQ(stack.counted("bad_checksum"), 2U);
  unbind();
  stack.bind({{}, 7001});
  EXPECT_EQ(received(peer_v4, local_v4, datagram(peer_v4, peer_port, local_v4, 7001, "text")), "text");
  EXPECT_EQ(received(peer_v4, local_v4, datagram(peer_v4, peer_port, local_v4, port, "text")), "nothing");
}

}  // namespace
}  // namespace sluice::test
