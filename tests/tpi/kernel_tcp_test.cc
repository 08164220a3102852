// SPDX-License-Identifier: Apache-2.0
// kernel_tcp against sockets of the kernel and against itself: binding, connecting, accepting, data with contents
// checked, both kinds of release in each state, full and empty sockets, and each system call failing.
#include "tpi/kernel_tcp.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/wire/options.h"
#include "tests/tpi/tcp_endpoint.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;

std::string random_text(std::size_t size, std::uint64_t seed) {
  Prng prng(seed);
  std::string text(size, '\0');
  for (char& one : text) {
    one = static_cast<char>(prng());
  }
  return text;
}

class KernelTcpTest : public testing::Test {
 protected:
  template <class Predicate>
  [[nodiscard]] bool run_until(Predicate predicate) const {
    return loop->run_until(predicate, loop->now() + std::chrono::seconds(20));
  }
  [[nodiscard]] bool run_until_waits(TcpEndpoint& endpoint, std::int32_t primitive) const {
    return run_until([&] { return endpoint.waits(primitive); });
  }
  /// Lets the loop work until nothing has happened for a while; answers how many rounds did something.
  int run_until_quiet() const {
    int rounds = 0;
    while (rounds < 10000 && loop->wait(loop->now() + std::chrono::milliseconds(50))) {
      ++rounds;
    }
    return rounds;
  }
  void one_round() const { static_cast<void>(loop->wait(loop->now())); }
  /// `endpoint` is connected to the answer.
  Peer connected(TcpEndpoint& endpoint) const {
    Peer listener;
    const wire::TransportAddress to = listener.listen();
    EXPECT_EQ(endpoint.bind("127.0.0.1:0"), 0);
    endpoint.connect(to);
    EXPECT_EQ(endpoint.expect<OkAck>().correct_primitive, T_CONN_REQ);
    EXPECT_TRUE(run_until_waits(endpoint, T_CONN_CON));
    EXPECT_EQ(wire::TransportAddress::decode(endpoint.expect<ConnCon>().address), to);
    return listener.accept();
  }
  std::string collect(TcpEndpoint& endpoint, std::size_t size) const {
    std::string all;
    EXPECT_TRUE(run_until([&] {
      all += endpoint.data();
      return all.size() >= size;
    }));
    return all;
  }
  std::string collect(Peer& peer, std::size_t size) const {
    std::string all;
    EXPECT_TRUE(run_until([&] {
      one_round();
      all += peer.take();
      return all.size() >= size || peer.ended || peer.error != 0;
    }));
    return all;
  }

  /// `endpoint`, which is idle, connects to `listener`, which is bound to `to`, and data crosses.
  void connects_again(TcpEndpoint& endpoint, const wire::TransportAddress& to, Peer& listener) const {
    endpoint.connect(to);
    EXPECT_EQ(endpoint.expect<OkAck>().correct_primitive, T_CONN_REQ);
    ASSERT_TRUE(run_until_waits(endpoint, T_CONN_CON));
    endpoint.expect<ConnCon>();
    Peer peer = listener.accept();
    endpoint.send("again");
    EXPECT_EQ(collect(peer, 5), "again");
  }

  StreamSet set;
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
};

TEST_F(KernelTcpTest, BytesCrossBothWaysAndBothSidesRelease) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  EXPECT_EQ(endpoint.state(), TS_DATA_XFER);
  endpoint.send("hello");
  EXPECT_EQ(collect(peer, 5), "hello");
  peer.send("world");
  EXPECT_EQ(collect(endpoint, 5), "world");
  endpoint.put(OrdrelReq{});
  EXPECT_EQ(endpoint.state(), TS_WIND_ORDREL);
  EXPECT_EQ(collect(peer, 1), "");
  EXPECT_TRUE(peer.ended);
  peer.send("half closed");
  EXPECT_EQ(collect(endpoint, 11), "half closed");
  peer.close();
  ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
  endpoint.expect<OrdrelInd>();
  EXPECT_EQ(endpoint.state(), TS_IDLE);
  EXPECT_TRUE(set.sources().empty());
}

TEST_F(KernelTcpTest, ThePeerReleasesFirst) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  peer.end();
  ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
  endpoint.expect<OrdrelInd>();
  EXPECT_EQ(endpoint.state(), TS_WREQ_ORDREL);
  EXPECT_LT(run_until_quiet(), 20) << "the end, which stays readable, keeps nobody busy";
  endpoint.send("after");
  endpoint.put(OrdrelReq{});
  EXPECT_EQ(endpoint.state(), TS_IDLE);
  EXPECT_EQ(collect(peer, 6), "after");
  EXPECT_TRUE(peer.ended);
}

TEST_F(KernelTcpTest, AnEndpointConnectsAgainAfterARelease) {
  TcpEndpoint endpoint(set);
  Peer second;
  const wire::TransportAddress to = second.listen();  // now, so that it is not given the port that is released
  {
    Peer peer = connected(endpoint);
  }
  ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
  endpoint.expect<OrdrelInd>();
  endpoint.put(OrdrelReq{});
  connects_again(endpoint, to, second);
}

/// Who releases first keeps the pair of addresses for a while (RFC 9293, section 3.3.2: TIME-WAIT); that is no reason
/// to refuse a connection from the same address to another.
TEST_F(KernelTcpTest, AnEndpointThatReleasedFirstConnectsAgain) {
  TcpEndpoint endpoint(set);
  Peer second;
  const wire::TransportAddress to = second.listen();
  {
    Peer peer = connected(endpoint);
    endpoint.put(OrdrelReq{});
    EXPECT_EQ(collect(peer, 1), "");
  }
  ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
  endpoint.expect<OrdrelInd>();
  connects_again(endpoint, to, second);
}

TEST_F(KernelTcpTest, SaysWhatItIsAndItsAddresses) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  endpoint.put(AddrReq{});
  const auto addresses = endpoint.expect<AddrAck>();
  EXPECT_EQ(wire::TransportAddress::decode(addresses.local), endpoint.local);
  EXPECT_FALSE(addresses.remote.empty());
  endpoint.put(InfoReq{});
  const InfoAck info = endpoint.expect<InfoAck>();
  EXPECT_EQ(info.serv_type, T_COTS_ORD);
  EXPECT_EQ(info.tsdu_size, 0);
  EXPECT_EQ(info.etsdu_size, T_INVALID);
  EXPECT_EQ(info.addr_size, 20);
  EXPECT_EQ(info.provider_flag, XPG4_1);
}

TEST_F(KernelTcpTest, BusyAndForeignAddresses) {
  TcpEndpoint first(set);
  ASSERT_EQ(first.bind("127.0.0.1:0"), 0);
  TcpEndpoint second(set);
  EXPECT_EQ(second.bind(first.local.to_text()), TADDRBUSY);
  EXPECT_EQ(second.bind("192.0.2.1:0"), TBADADDR);
  EXPECT_EQ(second.bind("127.0.0.1:0", 3), 0);
  TcpEndpoint third(set);
  EXPECT_EQ(third.bind(second.local.to_text(), 1), TADDRBUSY);
  first.put(UnbindReq{});
  EXPECT_EQ(first.expect<OkAck>().correct_primitive, T_UNBIND_REQ);
  EXPECT_EQ(third.bind(first.local.to_text()), 0);
}

TEST_F(KernelTcpTest, ARefusedConnectionIsTold) {
  TcpEndpoint endpoint(set);
  ASSERT_EQ(endpoint.bind("127.0.0.1:0"), 0);
  wire::TransportAddress closed;
  {
    Peer gone;
    closed = gone.listen();
  }
  endpoint.connect(closed);
  EXPECT_EQ(endpoint.expect<OkAck>().correct_primitive, T_CONN_REQ);
  ASSERT_TRUE(run_until_waits(endpoint, T_DISCON_IND));
  EXPECT_EQ(endpoint.expect<DisconInd>(), (DisconInd{.reason = ECONNREFUSED}));
  EXPECT_EQ(endpoint.state(), TS_IDLE);
  EXPECT_EQ(endpoint.counter("connect_failures"), 1U);
  EXPECT_TRUE(set.sources().empty());
}

TEST_F(KernelTcpTest, AnAddressOfTheOtherFamilyIsBad) {
  TcpEndpoint endpoint(set);
  ASSERT_EQ(endpoint.bind("127.0.0.1:0"), 0);
  endpoint.connect(wire::TransportAddress::from_text("[::1]:9").value());
  EXPECT_EQ(endpoint.expect<ErrorAck>().tli_error, TBADADDR);
  EXPECT_EQ(endpoint.state(), TS_IDLE);
}

TEST_F(KernelTcpTest, AConnectionIsAcceptedOnAnotherStream) {
  TcpEndpoint listener(set);
  ASSERT_EQ(listener.bind("127.0.0.1:0", 5), 0);
  Peer caller;
  caller.connect(listener.local);
  caller.send("early");
  ASSERT_TRUE(run_until_waits(listener, T_CONN_IND));
  const ConnInd indication = listener.expect<ConnInd>();
  EXPECT_EQ(wire::TransportAddress::decode(indication.source)->address.to_text(), "127.0.0.1");
  EXPECT_EQ(listener.state(), TS_WRES_CIND);
  TcpEndpoint acceptor(set);
  listener.put(ConnRes{acceptor.acceptor_id(), {}, indication.sequence});
  EXPECT_EQ(listener.expect<OkAck>().correct_primitive, T_CONN_RES);
  EXPECT_EQ(listener.state(), TS_IDLE);
  EXPECT_EQ(acceptor.state(), TS_DATA_XFER);
  EXPECT_EQ(collect(acceptor, 5), "early");
  acceptor.send("answer");
  EXPECT_EQ(collect(caller, 6), "answer");
}

TEST_F(KernelTcpTest, AConnectionIsAcceptedOnItsOwnStreamAndTheNextOneWaits) {
  TcpEndpoint listener(set);
  ASSERT_EQ(listener.bind("127.0.0.1:0", 1), 0);
  Peer first;
  first.connect(listener.local);
  Peer second;
  second.connect(listener.local);
  ASSERT_TRUE(run_until_waits(listener, T_CONN_IND));
  const std::int32_t sequence = listener.expect<ConnInd>().sequence;
  run_until_quiet();
  EXPECT_EQ(listener.next(), -1) << "one may be outstanding";
  listener.put(ConnRes{listener.acceptor_id(), {}, sequence});
  listener.expect<OkAck>();
  EXPECT_EQ(listener.state(), TS_DATA_XFER);
  first.send("one");
  EXPECT_EQ(collect(listener, 3), "one");
  first.end();
  ASSERT_TRUE(run_until_waits(listener, T_ORDREL_IND));
  listener.expect<OrdrelInd>();
  listener.put(OrdrelReq{});
  ASSERT_TRUE(run_until_waits(listener, T_CONN_IND)) << "it listens again";
}

TEST_F(KernelTcpTest, AResponseThatNamesTheWrongStreamIsRefused) {
  TcpEndpoint listener(set);
  ASSERT_EQ(listener.bind("127.0.0.1:0", 5), 0);
  Peer one;
  one.connect(listener.local);
  Peer two;
  two.connect(listener.local);
  ASSERT_TRUE(run_until([&] { return listener.head().read_queue().messages() == 2; }));
  const std::int32_t sequence = listener.expect<ConnInd>().sequence;
  listener.expect<ConnInd>();
  const auto refusal = [&](std::uint32_t acceptor_id, std::int32_t number) {
    listener.put(ConnRes{acceptor_id, {}, number});
    return listener.expect<ErrorAck>().tli_error;
  };
  std::uint32_t gone = 0;
  {
    TcpEndpoint closed(set);
    gone = closed.acceptor_id();
  }
  TcpEndpoint other_listener(set);
  ASSERT_EQ(other_listener.bind("127.0.0.1:0", 1), 0);
  TcpEndpoint busy(set);
  Peer peer = connected(busy);
  Endpoint datagrams(set);
  const std::uint32_t self = listener.acceptor_id();
  EXPECT_EQ(refusal(gone, sequence), TBADF);
  EXPECT_EQ(refusal(0, sequence), TBADF);
  EXPECT_EQ(refusal(0xffff'ffff, sequence), TBADF);
  EXPECT_EQ(refusal(self, sequence), TINDOUT) << "another one is outstanding";
  EXPECT_EQ(refusal(other_listener.acceptor_id(), sequence), TRESQLEN);
  EXPECT_EQ(refusal(busy.acceptor_id(), sequence), TOUTSTATE);
  EXPECT_EQ(refusal(self, 999), TBADSEQ);
  EXPECT_EQ(refusal(set.module_handles().number({}), sequence), TBADF);
  EXPECT_EQ(listener.state(), TS_WRES_CIND) << "both are still outstanding";
}

TEST_F(KernelTcpTest, ARejectedConnectionIsReset) {
  TcpEndpoint listener(set);
  ASSERT_EQ(listener.bind("127.0.0.1:0", 5), 0);
  Peer caller;
  caller.connect(listener.local);
  ASSERT_TRUE(run_until_waits(listener, T_CONN_IND));
  listener.put(DisconReq{listener.expect<ConnInd>().sequence});
  EXPECT_EQ(listener.expect<OkAck>().correct_primitive, T_DISCON_REQ);
  collect(caller, 1);
  EXPECT_EQ(caller.error, ECONNRESET);
  EXPECT_EQ(listener.state(), TS_IDLE);
}

TEST_F(KernelTcpTest, ACallerThatIsGoneIsFoundWhenItIsAccepted) {
  TcpEndpoint listener(set);
  ASSERT_EQ(listener.bind("127.0.0.1:0", 5), 0);
  Peer caller;
  caller.connect(listener.local);
  ASSERT_TRUE(run_until_waits(listener, T_CONN_IND));
  const std::int32_t sequence = listener.expect<ConnInd>().sequence;
  caller.reset();
  listener.put(ConnRes{listener.acceptor_id(), {}, sequence});
  listener.expect<OkAck>();
  ASSERT_TRUE(run_until_waits(listener, T_DISCON_IND));
  EXPECT_EQ(listener.expect<DisconInd>().reason, ECONNRESET);
  EXPECT_EQ(listener.state(), TS_IDLE);
}

TEST_F(KernelTcpTest, AResetOfThePeersIsToldInEachState) {
  for (const State state : {TS_DATA_XFER, TS_WIND_ORDREL}) {
    TcpEndpoint endpoint(set);
    Peer peer = connected(endpoint);
    if (state == TS_WIND_ORDREL) {
      endpoint.put(OrdrelReq{});
    }
    ASSERT_EQ(endpoint.state(), state);
    peer.reset();
    ASSERT_TRUE(run_until_waits(endpoint, T_DISCON_IND));
    EXPECT_EQ(endpoint.expect<DisconInd>().reason, ECONNRESET);
    EXPECT_EQ(endpoint.state(), TS_IDLE);
    EXPECT_EQ(endpoint.head().flushes, 1);
    endpoint.send("too late");  // crosses the indication: neither an error nor sent
    EXPECT_EQ(endpoint.next(), -1);
    EXPECT_EQ(endpoint.counter("resets"), 1U);
  }
  // The peer has ended already: its reset is found by sending.
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  peer.end();
  ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
  endpoint.expect<OrdrelInd>();
  peer.reset();
  ASSERT_TRUE(run_until([&] {
    endpoint.send("x");
    return endpoint.waits(T_DISCON_IND);
  }));
  EXPECT_EQ(endpoint.expect<DisconInd>().reason, ECONNRESET);
  EXPECT_EQ(endpoint.state(), TS_IDLE);
}

TEST_F(KernelTcpTest, ADisconnectionResetsInEachState) {
  for (const State state : {TS_DATA_XFER, TS_WIND_ORDREL, TS_WREQ_ORDREL}) {
    TcpEndpoint endpoint(set);
    Peer peer = connected(endpoint);
    if (state == TS_WIND_ORDREL) {
      endpoint.put(OrdrelReq{});
    } else if (state == TS_WREQ_ORDREL) {
      peer.end();
      ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
      endpoint.expect<OrdrelInd>();
    }
    ASSERT_EQ(endpoint.state(), state);
    peer.take();
    endpoint.put(DisconReq{});
    EXPECT_EQ(endpoint.expect<OkAck>().correct_primitive, T_DISCON_REQ);
    EXPECT_EQ(endpoint.state(), TS_IDLE);
    peer.take();
    if (state == TS_DATA_XFER) {
      EXPECT_EQ(peer.error, ECONNRESET);
    }
    EXPECT_EQ(endpoint.counter("aborted"), 1U);
  }
}

TEST_F(KernelTcpTest, LargeTransfersArriveWholeBothWays) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  const std::string text = random_text(std::size_t{8} << 20, 1);
  std::size_t put = 0;
  std::size_t offered = 0;
  std::string at_peer;
  std::string at_endpoint;
  ASSERT_TRUE(run_until([&] {
    while (put < text.size() && endpoint.head().write_queue().can_put_next()) {
      const std::size_t size = std::min<std::size_t>(text.size() - put, 1 + put % 70'001);
      endpoint.send(std::string_view(text).substr(put, size));
      put += size;
    }
    offered += peer.offer(std::string_view(text).substr(offered));
    one_round();
    at_peer += peer.take();
    at_endpoint += endpoint.data();
    return at_peer.size() >= text.size() && at_endpoint.size() >= text.size();
  }));
  EXPECT_TRUE(at_peer == text);
  EXPECT_TRUE(at_endpoint == text);
  EXPECT_EQ(endpoint.counter("bytes_sent"), text.size());
  EXPECT_EQ(endpoint.counter("bytes_received"), text.size());
}

/// A reader that stops: what waits is bounded, nobody is busy, and nothing is lost when it goes on.
TEST_F(KernelTcpTest, AZeroWindowStopsTheWriterAndNothingIsBusy) {
  TcpEndpoint endpoint(set, {}, {.send_buffer_bytes = 16'384});
  Peer peer = connected(endpoint);
  const std::string block = random_text(10'000, 2);
  std::string sent;
  while (sent.size() < (std::size_t{64} << 20) && endpoint.head().write_queue().can_put_next()) {
    endpoint.send(block);
    sent += block;
    one_round();
  }
  ASSERT_LT(sent.size(), std::size_t{64} << 20) << "nobody was stopped";
  EXPECT_LT(run_until_quiet(), 50);
  EXPECT_GT(endpoint.counter("write_waits"), 0U);
  endpoint.put(OrdrelReq{});
  EXPECT_EQ(endpoint.state(), TS_WIND_ORDREL);
  const std::string arrived = collect(peer, sent.size());
  EXPECT_TRUE(arrived == sent);
  collect(peer, 1);
  EXPECT_TRUE(peer.ended) << "the release came behind the data";
  EXPECT_GT(endpoint.head().enabled, 0);
}

/// The stream above is full: the socket is not read, and the peer is stopped.
TEST_F(KernelTcpTest, AFullStreamIsNotReadInto) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  endpoint.head().read_queue().set_marks({.high_bytes = 100'000, .low_bytes = 10'000});
  const std::string text = random_text(std::size_t{4} << 20, 3);
  std::size_t offered = 0;
  for (int rounds = 0; rounds < 1000; ++rounds) {
    offered += peer.offer(std::string_view(text).substr(offered));
    one_round();
  }
  run_until_quiet();
  EXPECT_LE(endpoint.head().read_queue().bytes(), 100'000U + 4 * KernelTcp::read_bytes_max);
  EXPECT_GT(endpoint.counter("read_stops"), 0U);
  std::string arrived;
  ASSERT_TRUE(run_until([&] {
    offered += peer.offer(std::string_view(text).substr(offered));
    one_round();
    arrived += endpoint.data();
    return arrived.size() >= text.size();
  }));
  EXPECT_TRUE(arrived == text);
}

/// Single bytes: each message takes memory for what it holds, not for what might have come.
TEST_F(KernelTcpTest, SingleBytesTakeLittleMemory) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  const int on = 1;
  ASSERT_EQ(::setsockopt(peer.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
  std::string sent;
  for (int i = 0; i < 2000; ++i) {
    const std::string one(1, static_cast<char>(i));
    peer.send(one);
    sent += one;
    one_round();
  }
  EXPECT_EQ(collect(endpoint, sent.size()), sent);
  for (int i = 0; i < 2000; ++i) {
    endpoint.send(sent.substr(static_cast<std::size_t>(i), 1));
  }
  EXPECT_EQ(collect(peer, sent.size()), sent);
}

TEST_F(KernelTcpTest, ManyConnectionsAtOnce) {
  constexpr std::size_t count = 100;
  TcpEndpoint listener(set);
  ASSERT_EQ(listener.bind("127.0.0.1:0", 10), 0);
  std::vector<Peer> callers;
  std::deque<TcpEndpoint> acceptors;
  for (std::size_t i = 0; i < count; ++i) {
    callers.emplace_back();
    callers.back().connect(listener.local);
    callers.back().send(std::to_string(i) + ";");
    ASSERT_TRUE(run_until_waits(listener, T_CONN_IND));
    const std::int32_t sequence = listener.expect<ConnInd>().sequence;
    acceptors.emplace_back(set);
    listener.put(ConnRes{acceptors.back().acceptor_id(), {}, sequence});
    listener.expect<OkAck>();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string expected = std::to_string(i) + ";";
    EXPECT_EQ(collect(acceptors[i], expected.size()), expected);
    acceptors[i].send(expected);
    EXPECT_EQ(collect(callers[i], expected.size()), expected);
  }
  EXPECT_EQ(listener.counter("indicated"), count);
}

TEST_F(KernelTcpTest, DataWithoutAPrimitiveIsDataAndExpeditedDataIsFatal) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  endpoint.head().write_queue().put_next(Message::copy_of(set.pool(), as_bytes("raw")));
  EXPECT_EQ(collect(peer, 3), "raw");
  endpoint.put(ExdataReq{}, "urgent");
  EXPECT_EQ(endpoint.next(), -2);
  EXPECT_TRUE(set.sources().empty());
  collect(peer, 1);
  EXPECT_EQ(peer.error, ECONNRESET);
}

/// What a peer sends as urgent stays where it was sent.
TEST_F(KernelTcpTest, UrgentDataStaysInTheStream) {
  TcpEndpoint endpoint(set);
  Peer peer = connected(endpoint);
  peer.send("ab");
  ASSERT_EQ(::send(peer.descriptor(), "c", 1, MSG_OOB), 1);
  peer.send("de");
  EXPECT_EQ(collect(endpoint, 5), "abcde");
}

TEST_F(KernelTcpTest, OptionsAreThoseOfTheSocket) {
  using namespace wire::xti;
  TcpEndpoint endpoint(set);
  std::array<std::byte, 8> kpalive{};
  wire::store_word(kpalive.data(), T_YES);
  wire::store_word(kpalive.data() + 4, 7);
  std::array<std::byte, 4> yes{};
  wire::store_word(yes.data(), T_YES);
  std::vector<std::byte> wanted;
  append(wanted, {T_INET_TCP, T_TCP_NODELAY, 0, yes});
  append(wanted, {T_INET_TCP, T_TCP_KEEPALIVE, 0, kpalive});
  endpoint.put(OptmgmtReq{wanted, T_NEGOTIATE});
  EXPECT_EQ(endpoint.expect<OptmgmtAck>().flags, T_SUCCESS);
  Peer peer = connected(endpoint);
  std::vector<std::byte> asked;
  append(asked, {T_INET_TCP, T_ALLOPT, 0, {}});
  endpoint.put(OptmgmtReq{asked, T_CURRENT});
  const auto told = endpoint.expect<OptmgmtAck>();
  OptionReader reader(told.options);
  const auto no_delay = reader.next();
  const auto segment_bytes = reader.next();
  const auto keep_alive = reader.next();
  ASSERT_TRUE(no_delay && segment_bytes && keep_alive);
  EXPECT_EQ(segment_bytes->name, T_TCP_MAXSEG);
  EXPECT_GT(wire::load_word(segment_bytes->value.data()), 536U) << "of a connection on this host";
  EXPECT_EQ(wire::load_word(no_delay->value.data()), T_YES);
  EXPECT_EQ(wire::load_word(keep_alive->value.data()), T_YES);
  EXPECT_EQ(wire::load_word(keep_alive->value.data() + 4), 7U);
  std::vector<std::byte> fixed;
  append(fixed, {T_INET_TCP, T_TCP_MAXSEG, 0, yes});
  endpoint.put(OptmgmtReq{fixed, T_NEGOTIATE});
  EXPECT_EQ(endpoint.expect<OptmgmtAck>().flags, T_READONLY);
  wire::store_word(kpalive.data(), 3);  // neither yes nor no
  std::vector<std::byte> bad;
  append(bad, {T_INET_TCP, T_TCP_KEEPALIVE, 0, kpalive});
  endpoint.put(OptmgmtReq{bad, T_NEGOTIATE});
  EXPECT_EQ(endpoint.expect<OptmgmtAck>().flags, T_FAILURE);
}

// ---- System calls that fail ----

int failing_errno = 0;
int failures_left = 0;

bool fails_now() {
  if (failures_left == 0) {
    return false;
  }
  --failures_left;
  errno = failing_errno;
  return true;
}

const TcpCalls failing_calls{
    .connect = [](int descriptor, const sockaddr* to,
                  socklen_t size) { return fails_now() ? -1 : ::connect(descriptor, to, size); },
    .accept = [](int descriptor, sockaddr* from, socklen_t* size,
                 int flags) { return fails_now() ? -1 : ::accept4(descriptor, from, size, flags); },
    .send = [](int descriptor, const msghdr* message,
               int flags) { return fails_now() ? ssize_t{-1} : ::sendmsg(descriptor, message, flags); },
    .receive = [](int descriptor, void* place, std::size_t size,
                  int flags) { return fails_now() ? ssize_t{-1} : ::recv(descriptor, place, size, flags); },
};

class KernelTcpFaults : public KernelTcpTest {
 protected:
  ~KernelTcpFaults() override { failures_left = 0; }
  static void fail_next(int error, int times = 1) {
    failing_errno = error;
    failures_left = times;
  }
};

TEST_F(KernelTcpFaults, AFailedSendThatTimeCuresLosesNothing) {
  for (const int error : {EINTR, EAGAIN, ENOBUFS, ENOMEM}) {
    SCOPED_TRACE(error);
    TcpEndpoint endpoint(set, failing_calls);
    Peer peer = connected(endpoint);
    fail_next(error, 3);
    endpoint.send("one");
    endpoint.send("two");
    EXPECT_EQ(collect(peer, 6), "onetwo");
    fail_next(error, 3);
    endpoint.send("last");
    endpoint.put(OrdrelReq{});
    EXPECT_EQ(collect(peer, 5), "last");
    EXPECT_TRUE(peer.ended);
    EXPECT_EQ(failures_left, 0);
  }
}

TEST_F(KernelTcpFaults, AFailedSendOfTheConnectionIsADisconnection) {
  for (const auto& [error, reason] : {std::pair{EPIPE, ECONNRESET}, std::pair{ECONNRESET, ECONNRESET},
                                      std::pair{ETIMEDOUT, ETIMEDOUT}, std::pair{EHOSTUNREACH, EHOSTUNREACH}}) {
    SCOPED_TRACE(error);
    TcpEndpoint endpoint(set, failing_calls);
    Peer peer = connected(endpoint);
    fail_next(error);
    endpoint.send("lost");
    EXPECT_EQ(endpoint.expect<DisconInd>().reason, reason);
    EXPECT_EQ(endpoint.state(), TS_IDLE);
    EXPECT_EQ(endpoint.counter("unsent"), 1U);
    EXPECT_TRUE(set.sources().empty());
  }
}

struct Watcher final : Module {
  Watcher() : Module("watcher", Services::both) {}
  Counter refused{*this, "refused", "checks that did not hold"};
};

TEST_F(KernelTcpFaults, WhatCannotBeSentWholeResetsTheConnection) {
  for (const bool waits : {false, true}) {
    SCOPED_TRACE(waits ? "behind what waits" : "at once");
    TcpEndpoint endpoint(set, failing_calls);
    Peer peer = connected(endpoint);
    endpoint.send("before");
    if (waits) {
      fail_next(EAGAIN);
      endpoint.send("waits");
    }
    Watcher watcher;
    Message bad = Message::copy_of(set.pool(), as_bytes("abcd"));
    bad.defer();
    ASSERT_EQ(bad.transform(Check{0}, ModuleHandle(), watcher.refused), TransformResult::deferred);
    endpoint.head().write_queue().put_next(std::move(bad));
    endpoint.send("after");
    ASSERT_TRUE(run_until_waits(endpoint, T_DISCON_IND));
    EXPECT_EQ(endpoint.expect<DisconInd>().reason, ENOBUFS);
    collect(peer, 100);
    EXPECT_EQ(peer.error, ECONNRESET);
    EXPECT_FALSE(peer.ended) << "the peer takes the part for the whole";
    EXPECT_EQ(endpoint.counter("unsent"), waits ? 2U : 1U);
    EXPECT_TRUE(set.sources().empty());
  }
}

TEST_F(KernelTcpFaults, AFailedReadIsTriedAgainOrADisconnection) {
  for (const int error : {EINTR, EAGAIN, ENOBUFS, ENOMEM}) {
    SCOPED_TRACE(error);
    TcpEndpoint endpoint(set, failing_calls);
    Peer peer = connected(endpoint);
    fail_next(error);
    peer.send("one");
    run_until_quiet();
    peer.send("two");
    EXPECT_EQ(collect(endpoint, 6), "onetwo");
    EXPECT_EQ(failures_left, 0);
  }
  TcpEndpoint endpoint(set, failing_calls);
  Peer peer = connected(endpoint);
  fail_next(ETIMEDOUT);
  peer.send("x");
  ASSERT_TRUE(run_until_waits(endpoint, T_DISCON_IND));
  EXPECT_EQ(endpoint.expect<DisconInd>().reason, ETIMEDOUT);
}

TEST_F(KernelTcpFaults, AnAcceptThatFailsIsTriedAgain) {
  for (const int error : {EINTR, EAGAIN, ECONNABORTED, EPROTO, ENETDOWN, EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    SCOPED_TRACE(error);
    TcpEndpoint listener(set, failing_calls);
    ASSERT_EQ(listener.bind("127.0.0.1:0", 5), 0);
    fail_next(error);
    Peer first;
    first.connect(listener.local);
    run_until_quiet();
    Peer second;  // wakes the loop where the failure was no readiness
    second.connect(listener.local);
    ASSERT_TRUE(run_until([&] { return listener.head().read_queue().messages() == 2; }));
    EXPECT_EQ(failures_left, 0);
    EXPECT_EQ(listener.counter("accept_failures"), error == EINTR || error == EAGAIN ? 0U : 1U);
  }
}

TEST_F(KernelTcpFaults, AConnectThatFailsAtOnceIsRefusedOrToldAsTheNetworksDoing) {
  struct Case {
    int error;
    std::int32_t refused;  // 0: T_OK_ACK, then T_DISCON_IND
  };
  for (const Case& one : {Case{ENETUNREACH, 0}, Case{ECONNREFUSED, 0}, Case{EHOSTUNREACH, 0}, Case{EACCES, TACCES},
                          Case{EADDRNOTAVAIL, TBADADDR}, Case{EADDRINUSE, TADDRBUSY}, Case{ENOBUFS, TSYSERR}}) {
    SCOPED_TRACE(one.error);
    Peer listener;
    TcpEndpoint endpoint(set, failing_calls);
    ASSERT_EQ(endpoint.bind("127.0.0.1:0"), 0);
    const wire::TransportAddress to = listener.listen();
    fail_next(one.error);
    endpoint.connect(to);
    if (one.refused == 0) {
      endpoint.expect<OkAck>();
      EXPECT_EQ(endpoint.expect<DisconInd>().reason, one.error);
    } else {
      EXPECT_EQ(endpoint.expect<ErrorAck>().tli_error, one.refused);
    }
    EXPECT_EQ(endpoint.state(), TS_IDLE);
    EXPECT_TRUE(set.sources().empty());
    endpoint.connect(to);
    endpoint.expect<OkAck>();
    ASSERT_TRUE(run_until_waits(endpoint, T_CONN_CON)) << "it connects afterwards";
  }
}

TEST_F(KernelTcpFaults, AnInterruptedConnectGoesOn) {
  Peer listener;
  TcpEndpoint endpoint(set, {.connect = [](int descriptor, const sockaddr* to, socklen_t size) {
                         static_cast<void>(::connect(descriptor, to, size));
                         errno = EINTR;
                         return -1;
                       }});
  ASSERT_EQ(endpoint.bind("127.0.0.1:0"), 0);
  endpoint.connect(listener.listen());
  endpoint.expect<OkAck>();
  EXPECT_TRUE(run_until_waits(endpoint, T_CONN_CON));
}

/// Both sides have been released while data waits: the stream is idle, and the next request waits for the data.
TEST_F(KernelTcpTest, RequestsWaitUntilTheLastDataHasLeft) {
  TcpEndpoint endpoint(set, {}, {.send_buffer_bytes = 16'384});
  Peer peer = connected(endpoint);
  peer.end();
  ASSERT_TRUE(run_until_waits(endpoint, T_ORDREL_IND));
  endpoint.expect<OrdrelInd>();
  std::string sent;
  while (endpoint.counter("write_waits") == 0) {
    const std::string block = random_text(50'000, sent.size());
    endpoint.send(block);
    sent += block;
    ASSERT_LT(sent.size(), std::size_t{64} << 20);
  }
  endpoint.put(OrdrelReq{});
  endpoint.put(UnbindReq{});
  EXPECT_EQ(endpoint.state(), TS_IDLE);
  EXPECT_EQ(endpoint.next(), -1);
  EXPECT_TRUE(collect(peer, sent.size()) == sent);
  ASSERT_TRUE(run_until_waits(endpoint, T_OK_ACK));
  endpoint.expect<OkAck>();
  EXPECT_EQ(endpoint.state(), TS_UNBND);
  collect(peer, 1);
  EXPECT_TRUE(peer.ended);
  EXPECT_EQ(peer.error, 0);
}

/// A stream that closes before the kernel has taken all resets: the peer does not take the part for the whole.
TEST_F(KernelTcpTest, AStreamThatClosesTooEarlyResets) {
  auto endpoint = std::make_unique<TcpEndpoint>(set, TcpCalls{}, TcpSocket::Options{.send_buffer_bytes = 16'384});
  Peer peer = connected(*endpoint);
  while (endpoint->counter("write_waits") == 0) {
    endpoint->send(std::string(50'000, 'x'));
  }
  endpoint.reset();
  collect(peer, std::size_t{1} << 30);
  EXPECT_EQ(peer.error, ECONNRESET);
}

}  // namespace
}  // namespace sluice::tpi
