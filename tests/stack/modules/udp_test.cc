// SPDX-License-Identifier: Apache-2.0
// The udp module's datagrams, down and up, and its errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "stack/wire/options.h"
#include "tests/stack/modules/udp_stack.h"

namespace sluice::test {
namespace {

// ---- Sending ----

// RFC 768: "Checksum is the 16-bit one's complement of the one's complement sum of a pseudo header of information from
// the IP header, the UDP header, and the data".
TEST(UdpSend, ADatagramIsHeaderAndDataForIpWithItsSource) {
  for (const auto& [local, peer] : {std::pair(local_v4, peer_v4), std::pair(local_v6, peer_v6)}) {
    UdpStack stack;
    stack.bind();
    stack.send({peer, peer_port}, "odd");
    const Message message = stack.driver().take();
    EXPECT_EQ(message.type(), MessageType::proto);
    EXPECT_EQ(data_text(message), datagram(local, port, peer, peer_port, "odd"));
    const auto request = UnitdataReq::decode(message.bytes());
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(NetworkAddress::decode(request->address), (NetworkAddress{peer, wire::protocol_udp}));
    EXPECT_EQ(Sending::decode(request->options)->source, local);
    EXPECT_EQ(stack.counted("sent"), 1U);
  }
}

TEST(UdpSend, DataOfManyBlocksIsSummedAcrossThem) {
  UdpStack stack;
  stack.bind();
  stack.down(
      with_data(proto(stack, UnitdataReq{.address = encoded(TransportAddress{peer_v4, peer_port}), .options = {}}),
                data_chain(stack, {"a", "bcd", "", "efghi"})));
  EXPECT_EQ(data_text(stack.driver().take()), datagram(local_v4, port, peer_v4, peer_port, "abcdefghi"));
}

TEST(UdpSend, ADatagramWithoutDataIsAHeader) {
  UdpStack stack;
  stack.bind();
  stack.down(proto(stack, UnitdataReq{.address = encoded(TransportAddress{peer_v4, peer_port}), .options = {}}));
  EXPECT_EQ(data_text(stack.driver().take()), datagram(local_v4, port, peer_v4, peer_port, ""));
}

// RFC 768: "If the computed checksum is zero, it is transmitted as all ones (the equivalent in one's complement
// arithmetic)."
TEST(UdpSend, AChecksumOfZeroIsSentAsAllOnes) {
  UdpStack stack;
  stack.bind();
  // Two bytes that bring the sum of everything else to all ones.
  const UdpHeader header{port, peer_port, 2, 0};
  const std::uint16_t rest = wire::udp_sum(local_v4, peer_v4, header);
  const std::uint16_t complement = static_cast<std::uint16_t>(~rest);
  std::string payload(2, '\0');
  std::memcpy(payload.data(), &complement, sizeof complement);
  stack.send({peer_v4, peer_port}, payload);
  EXPECT_EQ(data_text(stack.driver().take()).substr(6, 2), "\xff\xff");
}

TEST(UdpSend, TheChecksumCanBeLeftOutOverIpv4Only) {
  UdpStack stack(false);
  stack.bind();
  stack.send({peer_v4, peer_port}, "x");
  EXPECT_EQ(data_text(stack.driver().take()).substr(6, 2), std::string(2, '\0'));
  stack.send({peer_v6, peer_port}, "x");
  EXPECT_EQ(data_text(stack.driver().take()), datagram(local_v6, port, peer_v6, peer_port, "x"));
}

// RFC 8200 section 8.1: "Unlike IPv4, the default behavior when UDP packets are originated by an IPv6 node is that the
// UDP checksum is not optional." So T_UDP_CHECKSUM is about IPv4; and a flow that is under way heeds it.
TEST(UdpSend, TheChecksumIsAnOptionOverIpv4Only) {
  UdpStack stack;
  stack.bind();
  const auto manage = [&](std::uint32_t value) {
    std::vector<std::byte> bytes(4);
    std::memcpy(bytes.data(), &value, sizeof value);
    std::vector<std::byte> options;
    wire::xti::append(options,
                      {.level = wire::xti::T_INET_UDP, .name = wire::xti::T_UDP_CHECKSUM, .status = 0, .value = bytes});
    stack.down(proto(stack, OptmgmtReq{.options = options, .flags = T_NEGOTIATE}));
    EXPECT_EQ(OptmgmtAck::decode(stack.head().take().bytes())->flags, T_SUCCESS);
  };
  const auto sent_to = [&](const IpAddress& peer) {
    stack.send({peer, peer_port}, "x");
    return data_text(stack.driver().take());
  };
  const std::string whole = datagram(local_v4, port, peer_v4, peer_port, "x");
  EXPECT_EQ(sent_to(peer_v4), whole);
  manage(wire::xti::T_NO);
  EXPECT_EQ(sent_to(peer_v4).substr(6, 2), std::string(2, '\0'));
  EXPECT_EQ(sent_to(peer_v6), datagram(local_v6, port, peer_v6, peer_port, "x"));
  manage(wire::xti::T_YES);
  EXPECT_EQ(sent_to(peer_v4), whole);
}

// What ip would answer is not supported where nothing answers.
TEST(UdpSend, OptionsOfIpAreSupportedWhereIpAnswers) {
  UdpStack stack;
  stack.bind();
  std::vector<std::byte> options;
  wire::xti::append(options, {.level = wire::xti::T_INET_IP, .name = wire::xti::T_IP_TTL});
  stack.down(proto(stack, OptmgmtReq{.options = options, .flags = T_CURRENT}));
  EXPECT_EQ(OptmgmtAck::decode(stack.head().take().bytes())->flags, T_NOTSUPPORT);
}

TEST(UdpSend, TheHeaderGoesIntoTheHeadroomAndThePrimitiveIntoItsBlock) {
  UdpStack stack;
  stack.bind();
  stack.send({peer_v6, peer_port}, "first");  // the route is known from now on
  stack.driver().take().reset();
  Message request =
      with_data(proto(stack, UnitdataReq{.address = encoded(TransportAddress{peer_v6, peer_port}), .options = {}}),
                Message::copy_of(stack.pool(), as_bytes("payload"), stack.udp().headroom()));
  const std::uint64_t buffers = stack.pool().statistics().buffers_in_use;
  stack.down(std::move(request));
  EXPECT_EQ(stack.pool().statistics().buffers_in_use, buffers);
  EXPECT_EQ(stack.driver().take().block_count(), 2U);
}

TEST(UdpSend, ABatchIsABatch) {
  UdpStack stack;
  stack.bind();
  Batch batch;
  for (int i = 0; i < 32; ++i) {
    batch.push(unitdata_req(stack, encoded(TransportAddress{peer_v4, peer_port}), {}, "x"));
  }
  stack.down(std::move(batch));
  EXPECT_EQ(stack.driver().batch_sizes(), std::vector<std::size_t>{32});
  EXPECT_EQ(stack.ip().routes_asked.size(), 1U);
}

TEST(UdpSend, ARouteIsAskedForOnceUntilItChanges) {
  UdpStack stack;
  stack.bind();
  for (int i = 0; i < 3; ++i) {
    stack.send({peer_v4, peer_port}, "x");
  }
  EXPECT_EQ(stack.ip().routes_asked.size(), 1U);
  const IpAddress other = Ipv4Address{{10, 0, 0, 77}};
  stack.up(proto(stack, RouteAck{peer_v4, other, 1500, 0}, MessageType::ctl));
  stack.driver().take().reset();
  stack.driver().take().reset();
  stack.driver().take().reset();
  stack.send({peer_v4, peer_port}, "x");
  EXPECT_EQ(data_text(stack.driver().take()), datagram(other, port, peer_v4, peer_port, "x"));
  // "A destination that is unspecified says: every earlier answer is void, ask again."
  stack.up(proto(stack, RouteAck{IpAddress{}, IpAddress{}, 0, 0}, MessageType::ctl));
  stack.send({peer_v4, peer_port}, "x");
  EXPECT_EQ(stack.ip().routes_asked.size(), 2U);
}

TEST(UdpSend, AnEndpointBoundToAnAddressSendsFromItAndToItsFamilyOnly) {
  UdpStack stack;
  const IpAddress second = Ipv4Address{{10, 0, 0, 99}};
  stack.bind({second, port});
  stack.send({peer_v4, peer_port}, "x");
  EXPECT_EQ(data_text(stack.driver().take()), datagram(second, port, peer_v4, peer_port, "x"));
  EXPECT_TRUE(stack.ip().routes_asked.empty());
  stack.send({peer_v6, peer_port}, "x");
  EXPECT_EQ(stack.uderror(), EAFNOSUPPORT);
}

TEST(UdpSend, OptionsGoToIp) {
  UdpStack stack;
  stack.bind();
  std::vector<std::byte> options(Sending::size);
  Sending{.source = local_v4, .hop_limit = 3, .traffic_class = 0x2e, .dont_fragment = true}.encode(options);
  stack.down(unitdata_req(stack, encoded(TransportAddress{peer_v4, peer_port}), options, "x"));
  const Message message = stack.driver().take();
  const auto sending = Sending::decode(UnitdataReq::decode(message.bytes())->options);
  EXPECT_EQ(sending, (Sending{.source = local_v4, .hop_limit = 3, .traffic_class = 0x2e, .dont_fragment = true}));
}

TEST(UdpSend, WhatCannotBeSentIsAnsweredWithUderror) {
  UdpStack stack;
  stack.bind();
  const std::array<std::byte, 3> three{};
  stack.down(unitdata_req(stack, three, {}, "bad address"));
  EXPECT_EQ(stack.uderror(), EINVAL);
  stack.down(unitdata_req(stack, encoded(TransportAddress{peer_v4, peer_port}), three, "bad options"));
  EXPECT_EQ(stack.uderror(), EINVAL);
  stack.send({peer_v4, peer_port}, std::string(65508, 'x'));
  EXPECT_EQ(stack.uderror(), EMSGSIZE);
  stack.ip().route_error = ENETUNREACH;
  stack.send({Ipv4Address{{192, 0, 2, 1}}, peer_port}, "no route");
  EXPECT_EQ(stack.uderror(), ENETUNREACH);
  EXPECT_EQ(stack.counted("refused"), 4U);
  EXPECT_EQ(stack.driver().count(), 0U);
}

TEST(UdpSend, ALostRouteIsAskedForAgain) {
  UdpStack stack;
  stack.bind();
  stack.ip().route_error = ENETUNREACH;
  stack.send({peer_v4, peer_port}, "x");
  stack.ip().route_error = 0;
  stack.send({peer_v4, peer_port}, "x");
  EXPECT_EQ(stack.driver().count(), 1U);
}

TEST(UdpSend, TheLargestDatagramIsSent) {
  UdpStack stack;
  stack.bind();
  stack.send({peer_v4, peer_port}, std::string(65507, 'x'));
  EXPECT_EQ(stack.driver().take().data_size(), 65515U);
}

TEST(UdpSend, MalformedRequestsAreCounted) {
  UdpStack stack;
  stack.bind();
  stack.down(with_data(raw_proto(stack, {T_UNITDATA_REQ, 8, 4000, 0, 0}), data(stack, "x")));
  stack.down(raw_proto(stack, {T_UNITDATA_REQ, 8}));
  EXPECT_EQ(stack.counted("malformed"), 2U);
  EXPECT_EQ(stack.driver().count() + stack.head().count(), 0U);
}

TEST(UdpSend, RoutesRememberedAreBounded) {
  UdpStack stack;
  stack.bind();
  for (std::uint32_t i = 0; i < 3 * Udp::routes_max; ++i) {
    stack.send({Ipv4Address::from_value(0x0b000000U + i), peer_port}, "x");
  }
  EXPECT_EQ(stack.driver().count(), 3 * Udp::routes_max);
  EXPECT_EQ(stack.ip().routes_asked.size(), 3 * Udp::routes_max);
  // What is remembered is not asked for again: the newest, and no more than the bound.
  std::size_t remembered = 0;
  for (std::uint32_t i = 3 * Udp::routes_max; i-- > 0;) {
    const std::size_t asked = stack.ip().routes_asked.size();
    stack.up(proto(stack, RouteAck{Ipv4Address::from_value(0x0b000000U + i), local_v4, 1500, EHOSTUNREACH},
                   MessageType::ctl));
    stack.send({Ipv4Address::from_value(0x0b000000U + i), peer_port}, "x");
    const bool known = stack.ip().routes_asked.size() == asked;
    remembered += known ? 1 : 0;
    EXPECT_TRUE(known || i < 2 * Udp::routes_max) << "the last to be sent to";
  }
  EXPECT_LE(remembered, Udp::routes_max);
  EXPECT_GE(remembered, 1U);
}

// ---- Receiving ----

TEST(UdpReceive, ADatagramToThePortIsDeliveredWithItsSenderAndHowItCame) {
  for (const auto& [local, peer] : {std::pair(local_v4, peer_v4), std::pair(local_v6, peer_v6)}) {
    UdpStack stack;
    stack.bind();
    stack.up(indication(stack, peer, local, datagram(peer, peer_port, local, port, "hello")));
    const Message message = stack.head().take();
    EXPECT_EQ(data_text(message), "hello");
    const auto arrived = UnitdataInd::decode(message.bytes());
    ASSERT_TRUE(arrived.has_value());
    EXPECT_EQ(TransportAddress::decode(arrived->address), (TransportAddress{peer, peer_port}));
    EXPECT_EQ(Received::decode(arrived->options)->local, local);
    EXPECT_EQ(stack.counted("received"), 1U);
  }
}

TEST(UdpReceive, PaddingBehindTheDatagramIsCutOff) {
  UdpStack stack;
  stack.bind();
  stack.up(indication(stack, peer_v4, local_v4,
                      datagram(peer_v4, peer_port, local_v4, port, "abc") + std::string(20, '\xaa')));
  EXPECT_EQ(data_text(stack.head().take()), "abc");
}

TEST(UdpReceive, AnEmptyDatagramIsDeliveredEmpty) {
  UdpStack stack;
  stack.bind();
  stack.up(indication(stack, peer_v4, local_v4, datagram(peer_v4, peer_port, local_v4, port, "")));
  EXPECT_EQ(data_text(stack.head().take()), "");
}

TEST(UdpReceive, AHeaderThatStraddlesBlocksIsRead) {
  UdpStack stack;
  stack.bind();
  const std::string bytes = datagram(peer_v4, peer_port, local_v4, port, "hello");
  Message message = indication(stack, peer_v4, local_v4, "");
  message.link(data_chain(stack, {bytes.substr(0, 3), bytes.substr(3, 7), bytes.substr(10)}));
  stack.up(std::move(message));
  EXPECT_EQ(data_text(stack.head().take()), "hello");
}

TEST(UdpReceive, EveryBitOfTheDatagramIsCovered) {
  const std::string good = datagram(peer_v4, peer_port, local_v4, port, "hello");
  UdpStack stack;
  stack.bind();
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    stack.up(indication(stack, peer_v4, local_v4, bad));
  }
  EXPECT_EQ(stack.head().count(), 0U);
  EXPECT_EQ(stack.driver().count(), 0U);
  EXPECT_EQ(stack.counted("bad_checksum") + stack.counted("bad_length"), 8 * good.size());
}

// RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum". RFC 8200
// section 8.1: "IPv6 receivers must discard UDP packets containing a zero checksum".
TEST(UdpReceive, WithoutAChecksumIpv4IsAcceptedAndIpv6Discarded) {
  for (const auto& [local, peer] : {std::pair(local_v4, peer_v4), std::pair(local_v6, peer_v6)}) {
    UdpStack stack;
    stack.bind();
    std::string bytes = datagram(peer, peer_port, local, port, "hello");
    bytes.replace(6, 2, 2, '\0');
    stack.up(indication(stack, peer, local, bytes));
    EXPECT_EQ(stack.head().count(), local.is_v4() ? 1U : 0U);
    EXPECT_EQ(stack.counted("zero_checksum"), local.is_v4() ? 0U : 1U);
  }
}

TEST(UdpReceive, MalformedDatagramsAreCountedByKind) {
  UdpStack stack;
  stack.bind();
  stack.up(indication(stack, peer_v4, local_v4, "seven b"));
  EXPECT_EQ(stack.counted("short_header"), 1U);
  std::string bytes = datagram(peer_v4, peer_port, local_v4, port, "hello");
  stack.up(indication(stack, peer_v4, local_v4, bytes.substr(0, 12)));
  EXPECT_EQ(stack.counted("bad_length"), 1U);
  bytes[5] = 7;
  stack.up(indication(stack, peer_v4, local_v4, bytes));
  EXPECT_EQ(stack.counted("bad_length"), 2U);
  stack.up(unitdata_ind(stack, {}, {}, "no address"));
  stack.up(raw_proto(stack, {T_UNITDATA_IND, 1}));
  stack.up(indication(stack, peer_v6, local_v4, datagram(peer_v4, peer_port, local_v4, port, "mixed families")));
  EXPECT_EQ(stack.counted("malformed"), 3U);
  EXPECT_EQ(stack.head().count(), 0U);
}

/// RFC 3493 section 5.3: "This socket option restricts AF_INET6 sockets to IPv6 communications only." The driver is
/// told, and where it does not filter, what is of the other family is not this port's.
TEST(UdpReceive, AnUnspecifiedAddressIsOfOneFamilyOrBoth) {
  struct Case {
    IpAddress address;
    bool v6_only;
    std::uint16_t sap;
    unsigned v4;
    unsigned v6;
  };
  for (const Case& one : {Case{Ipv4Address{}, false, wire::ethertype_ipv4, 1, 0}, Case{Ipv6Address{}, false, 0, 1, 1},
                          Case{Ipv6Address{}, true, wire::ethertype_ipv6, 0, 1}}) {
    UdpStack stack;
    stack.ip().filter_error = wire::dlpi::DL_NOTSUPPORTED;
    set_v6_only(stack, one.v6_only);
    stack.bind({one.address, port});
    ASSERT_EQ(stack.ip().filters_asked.size(), 1U);
    EXPECT_EQ(stack.ip().filters_asked[0].sap, one.sap);
    stack.up(indication(stack, peer_v4, local_v4, datagram(peer_v4, peer_port, local_v4, port, "v4")));
    EXPECT_EQ(stack.counted("received"), one.v4);
    stack.up(indication(stack, peer_v6, local_v6, datagram(peer_v6, peer_port, local_v6, port, "v6")));
    EXPECT_EQ(stack.counted("received"), one.v4 + one.v6);
    EXPECT_EQ(stack.counted("port_unreachable"), 2 - one.v4 - one.v6);
  }
}

TEST(UdpSend, APortOfOneFamilySendsToThatAlone) {
  UdpStack stack;
  stack.bind({Ipv4Address{}, port});
  stack.send({peer_v6, peer_port}, "none answers there");
  EXPECT_EQ(stack.uderror(), EAFNOSUPPORT);
  stack.send({peer_v4, peer_port}, "but here");
  EXPECT_EQ(stack.counted("sent"), 1U);
}

TEST(UdpReceive, WithAFilterOtherPortsAreDropped) {
  UdpStack stack;
  stack.bind();
  stack.up(indication(stack, peer_v4, local_v4, datagram(peer_v4, peer_port, local_v4, 53, "not mine")));
  EXPECT_EQ(stack.counted("not_my_port"), 1U);
  EXPECT_EQ(stack.driver().count() + stack.head().count(), 0U);
}

// RFC 1122 section 4.1.3.1: "If a datagram arrives addressed to a UDP port for which there is no pending LISTEN call,
// UDP SHOULD send an ICMP Port Unreachable message."
TEST(UdpReceive, WithoutAFilterTheyAreGivenToIpToBeAnsweredUnchanged) {
  UdpStack stack;  // unbound
  const std::string bytes = datagram(peer_v4, peer_port, local_v4, 53, "not mine");
  stack.up(indication(stack, peer_v4, local_v4, bytes));
  const Message message = stack.driver().take();
  EXPECT_EQ(message.type(), MessageType::ctl);
  EXPECT_EQ(UnreachableReq::decode(message.bytes()), (UnreachableReq{peer_v4, local_v4, 20}));
  EXPECT_EQ(data_text(message), bytes);
  EXPECT_EQ(stack.counted("port_unreachable"), 1U);
}

TEST(UdpReceive, ABadChecksumOrAGroupIsNeverAnswered) {
  UdpStack stack;
  std::string bytes = datagram(peer_v4, peer_port, local_v4, 53, "not mine");
  bytes.back() ^= 1;
  stack.up(indication(stack, peer_v4, local_v4, bytes));
  const IpAddress group = Ipv4Address{{224, 0, 0, 1}};
  stack.up(indication(stack, peer_v4, group, datagram(peer_v4, peer_port, group, 53, "all"), true));
  EXPECT_EQ(stack.driver().count(), 0U);
  EXPECT_EQ(stack.counted("bad_checksum"), 1U);
  EXPECT_EQ(stack.counted("not_my_port"), 1U);
}

TEST(UdpReceive, ABatchIsABatch) {
  UdpStack stack;
  stack.bind();
  Batch batch;
  for (int i = 0; i < 32; ++i) {
    batch.push(indication(stack, peer_v4, local_v4, datagram(peer_v4, peer_port, local_v4, port, "x")));
  }
  stack.up(std::move(batch));
  EXPECT_EQ(stack.head().batch_sizes().back(), 32U);
}

TEST(UdpReceive, DeliveryAllocatesNothing) {
  UdpStack stack;
  stack.bind();
  Message message = indication(stack, peer_v6, local_v6, datagram(peer_v6, peer_port, local_v6, port, "x"));
  const std::uint64_t buffers = stack.pool().statistics().buffers_in_use;
  stack.up(std::move(message));
  EXPECT_EQ(stack.pool().statistics().buffers_in_use, buffers);
}

// ---- Errors ----

// RFC 1122 section 4.1.3.3: "UDP MUST pass to the application layer all ICMP error messages that it receives from the
// IP layer."
TEST(UdpError, AnErrorAboutOurDatagramIsIndicatedWithItsDestination) {
  UdpStack stack;
  stack.bind();
  stack.up(failure(stack, peer_v4, datagram(local_v4, port, peer_v4, peer_port, "").substr(0, 8), EMSGSIZE, 1280));
  const Message message = stack.head().take();
  EXPECT_EQ(message.data_size(), 0U);
  const auto error = UderrorInd::decode(message.bytes());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->error_type, EMSGSIZE);
  EXPECT_EQ(TransportAddress::decode(error->destination), (TransportAddress{peer_v4, peer_port}));
  EXPECT_EQ(Failure::decode(error->options)->mtu, 1280U);
}

TEST(UdpError, AnErrorAboutAnotherPortsDatagramIsDropped) {
  UdpStack stack;
  stack.bind();
  stack.up(failure(stack, peer_v4, datagram(local_v4, port + 1, peer_v4, peer_port, ""), ECONNREFUSED));
  EXPECT_EQ(stack.counted("foreign_error"), 1U);
  stack.up(failure(stack, peer_v4, "short", ECONNREFUSED));
  EXPECT_EQ(stack.counted("malformed"), 1U);
  EXPECT_EQ(stack.head().count(), 0U);
}

// ---- The rest ----

TEST(Udp, AcknowledgementsAndControlThatNobodyWaitsForAreCounted) {
  UdpStack stack;
  stack.up(proto(stack, OkAck{T_UNBIND_REQ}, MessageType::pcproto));
  stack.up(raw_proto(stack, {4711}));
  stack.up(Message::copy_of(stack.pool(), as_bytes("what?"), 0, MessageType::ctl));
  EXPECT_EQ(stack.counted("unexpected"), 3U);
  EXPECT_EQ(stack.head().count(), 0U);
}

TEST(Udp, FlushIoctlsAndHangupPass) {
  UdpStack stack;
  stack.down(flush(stack, flush_read | flush_write));
  stack.down(ioctl(stack, 1, 1));
  stack.up(bare(stack, MessageType::hangup));
  EXPECT_EQ(stack.driver().count(), 2U);
  EXPECT_EQ(stack.head().take().type(), MessageType::hangup);
}

TEST(Udp, AWriterLooksThroughItAtTheDriversQueue) {
  UdpStack stack;
  stack.bind();
  stack.driver().hold();
  stack.send({peer_v4, peer_port}, "x");
  EXPECT_FALSE(stack.can_write());
  stack.driver().release();
  EXPECT_TRUE(stack.can_write());
}

}  // namespace
}  // namespace sluice::test
