// SPDX-License-Identifier: Apache-2.0
// How a udp stream gets and gives up its address. What every provider answers is in tests/stack/provider.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "tests/stack/modules/udp_stack.h"

namespace sluice::test {
namespace {

TEST(UdpBind, TheNetworkIsBoundToTheAddressAndThePortIsAskedOfTheDriver) {
  UdpStack stack;
  EXPECT_EQ(stack.bind({local_v4, port}), (TransportAddress{local_v4, port}));
  EXPECT_EQ(stack.ip().bound, (NetworkAddress{local_v4, wire::protocol_udp}));
  ASSERT_EQ(stack.ip().filters_asked.size(), 1U);
  EXPECT_EQ(stack.ip().filters_asked[0].local_port, port);
  EXPECT_EQ(stack.ip().filters_asked[0].local, local_v4);
  EXPECT_EQ(stack.ip().filters_asked[0].protocol, wire::protocol_udp);
}

// T_BIND_ACK: "If the ADDR_length field in the T_BIND_REQ primitive is 0, then the transport provider is to assign a
// transport protocol address to the user."
TEST(UdpBind, WithoutAnAddressAFreePortIsAssigned) {
  UdpStack stack;
  stack.down(proto(stack, BindReq{.address = {}}));
  const TransportAddress granted = stack.bound();
  EXPECT_TRUE(granted.address.is_unspecified());
  EXPECT_GE(granted.port, 49152);
}

TEST(UdpBind, PortZeroAsksForAFreePortAndBusyOnesArePassedOver) {
  UdpStack stack;
  stack.ip().ports_busy = 3;
  EXPECT_GE(stack.bind({local_v4, 0}).port, 49152);
  EXPECT_EQ(stack.ip().filters_asked.size(), 4U);
}

TEST(UdpBind, WhenNoPortIsFreeTheAnswerIsTnoaddrAndTheStreamIsUnbound) {
  UdpStack stack;
  stack.ip().ports_busy = 1000;
  stack.down(bind_req(stack, {local_v4, 0}));
  EXPECT_EQ(stack.error_ack().tli_error, TNOADDR);
  // TLI's has asked for a port and would take any.
  stack.down(proto(stack, OldBindReq{.address = encoded(TransportAddress{local_v4, port})}));
  EXPECT_EQ(stack.error_ack().tli_error, TNOADDR);
  stack.ip().ports_busy = 0;
  EXPECT_EQ(stack.bind({local_v4, port}).port, port);
}

// T_BIND_ACK: "If the transport provider cannot bind the specified address the provider will return [TADDRBUSY]."
TEST(UdpBind, ABusyPortIsAnErrorForXtiAndReplacedForTli) {
  UdpStack stack;
  stack.ip().ports_busy = 1;
  stack.down(bind_req(stack, {{}, port}));
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_BIND_REQ, TADDRBUSY, 0}));
  stack.ip().ports_busy = 1;
  stack.down(proto(stack, OldBindReq{.address = encoded(TransportAddress{{}, port})}));
  EXPECT_NE(stack.bound().port, port);
}

TEST(UdpBind, AnAddressThatIsNotOursIsRefusedWithIpsError) {
  UdpStack stack;
  stack.ip().bind_error = TNOADDR;
  stack.down(bind_req(stack, {peer_v4, port}));
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_BIND_REQ, TNOADDR, 0}));
  EXPECT_EQ(stack.ip().bound, (NetworkAddress{IpAddress{}, wire::protocol_udp}));
}

TEST(UdpBind, ADriverThatCannotFilterOrDoesNotAnswerIsNoReasonToFail) {
  UdpStack refusing;
  refusing.ip().filter_error = wire::dlpi::DL_NOTSUPPORTED;
  EXPECT_EQ(refusing.bind().port, port);

  UdpStack silent;
  silent.ip().answers_filters = false;
  silent.down(bind_req(silent, {{}, port}));
  EXPECT_EQ(silent.head().count(), 0U);
  silent.advance(PortBinding::filter_answer_time_max);
  EXPECT_EQ(silent.bound().port, port);
}

TEST(UdpBind, AnIpThatDoesNotAnswerEndsInASystemError) {
  UdpStack stack;
  stack.ip().answers = false;
  stack.down(bind_req(stack, {local_v4, port}));
  stack.down(proto(stack, InfoReq{}, MessageType::pcproto));
  EXPECT_EQ(InfoAck::decode(stack.head().take().bytes())->current_state, TS_WACK_BREQ);
  stack.advance(PortBinding::network_answer_time_max);
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_BIND_REQ, TSYSERR, ETIMEDOUT}));
}

/// What waits for memory is not asked any more once nobody waits for the answer.
TEST(UdpBind, ARequestThatLackedMemoryForTooLongIsNotMadeLater) {
  UdpStack stack;
  Message request = bind_req(stack, {local_v4, port});
  std::vector<Message> all;
  for (std::size_t size = BufferPool::capacity_max; size > 0; size /= 2) {
    while (Block* const block = stack.set().pool().allocate(size)) {
      all.emplace_back(block);
    }
  }
  stack.down(std::move(request));
  stack.advance(PortBinding::network_answer_time_max);
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_BIND_REQ, TSYSERR, ETIMEDOUT})) << "in the request's own block";
  all.clear();
  stack.advance(seconds(1));
  EXPECT_EQ(stack.head().count(), 0U);
  EXPECT_EQ(stack.counted("unexpected"), 0U) << "one request, one answer";
  EXPECT_EQ(stack.bind().port, port);
}

TEST(UdpBind, MalformedAddressesAreTbadaddr) {
  UdpStack stack;
  const std::array<std::byte, 5> five{};
  stack.down(proto(stack, BindReq{.address = five}));
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_BIND_REQ, TBADADDR, 0}));
  stack.down(raw_proto(stack, {T_BIND_REQ, 8, 4000, 0}));
  EXPECT_EQ(stack.error_ack().tli_error, TBADADDR);
  stack.down(raw_proto(stack, {O_T_BIND_REQ}));
  EXPECT_EQ(stack.error_ack(), (ErrorAck{O_T_BIND_REQ, TBADADDR, 0}));
}

TEST(UdpBind, UnbindGivesThePortBackAndTheStreamSeesWhatNobodyClaims) {
  UdpStack stack;
  stack.bind({local_v4, port});
  stack.down(proto(stack, UnbindReq{}));
  EXPECT_EQ(stack.head().take().type(), MessageType::flush);
  const Message ack = stack.head().take();
  EXPECT_EQ(OkAck::decode(ack.bytes())->correct_primitive, T_UNBIND_REQ);
  EXPECT_EQ(stack.ip().bound, (NetworkAddress{IpAddress{}, wire::protocol_udp}));
  EXPECT_EQ(stack.bind({local_v4, port}).port, port);
}

// What ip flushes when udp gives up an address there is no business of the user's, who has asked for none of it.
TEST(UdpBind, OnlyTheUsersOwnUnbindFlushes) {
  UdpStack stack;
  stack.ip().bind_error = TNOADDR;
  stack.down(bind_req(stack, {local_v4, port}));
  EXPECT_EQ(stack.error_ack().tli_error, TNOADDR);
  stack.bind();
  EXPECT_EQ(stack.head().count(), 0U);
}

TEST(UdpBind, TheSameSeedGivesTheSamePorts) {
  UdpStack a;
  UdpStack b;
  EXPECT_EQ(a.bind({{}, 0}), b.bind({{}, 0}));
}

}  // namespace
}  // namespace sluice::test
