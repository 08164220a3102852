// SPDX-License-Identifier: Apache-2.0
// The tcp module between a user and ip: what goes down for each request, and what is done with what comes up. What a
// connection does is tested without it (tcp_opening_test.cc and others); here are its streams, their states, and those
// who attack them.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "stack/wire/options.h"
#include "stack/wire/words.h"
#include "tests/stack/modules/tcp_stack.h"

namespace sluice::test::tcp_stack {
namespace {

class TcpModule : public testing::Test {
 protected:
  /// A connection that the user has asked for.
  void open(const Tcp::Options& buffers = {}) {
    stack.emplace(buffers);
    peer.emplace(*stack);
    stack->bind();
    stack->connect(peer->address());
    ASSERT_EQ(peer->heard(), "SYN");
    peer->says(tcp_syn | tcp_ack);
    ASSERT_EQ(peer->heard(), "ACK");
    ASSERT_EQ(stack->told(), "ok connect, confirmed");
  }
  /// A stream that listens.
  void listen(std::uint32_t connect_indications = 1) {
    stack.emplace();
    peer.emplace(*stack);
    stack->bind(connect_indications);
  }
  /// `caller` sets up a connection with a stream that listens.
  static void call(Peer& caller) {
    caller.says(tcp_syn);
    ASSERT_EQ(caller.heard(), "SYN+ACK");
    caller.says(tcp_ack);
    ASSERT_EQ(caller.heard(), "");
  }
  /// The peer calls, and is accepted on `other`, whose driver has not answered yet.
  void accept_unbound(TcpStack& other) {
    other.ip().answers_filters = false;
    call(*peer);
    stack->accept(1, other.number());
    EXPECT_EQ(stack->told(), "called 1, ok accept");
  }
  /// Both ends are released, and the peer has acknowledged everything.
  void release() {
    stack->finish();
    ASSERT_EQ(peer->heard(), "FIN+ACK");
    peer->says(tcp_fin | tcp_ack);
    ASSERT_EQ(peer->heard(), "ACK");
    ASSERT_EQ(stack->told(), "end");
  }
  [[nodiscard]] std::uint64_t counted(std::string_view name) const { return stack->counted(name); }
  void expect_alive() {
    peer->says(tcp_ack | tcp_psh, "alive");
    EXPECT_EQ(stack->told(), "data alive");
  }

  std::optional<TcpStack> stack;
  std::optional<Peer> peer;
};

// ---- Connecting ----

TEST_F(TcpModule, ASegmentIsARequestOfIpThatIsNotToBeFragmented) {
  for (const IpAddress& to : {there_v4, there_v6}) {
    TcpStack one;
    one.bind();
    one.connect({to, there_port});
    const std::vector<Sent> sent = one.take_sent();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].request.peer, to);
    EXPECT_TRUE(sent[0].request.has_local);
    EXPECT_EQ(sent[0].request.local, to.is_v4() ? one.ip().source_v4 : one.ip().source_v6);
    EXPECT_EQ(sent[0].segment.header.source_port, here_port);
    EXPECT_EQ(sent[0].segment.header.destination_port, there_port);
    // RFC 6691: "the MSS value to be sent in an MSS option should be equal to the effective MTU minus the fixed IP and
    // TCP headers".
    EXPECT_EQ(sent[0].segment.options.segment_bytes_max, to.is_v4() ? 1500 - 40 : 1500 - 60);
    EXPECT_EQ(one.counted("segments_sent"), 1U);
  }
}

/// RFC 6191 section 2: a peer in TIME-WAIT honors a SYN whose timestamp "is greater than the last timestamp seen on the
/// previous incarnation of the connection", or whose sequence number is.
TEST(TcpNumbers, GoOnWhenTheSameEndsAreAnotherStreams) {
  StreamSet set;
  TcpStack first(set);
  TcpStack second(set);
  const auto called = [](TcpStack& stack, std::uint16_t port) {
    stack.bind(0, {Ipv6Address{}, here_port});
    stack.connect({there_v4, port});
    const tcp::Segment syn = std::move(stack.take_sent().at(0).segment);
    return std::pair(syn.header.sequence, syn.options.timestamps.value().value);
  };
  const auto [sequence, stamp] = called(first, there_port);
  first.advance(100ms);
  const auto [next_sequence, next_stamp] = called(second, there_port);
  EXPECT_EQ(next_sequence - sequence, 25'000U) << "a number for each 4 us";
  EXPECT_EQ(next_stamp - stamp, 100U) << "one for each millisecond";
  TcpStack third(set);
  EXPECT_NE(called(third, there_port + 1).first - next_sequence, 0U)
      << "those of other ends have nothing to do with them";
}

TEST_F(TcpModule, AConversation) {
  open();
  stack->send("question");
  EXPECT_EQ(peer->heard(), "ACK question");
  peer->says(tcp_ack | tcp_psh, "answer");
  EXPECT_EQ(stack->told(), "data answer");
  stack->advance(tcp::Connection::acknowledgement_delay);
  EXPECT_EQ(peer->heard(), "ACK");
  release();
  stack->unbind();
  EXPECT_EQ(stack->told(), "flush, ok unbind");
  EXPECT_EQ(counted("connections"), 1U);
  EXPECT_EQ(counted("segments_again"), 0U);
}

TEST_F(TcpModule, DataWithoutAPrimitiveIsDataToo) {
  open();
  stack->down(data(*stack, "bare"));
  EXPECT_EQ(peer->heard(), "ACK bare");
  stack->down(data(*stack, ""));
  EXPECT_EQ(peer->heard(), "") << "no byte, no segment";
}

TEST_F(TcpModule, AddressesThatNobodyCanHaveAreRefused) {
  TcpStack one;
  one.bind();
  const IpAddress group = Ipv4Address{{224, 0, 0, 1}};
  for (const TransportAddress& to : {TransportAddress{there_v4, 0}, TransportAddress{{}, 9}, {group, 9}}) {
    one.connect(to);
    EXPECT_EQ(one.told(), "refused connect 1");
  }
  const std::byte garbage[3] = {};
  one.down(proto(one, ConnReq{.address = garbage, .options = {}}));
  EXPECT_EQ(one.told(), "refused connect 1");
  EXPECT_TRUE(one.take_sent().empty());
}

TEST_F(TcpModule, WhereThereIsNoRouteTheConnectIsRefusedWithItsErrno) {
  TcpStack one;
  one.bind();
  one.ip().route_error = ENETUNREACH;
  one.connect({there_v4, there_port});
  EXPECT_EQ(one.told(), "refused connect 8/" + std::to_string(ENETUNREACH));
  EXPECT_EQ(one.counted("connect_failures"), 1U);
  one.ip().route_error = 0;
  one.connect({there_v4, there_port});
  EXPECT_EQ(one.told(), "ok connect");
}

TEST_F(TcpModule, AStreamThatListensDoesNotConnect) {
  listen();
  stack->connect(peer->address());
  EXPECT_EQ(stack->told(), "refused connect 8/" + std::to_string(EOPNOTSUPP));
}

TEST_F(TcpModule, AnotherFamilyThanTheBoundOneIsRefused) {
  TcpStack one;
  one.bind(0, {here_v4, here_port});
  one.connect({there_v6, there_port});
  EXPECT_EQ(one.told(), "refused connect 1");
}

TEST_F(TcpModule, TwoConnectsAreOneTooMany) {
  TcpStack one;
  one.connect({there_v4, there_port});
  EXPECT_EQ(one.told(), "refused connect 6") << "not bound";
  one.bind();
  one.connect({there_v4, there_port});
  one.connect({there_v4, there_port});
  EXPECT_EQ(one.told(), "ok connect, refused connect 6");
  EXPECT_EQ(one.counted("out_of_state"), 2U);
  EXPECT_EQ(one.take_sent().size(), 1U);
}

TEST_F(TcpModule, NobodyAnswersWithinThreeMinutes) {
  TcpStack one;
  one.bind();
  one.connect({there_v4, there_port});
  one.advance(179s);
  EXPECT_EQ(one.told(), "ok connect");
  one.advance(120s);
  EXPECT_EQ(one.told(), "gone " + std::to_string(ETIMEDOUT));
  EXPECT_EQ(one.counted("connect_failures"), 1U);
  EXPECT_EQ(one.counted("resets"), 0U);
  EXPECT_EQ(one.counted("segments_sent"), one.take_sent().size());
}

TEST_F(TcpModule, AConnectThatIsRefused) {
  TcpStack one;
  Peer other(one);
  one.bind();
  one.connect(other.address());
  EXPECT_EQ(other.heard(), "SYN");
  other.says(tcp_rst | tcp_ack);
  EXPECT_EQ(one.told(), "ok connect, gone " + std::to_string(ECONNREFUSED));
  one.connect(other.address());
  EXPECT_EQ(one.told(), "ok connect") << "and may be tried again";
}

// TPI: the stream is idle once both ends have been released; the connection is not over for TCP.
TEST_F(TcpModule, TheConnectionThatIsStillClosingCannotBeMadeAgain) {
  open();
  release();
  stack->connect(peer->address());
  EXPECT_EQ(stack->told(), "refused connect 23");
  stack->connect({there_v4, 10});
  EXPECT_EQ(stack->told(), "ok connect") << "another can";
}

// ---- States of TPI ----

TEST_F(TcpModule, DataBeforeAConnection) {
  TcpStack bound;
  bound.bind();
  bound.send("early");
  EXPECT_EQ(bound.told(), "") << "a T_DISCON_IND may have crossed it";
  EXPECT_EQ(bound.counted("dropped"), 1U);
  TcpStack unbound;
  unbound.send("earlier");
  EXPECT_EQ(unbound.told(), "fatal");
  EXPECT_EQ(unbound.counted("protocol_errors"), 1U);
  EXPECT_TRUE(unbound.take_sent().empty());
}

TEST_F(TcpModule, ExpeditedDataIsFatalAndTheConnectionIsReset) {
  open();
  stack->down(with_data(proto(*stack, ExdataReq{}), data(*stack, "urgent")));
  EXPECT_EQ(stack->told(), "fatal");
  EXPECT_EQ(peer->heard(), "RST");
  stack->send("more");
  peer->says(tcp_ack, "late");
  EXPECT_EQ(stack->told(), "");
  EXPECT_EQ(peer->heard(), "") << "a stream that has failed says nothing";
  EXPECT_EQ(counted("dropped"), 1U);
}

TEST_F(TcpModule, UnbindIsAnsweredWhenEverythingHasBeenAcknowledged) {
  open();
  peer->says(tcp_fin | tcp_ack);
  stack->send("last");
  stack->finish();
  EXPECT_EQ(stack->told(), "end");
  stack->unbind();
  EXPECT_EQ(stack->told(), "") << "the peer may not have it yet";
  stack->advance(2s);
  EXPECT_GT(counted("segments_again"), 0U);
  EXPECT_NE(peer->heard(), "");
  peer->says(tcp_ack);
  EXPECT_EQ(stack->told(), "flush, ok unbind");
  stack->bind();
}

TEST_F(TcpModule, UnbindDoesNotWaitForThePeersWhoMayBeLate) {
  open();
  release();  // and so in TIME-WAIT
  stack->unbind();
  EXPECT_EQ(stack->told(), "flush, ok unbind");
  EXPECT_EQ(stack->set().scheduler().next_deadline(), never) << "nothing of it is left";
}

TEST_F(TcpModule, UnbindOfAConnectionIsRefused) {
  open();
  stack->unbind();
  EXPECT_EQ(stack->told(), "refused unbind 6");
  expect_alive();
}

TEST_F(TcpModule, DisconnectWithoutAConnectionIsRefused) {
  TcpStack one;
  one.disconnect();
  EXPECT_EQ(one.told(), "refused disconnect 6");
  one.bind();
  one.disconnect();
  EXPECT_EQ(one.told(), "refused disconnect 6");
}

TEST_F(TcpModule, DisconnectOfAConnectTellsNobody) {
  TcpStack one;
  Peer other(one);
  one.bind();
  one.connect(other.address());
  EXPECT_EQ(other.heard(), "SYN");
  one.disconnect();
  EXPECT_EQ(one.told(), "ok connect, flush, ok disconnect");
  EXPECT_EQ(other.heard(), "");
  other.says(tcp_syn | tcp_ack);
  EXPECT_EQ(other.heard(), "RST") << "an answer that comes later is of no connection";
}

TEST_F(TcpModule, DisconnectResetsInEveryStateOfAConnection) {
  const std::function<void()> states[] = {[] {}, [&] { stack->finish(); }, [&] { peer->says(tcp_fin | tcp_ack); },
                                          [&] { stack->send("unacknowledged"); }};
  for (const auto& enter : states) {
    open();
    enter();
    static_cast<void>(peer->heard());
    static_cast<void>(stack->told());
    stack->disconnect();
    EXPECT_EQ(stack->told(), "flush, ok disconnect");
    EXPECT_EQ(peer->heard(), "RST");
    EXPECT_EQ(counted("aborted"), 1U);
    EXPECT_EQ(stack->set().scheduler().next_deadline(), never);
    stack->connect({there_v4, 10});
    EXPECT_EQ(stack->told(), "ok connect");
  }
}

TEST_F(TcpModule, AResetEndsTheConnection) {
  open();
  stack->send("lost");
  EXPECT_EQ(peer->heard(), "ACK lost");
  peer->says(tcp_rst);
  EXPECT_EQ(stack->told(), "flush, gone " + std::to_string(ECONNRESET));
  EXPECT_EQ(counted("resets"), 1U);
  stack->send("more");
  EXPECT_EQ(stack->told(), "") << "which has crossed it";
}

TEST_F(TcpModule, NoDelayIsAnOption) {
  open();
  const auto manage = [&](std::uint32_t value) {
    std::vector<std::byte> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    std::vector<std::byte> options;
    wire::xti::append(options,
                      {.level = wire::xti::T_INET_TCP, .name = wire::xti::T_TCP_NODELAY, .status = 0, .value = bytes});
    stack->down(proto(*stack, OptmgmtReq{.options = options, .flags = T_NEGOTIATE}));
    const Message answer = stack->head().take();
    EXPECT_EQ(OptmgmtAck::decode(answer.bytes())->flags, T_SUCCESS);
  };
  // RFC 9293 section 3.7.4: "If there is unacknowledged data [...] then the sending TCP endpoint buffers all user
  // data".
  stack->send("a");
  stack->send("b");
  EXPECT_EQ(peer->heard(), "ACK a");
  manage(wire::xti::T_YES);
  EXPECT_EQ(peer->heard(), "ACK b") << "what waits waits no longer";
  stack->send("c");
  EXPECT_EQ(peer->heard(), "ACK c");
  stack->send("d");
  EXPECT_EQ(peer->heard(), "ACK d");
  manage(wire::xti::T_NO);
  stack->send("e");
  EXPECT_EQ(peer->heard(), "");
}

/// What T_OPTMGMT_REQ with these options is answered: the outcome, and the options' values.
std::pair<std::int32_t, std::vector<std::uint32_t>> managed(TcpStack& stack, std::int32_t action, std::uint32_t level,
                                                            std::uint32_t name,
                                                            const std::vector<std::uint32_t>& value = {}) {
  const ConstBytes bytes = std::as_bytes(std::span(value));
  std::vector<std::byte> options;
  wire::xti::append(options, {.level = level, .name = name, .status = 0, .value = bytes});
  stack.down(proto(stack, OptmgmtReq{.options = options, .flags = action}));
  const Message answer = stack.head().take();
  const auto ack = OptmgmtAck::decode(answer.bytes());
  std::vector<std::uint32_t> told;
  wire::xti::OptionReader reader(ack->options);
  while (const auto option = reader.next()) {
    for (std::size_t at = 0; at + 4 <= option->value.size(); at += 4) {
      told.push_back(wire::load_word(option->value.data() + at));
    }
  }
  return {ack->flags, told};
}

using Told = std::vector<std::uint32_t>;

TEST_F(TcpModule, TheBuffersAreOptions) {
  using namespace wire::xti;
  TcpStack one(Tcp::Options{.receive_buffer_bytes = 10'000, .send_buffer_bytes = 20'000});
  EXPECT_EQ(managed(one, T_CURRENT, XTI_GENERIC, XTI_RCVBUF), std::pair(std::int32_t{T_SUCCESS}, Told{10'000}));
  EXPECT_EQ(managed(one, T_NEGOTIATE, XTI_GENERIC, XTI_RCVBUF, {30'000}),
            std::pair(std::int32_t{T_SUCCESS}, Told{30'000}));
  EXPECT_EQ(managed(one, T_NEGOTIATE, XTI_GENERIC, XTI_SNDBUF, {1}), std::pair(std::int32_t{T_PARTSUCCESS}, Told{4096}))
      << "negotiated to the lower limit";
  EXPECT_EQ(managed(one, T_CURRENT, XTI_GENERIC, XTI_SNDBUF).second, Told{4096});
  EXPECT_EQ(managed(one, T_DEFAULT, XTI_GENERIC, XTI_SNDBUF).second, Told{20'000});
  one.bind();
  Peer other(one);
  one.connect(other.address());
  const std::vector<Sent> sent = one.take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].segment.header.window, 30'000);
  other.expected = sent[0].segment.header.sequence + 1;
  other.options.segment_bytes_max = 1024;
  other.says(tcp_syn | tcp_ack);
  EXPECT_EQ(one.told(), "ok connect, confirmed");
  one.send(std::string(4096, 'x'));
  one.send("waits");
  EXPECT_EQ(other.read().size(), 4096U);
  EXPECT_EQ(managed(one, T_NEGOTIATE, XTI_GENERIC, XTI_SNDBUF, {9000}).first, T_SUCCESS);
  other.says(tcp_ack);
  EXPECT_EQ(other.read(), "waits");
}

TEST_F(TcpModule, ALargerSendBufferTakesWhatWaitsAtOnce) {
  open({.receive_buffer_bytes = 4096, .send_buffer_bytes = 4096});
  peer->window = 0;
  peer->says(tcp_ack);
  stack->send(std::string(4096, 'x'));
  stack->send("waits");
  EXPECT_EQ(stack->tcp().write_queue().messages(), 1U);
  EXPECT_EQ(managed(*stack, T_NEGOTIATE, wire::xti::XTI_GENERIC, wire::xti::XTI_SNDBUF, {9000}).first, T_SUCCESS);
  EXPECT_EQ(stack->tcp().write_queue().messages(), 0U);
}

TEST_F(TcpModule, TheLargestSegmentCanBeReadAndNotSet) {
  using namespace wire::xti;
  open();
  // RFC 9293 section 3.7.1: the peer has sent no MSS option.
  EXPECT_EQ(managed(*stack, T_CURRENT, T_INET_TCP, T_TCP_MAXSEG), std::pair(std::int32_t{T_SUCCESS}, Told{536}));
  for (const std::int32_t action : {T_NEGOTIATE, T_CHECK}) {
    EXPECT_EQ(managed(*stack, action, T_INET_TCP, T_TCP_MAXSEG, {100}), std::pair(std::int32_t{T_READONLY}, Told{100}));
  }
  TcpStack one;
  EXPECT_EQ(managed(one, T_CURRENT, T_INET_TCP, T_TCP_MAXSEG).second, Told{536});
  one.bind();
  Peer other(one);
  other.options.segment_bytes_max = 1400;
  one.connect(other.address());
  EXPECT_EQ(other.heard(), "SYN");
  other.says(tcp_syn | tcp_ack);
  EXPECT_EQ(one.told(), "ok connect, confirmed");
  EXPECT_EQ(managed(one, T_CURRENT, T_INET_TCP, T_TCP_MAXSEG).second, Told{1400});
  EXPECT_EQ(managed(one, T_NEGOTIATE, T_INET_TCP, T_ALLOPT).first, T_READONLY) << "the worst single result";
}

TEST_F(TcpModule, KeepAliveIsAnOptionOfTheStreamAndOfEachConnectionOfIt) {
  using namespace wire::xti;
  listen();
  EXPECT_EQ(managed(*stack, T_CURRENT, T_INET_TCP, T_TCP_KEEPALIVE).second, (Told{T_NO, 0})) << "MUST-25";
  EXPECT_EQ(managed(*stack, T_NEGOTIATE, T_INET_TCP, T_TCP_KEEPALIVE, {T_YES, 3}).first, T_SUCCESS);
  EXPECT_EQ(managed(*stack, T_CURRENT, T_INET_TCP, T_TCP_KEEPALIVE).second, (Told{T_YES, 3}));
  call(*peer);
  EXPECT_EQ(stack->told(), "called 1");
  stack->accept(1);
  EXPECT_EQ(stack->told(), "ok accept");
  stack->advance(180s);
  EXPECT_EQ(peer->heard(), "ACK");
  for (int i = 0; i < 8; ++i) {
    stack->advance(75s);
    EXPECT_EQ(peer->heard(), "ACK");
  }
  EXPECT_EQ(stack->told(), "");
  stack->advance(75s);
  EXPECT_EQ(stack->told(), "flush, gone " + std::to_string(ETIMEDOUT));
  EXPECT_EQ(peer->heard(), "");

  open();
  EXPECT_EQ(managed(*stack, T_NEGOTIATE, T_INET_TCP, T_TCP_KEEPALIVE, {T_YES, 1}).first, T_SUCCESS);
  stack->advance(60s);
  EXPECT_EQ(peer->heard(), "ACK");
  EXPECT_EQ(managed(*stack, T_NEGOTIATE, T_INET_TCP, T_TCP_KEEPALIVE, {T_NO, 0}).first, T_SUCCESS);
  EXPECT_EQ(stack->set().scheduler().next_deadline(), never);
}

// ---- Listening ----

TEST_F(TcpModule, ACallerIsIndicatedWhenHeHasAnsweredAndAcceptedOnTheSameStream) {
  listen();
  peer->says(tcp_syn);
  EXPECT_EQ(peer->heard(), "SYN+ACK");
  EXPECT_EQ(stack->told(), "");
  peer->says(tcp_ack, "early");
  EXPECT_EQ(stack->told(), "called 1");
  stack->accept(1);
  EXPECT_EQ(stack->told(), "ok accept, data early");
  stack->send("answer");
  EXPECT_EQ(peer->heard(), "ACK, ACK answer") << "his window has opened first";
}

/// Threat: callers whom nobody accepts would fill a receive buffer each.
TEST_F(TcpModule, ACallerMaySendLittleBeforeHeIsAccepted) {
  constexpr std::size_t most = Tcp::caller_receive_bytes_max;
  listen();
  peer->options.window_scale = 0;
  peer->says(tcp_syn);
  const std::vector<Sent> answer = stack->take_sent();
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].segment.header.window, most);
  const unsigned scale = answer[0].segment.options.window_scale.value_or(0);
  EXPECT_EQ(scale, 4U) << "that of the whole buffer";
  peer->expected = answer[0].segment.header.sequence + 1;
  const std::uint32_t begin = peer->next;
  for (std::size_t said = 0; said < 2 * most; said += 1024) {
    peer->says(tcp_ack, std::string(1024, 'q'));
  }
  EXPECT_EQ(stack->told(), "called 1");
  for (const Sent& sent : stack->take_sent()) {
    const std::uint32_t window = std::uint32_t{sent.segment.header.window} << scale;
    EXPECT_LE(sent.segment.header.acknowledgment + window - begin, most);
  }
  stack->accept(1);
  EXPECT_EQ(stack->told(), "ok accept, data " + std::string(most, 'q'));
  const std::vector<Sent> opened = stack->take_sent();
  ASSERT_FALSE(opened.empty());
  EXPECT_EQ(opened.back().segment.header.acknowledgment - begin, most);
  EXPECT_EQ(opened.back().segment.header.window << scale, 512 * 1024);
}

TEST_F(TcpModule, ACallerIsAcceptedOnAnotherStreamOfTheSameSet) {
  listen();
  TcpStack other(stack->set());
  call(*peer);
  EXPECT_EQ(stack->told(), "called 1");
  stack->accept(1, other.number());
  EXPECT_EQ(stack->told(), "ok accept");
  EXPECT_EQ(other.told(), "");
  const auto& filters = other.ip().filters_asked;
  ASSERT_EQ(filters.size(), 1U);
  Peer there(other);
  there.next = peer->next;
  there.expected = peer->expected;
  there.says(tcp_ack, "question");
  EXPECT_EQ(other.told(), "data question");
  other.send("answer");
  EXPECT_EQ(there.heard(), "ACK, ACK answer") << "his window has opened first";
  call(*std::make_unique<Peer>(*stack, TransportAddress{there_v4, 10}));
  EXPECT_EQ(stack->told(), "called 2") << "who listens goes on";
}

/// Until the driver knows of the acceptor, the listener gets what comes, and passes it on; what is to be sent waits.
TEST_F(TcpModule, SegmentsThatComeToTheListenerWhileTheAcceptorIsBoundAreNotLost) {
  listen();
  TcpStack other(stack->set());
  accept_unbound(other);
  peer->says(tcp_ack, "question");
  EXPECT_EQ(other.told(), "data question");
  EXPECT_EQ(peer->heard(), "");
  other.send("answer");
  other.up(proto(other, wire::dlpi::OkAck{wire::dlpi::DL_FILTER_REQ}, MessageType::ctl));
  other.advance(3s);
  Peer there(other);
  EXPECT_NE(there.heard().find("ACK answer"), std::string::npos);
  // Now that the driver knows, the listener is not asked any more: for it there is no such connection.
  peer->says(tcp_ack, "stray");
  EXPECT_EQ(peer->heard(), "RST");
}

/// A driver that refuses, or that says nothing since there is no memory, may give the listener what comes for longer.
TEST_F(TcpModule, WithoutAFilterTheListenerPassesOnUntilTheAcceptorGetsItsOwn) {
  for (const bool refuses : {true, false}) {
    SCOPED_TRACE(refuses ? "refused" : "silent");
    listen();
    TcpStack other(stack->set());
    accept_unbound(other);
    if (refuses) {
      other.up(proto(other, wire::dlpi::ErrorAck{wire::dlpi::DL_FILTER_REQ, wire::dlpi::DL_NOTSUPPORTED, 0},
                     MessageType::ctl));
    } else {
      other.advance(PortBinding::filter_answer_time_max);
    }
    peer->says(tcp_ack, "question");
    EXPECT_EQ(other.told(), "data question");
    EXPECT_EQ(peer->heard(), "") << "the acceptor answers";
    Peer there(other);
    there.next = peer->next;
    there.expected = peer->expected;
    there.says(tcp_ack, "another");
    EXPECT_EQ(other.told(), "data another");
    peer->says(tcp_ack, "stray");
    EXPECT_EQ(peer->heard(), "RST");
    ASSERT_TRUE(other.pop());
  }
}

/// RFC 3493 section 5.3: a port of [::] may be for IPv6 alone, and one of 0.0.0.0 is for IPv4.
TEST(TcpFamilies, AnUnspecifiedAddressTakesCallersOfItsFamilies) {
  struct Case {
    IpAddress address;
    bool v6_only;
    std::uint16_t sap;
    bool v4;
    bool v6;
  };
  for (const Case& one :
       {Case{Ipv4Address{}, false, wire::ethertype_ipv4, true, false}, Case{Ipv6Address{}, false, 0, true, true},
        Case{Ipv6Address{}, true, wire::ethertype_ipv6, false, true}}) {
    TcpStack stack;
    set_v6_only(stack, one.v6_only);
    stack.bind(1, {one.address, here_port});
    ASSERT_EQ(stack.ip().filters_asked.size(), 1U);
    EXPECT_EQ(stack.ip().filters_asked[0].sap, one.sap);
    for (const auto& [there, taken] : {std::pair(there_v4, one.v4), std::pair(there_v6, one.v6)}) {
      Peer peer(stack, {there, there_port});
      peer.says(tcp_syn);
      EXPECT_EQ(peer.heard(), taken ? "SYN+ACK" : "RST+ACK");
    }
  }
}

TEST_F(TcpModule, ResponsesThatCannotBe) {
  listen(2);
  TcpStack idle(stack->set());
  TcpStack listener(stack->set());
  listener.bind(1, {{}, 7001});
  TcpStack busy(stack->set());
  Peer of_busy(busy);
  busy.bind(0, {{}, 7002});
  busy.connect({there_v4, 11});
  EXPECT_EQ(busy.told(), "ok connect");
  std::uint32_t gone = 0;
  {
    const std::unique_ptr<TcpStack> passing = std::make_unique<TcpStack>(stack->set());
    gone = passing->number();
  }
  stack->accept(1, idle.number());
  EXPECT_EQ(stack->told(), "refused accept 6") << "nobody has called";
  call(*peer);
  Peer second(*stack, {there_v4, 10});
  call(second);
  EXPECT_EQ(stack->told(), "called 1, called 2");
  const std::pair<std::uint32_t, TliError> wrong[] = {{gone, TBADF},
                                                      {0, TBADF},
                                                      {idle.ip().number(), TPROVMISMATCH},
                                                      {stack->number(), TINDOUT},
                                                      {listener.number(), TRESQLEN},
                                                      {busy.number(), TOUTSTATE}};
  for (const auto& [acceptor, error] : wrong) {
    stack->accept(1, acceptor);
    EXPECT_EQ(stack->told(), "refused accept " + std::to_string(error));
  }
  stack->accept(3, idle.number());
  EXPECT_EQ(stack->told(), "refused accept " + std::to_string(TBADSEQ));
  stack->disconnect();
  EXPECT_EQ(stack->told(), "refused disconnect " + std::to_string(TBADSEQ)) << "which of the two?";
  EXPECT_TRUE(stack->take_sent().empty());
  stack->accept(2, idle.number());
  EXPECT_EQ(stack->told(), "ok accept");
  stack->accept(1);
  EXPECT_EQ(stack->told(), "ok accept") << "nothing of this has done them harm";
}

TEST_F(TcpModule, ACallerThatIsRejectedIsReset) {
  listen(2);
  Peer second(*stack, {there_v4, 10});
  call(*peer);
  call(second);
  EXPECT_EQ(stack->told(), "called 1, called 2");
  stack->disconnect(2);
  EXPECT_EQ(stack->told(), "ok disconnect");
  EXPECT_EQ(second.heard(), "RST");
  stack->accept(1);
  EXPECT_EQ(stack->told(), "ok accept");
  EXPECT_EQ(counted("rejected"), 1U);
}

TEST_F(TcpModule, ACallerThatHasGoneIsTakenBack) {
  listen();
  call(*peer);
  peer->says(tcp_rst);
  EXPECT_EQ(stack->told(), "called 1, gone " + std::to_string(ECONNRESET) + " of 1");
  EXPECT_EQ(counted("withdrawn"), 1U);
  stack->accept(1);
  EXPECT_EQ(stack->told(), "refused accept 6");
}

TEST_F(TcpModule, CallersThatWaitAreResetWhenTheStreamIsUnbound) {
  listen();
  call(*peer);
  Peer second(*stack, {there_v4, 10});
  call(second);
  EXPECT_EQ(stack->told(), "called 1") << "one may be outstanding, the other waits";
  stack->disconnect(1);
  EXPECT_EQ(peer->heard(), "RST");
  EXPECT_EQ(stack->told(), "ok disconnect, called 2");
  Peer third(*stack, {there_v4, 11});
  call(third);
  stack->disconnect(2);
  stack->disconnect(3);
  EXPECT_EQ(stack->told(), "ok disconnect, called 3, ok disconnect");
  Peer fourth(*stack, {there_v4, 12});
  fourth.says(tcp_syn);
  EXPECT_EQ(fourth.heard(), "SYN+ACK");
  stack->unbind();
  EXPECT_EQ(fourth.heard(), "RST");
  EXPECT_EQ(stack->told(), "flush, ok unbind");
}

// ---- Attacks ----

/// The threat: SYNs from thousands of addresses, none of which ever answers, would fill the memory, and keep those out
/// that mean it.
TEST_F(TcpModule, AFloodOfSynsIsBoundedAndWhoAnswersGetsThrough) {
  listen(4);
  std::uint64_t buffers = 0;
  for (unsigned i = 0; i < 5000; ++i) {
    const Ipv4Address from{{10, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)}};
    Peer one(*stack, {from, static_cast<std::uint16_t>(1024 + i)});
    one.says(tcp_syn);
    EXPECT_EQ(one.heard(), "SYN+ACK");
    if (i == 100) {
      buffers = stack->pool().statistics().buffers_in_use;
    }
    if (i == 2500) {
      call(*peer);
      EXPECT_EQ(stack->told(), "called 1");
    }
  }
  EXPECT_LE(stack->pool().statistics().buffers_in_use, buffers + 8) << "tcp_cookie_test.cc has more of this";
  EXPECT_EQ(counted("callers_dropped"), 0U);
  stack->advance(1s);
  EXPECT_LE(stack->take_sent().size(), Tcp::half_open_min) << "what repeats its answer is bounded, too";
  stack->accept(1);
  EXPECT_EQ(stack->told(), "ok accept");
  expect_alive();
}

/// The threat: callers that do answer fill what there is for them; then nobody else gets in, until the user has dealt
/// with one, and nothing grows.
TEST_F(TcpModule, CallersThatAnswerAreBoundedToo) {
  listen(2);
  for (std::uint16_t i = 0; i < 10; ++i) {
    Peer one(*stack, {there_v4, static_cast<std::uint16_t>(2000 + i)});
    one.says(tcp_syn);
    EXPECT_EQ(one.heard(), i < 4 ? "SYN+ACK" : "");
    if (i < 4) {
      one.says(tcp_ack);
    }
  }
  EXPECT_EQ(stack->told(), "called 1, called 2");
  EXPECT_EQ(counted("callers_dropped"), 6U);
  stack->disconnect(1);
  EXPECT_EQ(stack->told(), "ok disconnect, called 3");
  peer->says(tcp_syn);
  EXPECT_NE(peer->heard(), "");
}

/// The threat: a reset in the name of the peer, from one who does not see the segments. RFC 5961 section 3.2.
TEST_F(TcpModule, BlindResetsAreQuestioned) {
  open();
  for (const std::uint32_t off : {1U, 1000U, 60'000U}) {
    peer->forged(tcp_rst, off);
    EXPECT_EQ(peer->heard(), "ACK") << off;
  }
  for (const std::uint32_t off : {~0U, 0x4000'0000U, 0x8000'0000U}) {
    peer->forged(tcp_rst, off);
    EXPECT_EQ(peer->heard(), "") << off;
  }
  EXPECT_EQ(counted("challenges"), 3U);
  EXPECT_EQ(stack->told(), "");
  expect_alive();
}

/// The threat: a SYN in the name of the peer. RFC 5961 section 4.2: "irrespective of the sequence number, TCP MUST send
/// an ACK"; the peer that has lost the connection answers that with a reset which counts.
TEST_F(TcpModule, BlindSynsAreQuestionedAndNotTooOften) {
  open();
  for (std::uint32_t i = 0; i < 100; ++i) {
    peer->forged(tcp_syn, i * 40'000'000U);
  }
  EXPECT_EQ(stack->take_sent().size(), tcp::Connection::challenges_max);
  EXPECT_EQ(counted("challenges"), tcp::Connection::challenges_max);
  EXPECT_EQ(stack->told(), "");
  expect_alive();
}

/// The threat: acknowledgements of what was never sent, and data with them. RFC 5961 section 5.2.
TEST_F(TcpModule, BlindAcknowledgementsAreQuestionedAndTheirDataIsDropped) {
  open();
  stack->send("under way");
  EXPECT_EQ(peer->heard(), "ACK under way");
  peer->forged(tcp_ack, 0, 1000, "forged");
  peer->forged(tcp_ack, 0, 0x8000'0000U, "forged");
  EXPECT_EQ(peer->heard(), "ACK, ACK");
  EXPECT_EQ(stack->told(), "");
  stack->advance(2s);
  EXPECT_NE(peer->heard().find("under way"), std::string::npos) << "it is still owed";
  expect_alive();
}

/// The threat: an ICMP error in the name of a router. RFC 5927 section 4.1: what it quotes must be under way.
TEST_F(TcpModule, ErrorsThatQuoteWhatIsNotUnderWayAreDropped) {
  open();
  stack->send("under way");
  const std::uint32_t first = peer->expected;
  EXPECT_EQ(peer->heard(), "ACK under way");
  for (const std::uint32_t sequence : {first - 1, peer->expected, first + 0x8000'0000U}) {
    stack->fails(peer->address(), peer->quote_at(sequence), EMSGSIZE, 100);
  }
  stack->fails({there_v4, 10}, Peer(*stack, {there_v4, 10}).quote_at(first), EMSGSIZE, 100);
  EXPECT_EQ(counted("foreign_error"), 4U);
  EXPECT_EQ(counted("errors"), 0U);
  stack->fails(peer->address(), peer->quote_at(first).substr(0, 7), EMSGSIZE, 100);
  EXPECT_EQ(counted("malformed"), 1U) << "too little to tell";
  EXPECT_EQ(peer->heard(), "") << "nothing is sent again for that";
}

TEST_F(TcpModule, WhatIsTooLargeForThePathIsSentAgainInSmallerSegments) {
  TcpStack one;
  Peer other(one);
  other.options.segment_bytes_max = 1460;
  one.bind();
  one.connect(other.address());
  EXPECT_EQ(other.heard(), "SYN");
  other.says(tcp_syn | tcp_ack);
  static_cast<void>(other.heard());
  const std::uint32_t first = other.expected;
  one.send(std::string(1400, 'x'));
  ASSERT_EQ(one.take_sent().at(0).text.size(), 1400U);
  one.fails(other.address(), other.quote_at(first), EMSGSIZE, 540);
  const std::vector<Sent> again = one.take_sent();
  ASSERT_FALSE(again.empty());
  for (const Sent& sent : again) {
    EXPECT_LE(sent.text.size(), 500U);
  }
  EXPECT_EQ(again[0].segment.header.sequence, first);
  EXPECT_EQ(one.counted("errors"), 1U);
}

/// The threat: an MTU too small to be one would make each byte a segment.
TEST_F(TcpModule, AnMtuThatNoPathHasShrinksNoFurtherThanTheLeast) {
  open();
  const std::uint32_t first = peer->expected;
  stack->send(std::string(500, 'x'));
  static_cast<void>(stack->take_sent());
  for (const std::uint32_t mtu : {0U, 1U, 41U}) {
    stack->fails(peer->address(), peer->quote_at(first), EMSGSIZE, mtu);
  }
  const std::vector<Sent> again = stack->take_sent();
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again[0].text.size(), tcp::Connection::segment_bytes_min);
}

// RFC 5461: an error ends what is being opened, and nothing else.
TEST_F(TcpModule, ErrorsEndOnlyWhatIsBeingOpened) {
  open();
  const std::uint32_t first = peer->expected;
  stack->send("under way");
  stack->fails(peer->address(), peer->quote_at(first), EHOSTUNREACH);
  stack->fails(peer->address(), peer->quote_at(first), ECONNREFUSED);
  EXPECT_EQ(counted("errors"), 2U);
  EXPECT_EQ(stack->told(), "");
  expect_alive();

  TcpStack opening;
  Peer other(opening);
  opening.bind();
  opening.connect(other.address());
  EXPECT_EQ(other.heard(), "SYN");
  opening.fails(other.address(), other.quote_at(other.expected), EHOSTUNREACH);
  EXPECT_EQ(opening.counted("foreign_error"), 1U);
  opening.fails(other.address(), other.quote_at(other.expected - 1), EHOSTUNREACH);
  EXPECT_EQ(opening.told(), "ok connect, gone " + std::to_string(EHOSTUNREACH));
}

/// It is the caller who opens: an answer to him that was lost comes again.
TEST_F(TcpModule, AnErrorAboutACallerDoesNotEndHim) {
  listen();
  peer->says(tcp_syn);
  EXPECT_EQ(peer->heard(), "SYN+ACK");
  stack->fails(peer->address(), peer->quote_at(peer->expected - 1), EHOSTUNREACH);
  EXPECT_EQ(stack->told(), "");
  peer->says(tcp_ack);
  EXPECT_EQ(peer->heard(), "");
  EXPECT_EQ(stack->told(), "called 1");
}

/// This host lacks memory for a moment: what was not sent is lost like any segment, and comes again.
TEST_F(TcpModule, AShortageBelowDoesNotEndWhatIsBeingOpened) {
  TcpStack one;
  Peer other(one);
  one.bind();
  one.connect(other.address());
  EXPECT_EQ(other.heard(), "SYN");
  one.fails(other.address(), other.quote_at(other.expected - 1), ENOBUFS);
  EXPECT_EQ(one.told(), "ok connect");
  one.advance(2s);
  EXPECT_EQ(other.heard(), "SYN");
}

// RFC 9293 section 3.9.2.3: "A TCP implementation MUST silently discard an incoming SYN segment that is addressed to a
// broadcast or multicast address (MUST-57)".
TEST_F(TcpModule, SegmentsToAGroupAreDroppedInSilence) {
  listen();
  peer->arrives(peer->bytes_of(tcp_syn), /*group=*/true);
  peer->arrives(peer->bytes_of(tcp_ack), /*group=*/true);
  EXPECT_TRUE(stack->take_sent().empty());
  EXPECT_EQ(counted("malformed"), 2U);
}

TEST_F(TcpModule, SegmentsThatLieAreDroppedEachCounted) {
  open();
  std::string damaged = peer->bytes_of(tcp_ack, "damaged");
  damaged.back() ^= 1;
  peer->arrives(damaged);
  EXPECT_EQ(counted("bad_checksum"), 1U);
  peer->arrives("");
  peer->arrives(peer->bytes_of(tcp_ack).substr(0, 19));
  EXPECT_EQ(counted("short_header"), 2U);
  // The data offset lies, and the checksum holds.
  for (const unsigned words : {0U, 4U, 6U, 15U}) {
    std::string lying = peer->bytes_of(tcp_ack);
    std::uint16_t before = 0;
    std::memcpy(&before, lying.data() + 12, sizeof before);
    lying[12] = static_cast<char>(words << 4);
    std::uint16_t after = 0;
    std::memcpy(&after, lying.data() + 12, sizeof after);
    std::uint16_t field = 0;
    std::memcpy(&field, lying.data() + wire::TcpHeader::checksum_offset, sizeof field);
    // RFC 1624: HC' = ~(~HC + ~m + m')
    const std::uint16_t sum =
        add_sums(add_sums(static_cast<std::uint16_t>(~field), static_cast<std::uint16_t>(~before)), after);
    field = static_cast<std::uint16_t>(~sum);
    std::memcpy(lying.data() + wire::TcpHeader::checksum_offset, &field, sizeof field);
    peer->arrives(lying);
  }
  EXPECT_EQ(counted("short_header"), 6U);
  EXPECT_EQ(counted("bad_checksum"), 1U);
  EXPECT_EQ(peer->heard(), "");
  EXPECT_EQ(stack->told(), "");
  expect_alive();
}

// ---- Segments of no connection ----

// RFC 9293 section 3.5.2, group 1.
TEST_F(TcpModule, AnUnboundStreamAnswersWithAReset) {
  TcpStack one;
  Peer other(one);
  other.expected = 4711;
  other.says(tcp_ack, "stray");
  other.says(tcp_syn, "and data");
  const std::vector<Sent> sent = one.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].segment.header.flags, tcp_rst);
  EXPECT_EQ(sent[0].segment.header.sequence, 4711U);
  EXPECT_EQ(sent[0].request.peer, other.address().address);
  EXPECT_EQ(sent[0].request.local, here_v4);
  EXPECT_EQ(sent[1].segment.header.flags, tcp_rst | tcp_ack);
  EXPECT_EQ(sent[1].segment.header.acknowledgment, other.next) << "the SYN, and each byte";
  EXPECT_EQ(one.counted("resets_sent"), 2U);
}

/// The threat: two hosts that answer each other's resets for ever.
TEST_F(TcpModule, AResetIsNeverAnswered) {
  TcpStack one;
  Peer other(one);
  other.says(tcp_rst);
  other.says(tcp_rst | tcp_ack);
  other.says(tcp_rst | tcp_syn, "x");
  EXPECT_TRUE(one.take_sent().empty());
  EXPECT_EQ(one.counted("no_connection"), 3U);
}

TEST_F(TcpModule, ABoundStreamAnswersForItsOwnPortOnly) {
  TcpStack one;
  one.bind();
  Peer(one).says(tcp_syn);
  EXPECT_EQ(one.take_sent().size(), 1U);
  Peer(one, {there_v4, there_port}, here_port + 1).says(tcp_syn);
  EXPECT_TRUE(one.take_sent().empty());
  EXPECT_EQ(one.counted("no_connection"), 1U);
}

/// The threat: what a listener answers to others than SYNs would tell of its state, or be a connection.
TEST_F(TcpModule, AListenerAnswersWhatIsNoSynWithAReset) {
  listen();
  for (const std::uint8_t flags : {tcp_ack, tcp_fin, static_cast<wire::TcpFlag>(tcp_syn | tcp_fin),
                                   static_cast<wire::TcpFlag>(tcp_syn | tcp_ack), static_cast<wire::TcpFlag>(0)}) {
    Peer(*stack).says(flags);
    EXPECT_EQ(stack->take_sent().size(), 1U);
  }
  EXPECT_EQ(counted("resets_sent"), 5U);
  Peer(*stack, {there_v4, there_port}, here_port + 1).says(tcp_syn);
  EXPECT_TRUE(stack->take_sent().empty()) << "another port";
  EXPECT_EQ(stack->told(), "");
}

// ---- What comes together ----

TEST_F(TcpModule, WhatComesInOneBatchGoesUpAndIsAcknowledgedTogether) {
  open();
  Batch batch;
  std::string all;
  for (int i = 0; i < 5; ++i) {
    const std::string text(1000, static_cast<char>('a' + i));
    peer->says(batch, tcp_ack, text);
    all += text;
  }
  stack->up(std::move(batch));
  EXPECT_EQ(peer->heard(), "ACK");
  ASSERT_EQ(stack->head().count(), 1U) << "one T_DATA_IND";
  EXPECT_TRUE(stack->told() == "data " + all);
}

TEST_F(TcpModule, EachConnectionOfABatchIsAttendedTo) {
  listen(2);
  Peer second(*stack, {there_v4, 10});
  Batch batch;
  peer->says(batch, tcp_syn);
  second.says(batch, tcp_syn);
  stack->up(std::move(batch));
  std::vector<Sent> sent = stack->take_sent();
  ASSERT_EQ(sent.size(), 2U);
  peer->expected = sent[0].segment.header.sequence + 1;
  second.expected = sent[1].segment.header.sequence + 1;
  peer->says(batch, tcp_ack);
  second.says(batch, tcp_ack);
  peer->says(batch, tcp_ack, "one");
  second.says(batch, tcp_ack, "two");
  second.says(batch, tcp_ack | tcp_fin);
  stack->up(std::move(batch));
  EXPECT_EQ(stack->told(), "called 1, called 2");
  EXPECT_EQ(stack->take_sent().size(), 1U) << "of the end";
  stack->accept(2);
  EXPECT_EQ(stack->told(), "refused accept 24") << "another is outstanding";
  stack->disconnect(1);
  EXPECT_EQ(stack->told(), "ok disconnect");
  stack->accept(2);
  EXPECT_EQ(stack->told(), "ok accept, data two, end");
}

/// A reset drops what its connection has not passed up: of what came before it nothing may be lost by coming with it.
TEST_F(TcpModule, DataThatComesWithAResetGoesUpBeforeIt) {
  open();
  Batch batch;
  peer->says(batch, tcp_ack, "last words");
  peer->says(batch, tcp_rst);
  peer->says(batch, tcp_ack, "of nobody");
  stack->up(std::move(batch));
  EXPECT_EQ(stack->told(), "data last words, flush, gone " + std::to_string(ECONNRESET));
  EXPECT_EQ(peer->heard(), "RST") << "what comes behind is of no connection";
}

/// What goes down may be answered before the call is over: what comes so is attended to, and nobody is forgotten.
TEST_F(TcpModule, WhatAnswersABatchBeforeItsEndIsAttendedToAsWell) {
  open();
  Batch batch;
  peer->says(batch, tcp_ack, "a");
  peer->says(batch, tcp_ack, "b");
  stack->ip().when_passed = [&] {
    peer->says(tcp_ack, "c");
    peer->says(tcp_ack, "d");
  };
  stack->up(std::move(batch));
  EXPECT_EQ(stack->told(), "data abcd");
  EXPECT_EQ(peer->heard(), "ACK, ACK");
}

// ---- Flow control ----

TEST_F(TcpModule, WhileTheStreamAboveIsFullTheWindowCloses) {
  open({.receive_buffer_bytes = 4096, .send_buffer_bytes = 4096});
  stack->head().hold();
  std::string all;
  for (std::uint16_t window = 4096; window > 0;) {
    ASSERT_LT(all.size(), 10'000U);
    const std::string text(64, static_cast<char>('a' + all.size() / 64 % 26));
    peer->says(tcp_ack | tcp_psh, text);
    all += text;
    stack->advance(tcp::Connection::acknowledgement_delay);
    window = stack->take_sent().at(0).segment.header.window;
  }
  EXPECT_EQ(all.size(), 4096U) << "what was offered, and no more";
  peer->forged(tcp_ack, 0, 0, "!");
  EXPECT_EQ(counted("unacceptable"), 1U);
  stack->head().release();
  static_cast<void>(stack->take_sent());
  stack->advance(1ms);
  EXPECT_TRUE(stack->told() == "data " + all);
  const std::vector<Sent> sent = stack->take_sent();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().segment.header.window, 4096U);
  expect_alive();
}

/// The peer may answer the window that opens before the call that says so is over: what it sends then comes behind.
TEST_F(TcpModule, AResetThatAnswersTheOpeningWindowComesBehindTheData) {
  open({.receive_buffer_bytes = 4096, .send_buffer_bytes = 4096});
  stack->head().hold();
  peer->says(tcp_ack, "held");
  peer->says(tcp_ack, std::string(4000, 'x'));
  stack->head().release();
  static_cast<void>(stack->take_sent());
  stack->ip().when_passed = [&] { peer->says(tcp_rst); };
  stack->advance(1ms);
  EXPECT_EQ(stack->told(), "data held" + std::string(4000, 'x') + ", flush, gone " + std::to_string(ECONNRESET));
}

TEST_F(TcpModule, AnEndThatComesToAFullStreamWaitsBehindTheData) {
  open();
  stack->head().hold();
  peer->says(tcp_ack, "one ");
  peer->says(tcp_ack, "two ");
  peer->says(tcp_fin | tcp_ack, "three");
  stack->head().release();
  stack->advance(1ms);
  EXPECT_EQ(stack->told(), "data one two three, end");
}

TEST_F(TcpModule, WhatTheBufferHasNoRoomForWaitsAndStopsWhoSends) {
  open({.receive_buffer_bytes = 4096, .send_buffer_bytes = 4096});
  std::string all;
  while (stack->can_write() && all.size() < 10'000'000) {
    const std::string text(4000, static_cast<char>('a' + all.size() / 4000 % 26));
    stack->send(text);
    all += text;
  }
  EXPECT_LT(all.size(), 600'000U) << "bounded by the write queue";
  std::string arrived;
  for (int round = 0; round < 100'000 && arrived.size() < all.size(); ++round) {
    arrived += peer->read();
    peer->says(tcp_ack);
    stack->run();
  }
  EXPECT_TRUE(arrived == all);
  EXPECT_TRUE(stack->can_write());
  EXPECT_EQ(counted("segments_again"), 0U);
}

/// An end that is asked for while data waits goes behind it.
TEST_F(TcpModule, AReleaseGoesBehindWhatWaits) {
  open({.receive_buffer_bytes = 4096, .send_buffer_bytes = 4096});
  peer->window = 100;
  peer->says(tcp_ack);
  std::string all;
  for (int i = 0; i < 10; ++i) {
    const std::string text(1000, static_cast<char>('0' + i));
    stack->send(text);
    all += text;
  }
  stack->finish();
  peer->window = 60'000;
  std::string arrived;
  for (int round = 0; round < 200 && !peer->ended; ++round) {
    arrived += peer->read();
    peer->says(tcp_ack);
  }
  EXPECT_TRUE(peer->ended);
  EXPECT_TRUE(arrived == all);
}

TEST_F(TcpModule, AFlushDropsWhatWaitsAndNotWhatTcpHasTaken) {
  open({.receive_buffer_bytes = 4096, .send_buffer_bytes = 4096});
  peer->window = 0;
  peer->says(tcp_ack);
  stack->send(std::string(4096, 'x'));
  stack->send("waits");
  stack->down(flush(*stack, flush_write));
  EXPECT_EQ(stack->told(), "");
  const Message passed = stack->driver().take();
  EXPECT_EQ(passed.type(), MessageType::flush) << "it goes on to those below";
  peer->window = 60'000;
  std::string arrived;
  for (int round = 0; round < 20; ++round) {
    peer->says(tcp_ack);
    stack->advance(1s);
    arrived += peer->read();
  }
  EXPECT_TRUE(arrived == std::string(4096, 'x'));
}

TEST_F(TcpModule, WhatCameWhileThePoolWasExhaustedGoesUpWhenThereIsMemory) {
  open();
  bool exhausted = false;
  stack->pool().fail_when([&] { return exhausted; });
  Message message = stack->indication(there_v4, here_v4, peer->bytes_of(tcp_ack | tcp_psh, "kept"));
  exhausted = true;
  stack->up(std::move(message));
  exhausted = false;
  EXPECT_EQ(stack->told(), "");
  stack->advance(2ms);
  EXPECT_EQ(stack->told(), "data kept");
  stack->pool().fail_when(nullptr);
}

// ---- Closing in the middle ----

/// A stream that goes resets what it leaves, so that nobody waits for it, or takes the part for the whole.
TEST_F(TcpModule, WhoIsPoppedInTheMiddleOfEverythingResets) {
  const std::pair<std::function<void()>, const char*> cases[] = {
      {[&] { stack->send("unacknowledged"); }, "RST"},
      {[&] { stack->finish(); }, "RST"},
      {[&] { peer->says(tcp_ack | tcp_fin); }, "RST"},
      {[&] { stack->head().hold(), peer->says(tcp_ack, "unread"); }, "RST"},
      {[&] {  // both have been released, and the rest cannot leave
         peer->window = 0;
         peer->says(tcp_fin | tcp_ack);
         stack->send("the rest");
         stack->finish();
       },
       "RST"},
      {[&] { release(); }, ""},
  };
  for (int number = 0; const auto& [enter, heard] : cases) {
    open();
    enter();
    static_cast<void>(peer->heard());
    ASSERT_TRUE(stack->pop());
    EXPECT_EQ(peer->heard(), heard) << "case " << number;
    ++number;
    EXPECT_EQ(stack->set().scheduler().next_deadline(), never);
  }
}

TEST_F(TcpModule, CallersOfAListenerThatIsPoppedAreReset) {
  listen(2);
  call(*peer);
  Peer second(*stack, {there_v4, 10});
  second.says(tcp_syn);
  EXPECT_EQ(second.heard(), "SYN+ACK");
  ASSERT_TRUE(stack->pop());
  EXPECT_EQ(stack->take_sent().size(), 2U);
  EXPECT_EQ(stack->set().scheduler().next_deadline(), never);
}

TEST_F(TcpModule, TheAcceptorOrTheListenerIsPoppedBetweenAcceptanceAndBinding) {
  for (const bool listener_goes : {false, true}) {
    listen();
    TcpStack other(stack->set());
    accept_unbound(other);
    ASSERT_TRUE((listener_goes ? *stack : other).pop());
    if (listener_goes) {
      other.up(proto(other, wire::dlpi::OkAck{wire::dlpi::DL_FILTER_REQ}, MessageType::ctl));
      other.send("on its own");
      EXPECT_EQ(Peer(other).heard(), "ACK on its own");
    } else {
      static_cast<void>(stack->take_sent());
      peer->says(tcp_ack, "stray");
      EXPECT_EQ(peer->heard(), "RST");
    }
  }
}

}  // namespace
}  // namespace sluice::test::tcp_stack
