// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "stack/wire/checksum.h"
#include "tests/stack/modules/fake_ip.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;
using std::chrono::seconds;
using wire::IpAddress;
using wire::Ipv4Address;
using wire::Ipv6Address;
using wire::NetworkAddress;
using wire::TransportAddress;
using wire::UdpHeader;
using wire::network::Failure;
using wire::network::Received;
using wire::network::RouteAck;
using wire::network::Sending;
using wire::network::UnreachableReq;

const IpAddress local_v4 = Ipv4Address{{10, 0, 0, 1}};
const IpAddress peer_v4 = Ipv4Address{{10, 0, 0, 2}};
const IpAddress local_v6 = Ipv6Address{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const IpAddress peer_v6 = Ipv6Address{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr std::uint16_t port = 7000;
constexpr std::uint16_t peer_port = 9;

/// A datagram's bytes, with the right checksum unless told otherwise.
std::string datagram(const IpAddress& from, std::uint16_t from_port, const IpAddress& to, std::uint16_t to_port,
                     std::string_view payload) {
  UdpHeader header{from_port, to_port, static_cast<std::uint16_t>(payload.size()), 0};
  const std::uint16_t sum = wire::add_sums(wire::udp_sum(from, to, header), wire::header_sum(as_bytes(payload)));
  header.checksum = wire::udp_checksum_of(sum);
  std::array<std::byte, UdpHeader::size> bytes{};
  header.emit(bytes);
  return std::string(as_text(bytes)) + std::string(payload);
}

Message indication(Stack& stack, const IpAddress& from, const IpAddress& to, std::string_view bytes,
                   bool group = false) {
  std::vector<std::byte> options(Received::size);
  Received{.local = to, .hop_limit = 64, .group = group, .header_size = 20}.encode(options);
  return unitdata_ind(stack, encoded(NetworkAddress{from, wire::protocol_udp}), options, bytes);
}

Message failure(Stack& stack, const IpAddress& to, std::string_view quote, int error, std::uint32_t mtu = 0) {
  std::vector<std::byte> options(Failure::size);
  Failure{.source = std::nullopt, .mtu = mtu}.encode(options);
  const std::vector<std::byte> address = encoded(NetworkAddress{to, wire::protocol_udp});
  return with_data(proto(stack, UderrorInd{.destination = address, .options = options, .error_type = error}),
                   data(stack, quote));
}

Message bind_req(Stack& stack, const TransportAddress& address) {
  return proto(stack, BindReq{.address = encoded(address)});
}

/// A udp module over an ip that answers.
class UdpStack : public Stack {
 public:
  explicit UdpStack(bool checksum = true) : ip_(push<FakeIp>()), udp_(push<Udp>(checksum)) {}

  FakeIp& ip() { return ip_; }
  Udp& udp() { return udp_; }
  [[nodiscard]] std::uint64_t counted(std::string_view name) const { return count(udp_, name); }

  /// Binds, and returns the address granted.
  TransportAddress bind(const TransportAddress& address = {{}, port}) {
    down(bind_req(*this, address));
    return bound();
  }
  TransportAddress bound() {
    const Message message = head().take();
    const auto ack = BindAck::decode(message.bytes());
    SLUICE_REQUIRE(ack.has_value() && message.type() == MessageType::pcproto);
    return TransportAddress::decode(ack->address).value();
  }
  ErrorAck error_ack() {
    const Message message = head().take();
    SLUICE_REQUIRE(message.type() == MessageType::pcproto);
    return ErrorAck::decode(message.bytes()).value();
  }
  void send(const TransportAddress& to, std::string_view text) { down(unitdata_req(*this, encoded(to), {}, text)); }
  /// The errno of the T_UDERROR_IND that is next at the head.
  int uderror() {
    const Message message = head().take();
    return UderrorInd::decode(message.bytes()).value().error_type;
  }

 private:
  FakeIp& ip_;
  Udp& udp_;
};

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
