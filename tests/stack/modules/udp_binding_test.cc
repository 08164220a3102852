// SPDX-License-Identifier: Apache-2.0
// The udp module as its user manages it: binding, and what is answered in which state.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tests/stack/modules/udp_stack.h"

namespace sluice::test {
namespace {

// ---- Binding ----

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
  silent.advance(udp::Binding::filter_answer_time_max);
  EXPECT_EQ(silent.bound().port, port);
}

TEST(UdpBind, AnIpThatDoesNotAnswerEndsInASystemError) {
  UdpStack stack;
  stack.ip().answers = false;
  stack.down(bind_req(stack, {local_v4, port}));
  stack.down(proto(stack, InfoReq{}, MessageType::pcproto));
  EXPECT_EQ(InfoAck::decode(stack.head().take().bytes())->current_state, TS_WACK_BREQ);
  stack.advance(udp::Binding::network_answer_time_max);
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_BIND_REQ, TSYSERR, ETIMEDOUT}));
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
  const Message ack = stack.head().take();
  EXPECT_EQ(OkAck::decode(ack.bytes())->correct_primitive, T_UNBIND_REQ);
  EXPECT_EQ(stack.ip().bound, (NetworkAddress{IpAddress{}, wire::protocol_udp}));
  EXPECT_EQ(stack.bind({local_v4, port}).port, port);
}

TEST(UdpBind, TheSameSeedGivesTheSamePorts) {
  UdpStack a;
  UdpStack b;
  EXPECT_EQ(a.bind({{}, 0}), b.bind({{}, 0}));
}

// ---- States ----

/// What answers `primitive` in the state that `prepare` brings the stream to: an error, "M_ERROR", "", or a primitive.
std::string answer_to(UdpStack& stack, Message request) {
  stack.down(std::move(request));
  if (stack.head().count() == 0) {
    return stack.driver().count() > 0 ? "sent" : "";
  }
  const Message answer = stack.head().take();
  if (answer.type() == MessageType::error) {
    return "M_ERROR";
  }
  if (const auto error = ErrorAck::decode(answer.bytes())) {
    return error->tli_error == TOUTSTATE     ? "TOUTSTATE"
           : error->tli_error == TNOTSUPPORT ? "TNOTSUPPORT"
                                             : "other error";
  }
  return std::to_string(*primitive_of(answer.bytes()));
}

TEST(UdpStates, EveryPrimitiveInEveryState) {
  const auto requests = [](Stack& stack) {
    std::vector<Message> all;
    all.push_back(proto(stack, InfoReq{}, MessageType::pcproto));
    all.push_back(proto(stack, CapabilityReq{TC1_INFO}, MessageType::pcproto));
    all.push_back(proto(stack, AddrReq{}, MessageType::pcproto));
    all.push_back(proto(stack, BindReq{.address = {}}));
    all.push_back(proto(stack, UnbindReq{}));
    all.push_back(proto(stack, OptmgmtReq{.options = {}, .flags = T_CURRENT}));
    all.push_back(unitdata_req(stack, encoded(TransportAddress{peer_v4, peer_port}), {}, "x"));
    all.push_back(raw_proto(stack, {0}));     // T_CONN_REQ
    all.push_back(raw_proto(stack, {4711}));  // nothing
    return all;
  };
  struct Case {
    const char* state;
    std::vector<std::string> answers;
  };
  const std::string bind_ack = std::to_string(T_BIND_ACK);
  const std::vector<std::string> always{std::to_string(T_INFO_ACK), std::to_string(T_CAPABILITY_ACK),
                                        std::to_string(T_ADDR_ACK)};
  const std::vector<Case> cases{
      {"unbound", {bind_ack, "TOUTSTATE", std::to_string(T_OPTMGMT_ACK), "M_ERROR", "TNOTSUPPORT", "TNOTSUPPORT"}},
      {"waiting", {"TOUTSTATE", "TOUTSTATE", "TOUTSTATE", "M_ERROR", "TNOTSUPPORT", "TNOTSUPPORT"}},
      {"idle",
       {"TOUTSTATE", std::to_string(T_OK_ACK), std::to_string(T_OPTMGMT_ACK), "sent", "TNOTSUPPORT", "TNOTSUPPORT"}},
      {"failed", {"", "", "", "", "", ""}},
  };
  for (const Case& expected : cases) {
    std::vector<std::string> answers =
        expected.state == std::string_view("failed") ? std::vector<std::string>(3) : always;
    answers.insert(answers.end(), expected.answers.begin(), expected.answers.end());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      UdpStack stack;
      if (expected.state == std::string_view("idle")) {
        stack.bind();
      } else if (expected.state == std::string_view("waiting")) {
        stack.ip().answers = false;
        stack.down(bind_req(stack, {{}, port}));
      } else if (expected.state == std::string_view("failed")) {
        stack.down(data(stack, "M_DATA is fatal"));
        EXPECT_EQ(stack.head().take().type(), MessageType::error);
      }
      std::vector<Message> all = requests(stack);
      EXPECT_EQ(answer_to(stack, std::move(all[i])), answers[i]) << "request " << i << " when " << expected.state;
    }
  }
}

TEST(UdpStates, ADatagramIsNoHighPriorityMessageAndAfterAFatalErrorEverythingIsDroppedAndCounted) {
  UdpStack stack;
  stack.bind();
  const std::vector<std::byte> address = encoded(TransportAddress{peer_v4, peer_port});
  stack.down(proto(stack, UnitdataReq{.address = address, .options = {}}, MessageType::pcproto));
  EXPECT_EQ(stack.counted("malformed"), 1U);
  stack.down(data(stack, "M_DATA is fatal"));
  stack.send({peer_v4, peer_port}, "x");
  stack.down(proto(stack, InfoReq{}, MessageType::pcproto));
  EXPECT_EQ(stack.counted("unexpected"), 2U);
  EXPECT_EQ(stack.driver().count(), 0U);
}

TEST(UdpStates, InfoTellsTheService) {
  UdpStack stack;
  stack.down(proto(stack, InfoReq{}, MessageType::pcproto));
  const Message message = stack.head().take();
  const InfoAck info = InfoAck::decode(message.bytes()).value();
  EXPECT_EQ(info.serv_type, T_CLTS);
  EXPECT_EQ(info.tsdu_size, 65507);
  EXPECT_EQ(info.etsdu_size, T_INVALID);
  EXPECT_EQ(info.addr_size, 20);
  EXPECT_EQ(info.current_state, TS_UNBND);
  EXPECT_EQ(info.provider_flag, SENDZERO | XPG4_1);
}

TEST(UdpStates, AddressesAreToldWhenThereAreAny) {
  UdpStack stack;
  stack.down(proto(stack, AddrReq{}, MessageType::pcproto));
  Message message = stack.head().take();
  EXPECT_TRUE(AddrAck::decode(message.bytes())->local.empty());
  stack.bind({local_v4, port});
  stack.down(proto(stack, AddrReq{}, MessageType::pcproto));
  message = stack.head().take();
  EXPECT_EQ(TransportAddress::decode(AddrAck::decode(message.bytes())->local), (TransportAddress{local_v4, port}));
}

TEST(UdpStates, OptionsThatDoNotExistAreTbadopt) {
  UdpStack stack;
  const std::array<std::byte, 16> options{};
  stack.down(proto(stack, OptmgmtReq{.options = options, .flags = T_NEGOTIATE}));
  EXPECT_EQ(stack.error_ack(), (ErrorAck{T_OPTMGMT_REQ, TBADOPT, 0}));
}

TEST(UdpStates, BlocksTooShortToNameAPrimitiveAreCounted) {
  UdpStack stack;
  stack.down(Message::copy_of(stack.pool(), std::array{std::byte{8}}, 0, MessageType::proto));
  EXPECT_EQ(stack.counted("malformed"), 1U);
}

}  // namespace
}  // namespace sluice::test
