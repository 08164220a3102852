// SPDX-License-Identifier: Apache-2.0
// Two endpoints of the transport library over kernel_tcp on loopback, and over our own tcp: what XTI says of each call.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/tpi/tli_over_tcp.h"
#include "tli/options.h"

namespace sluice::tpi {
namespace {

using namespace tli;
using enum wire::tpi::TliError;

/// With peers that are sockets of the kernel.
class TliOverKernelTcp : public TliOverTcp {};

TEST_P(TliOverTcp, TheServiceIsTold) {
  const Made endpoint = make();
  EXPECT_EQ(info.servtype, wire::tpi::T_COTS_ORD);
  EXPECT_EQ(info.tsdu, 0);
  EXPECT_EQ(info.etsdu, wire::tpi::T_INVALID);
  EXPECT_EQ(info.connect, wire::tpi::T_INVALID);
  EXPECT_EQ(info.discon, wire::tpi::T_INVALID);
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
}

TEST_P(TliOverTcp, AConversationWithBothReleases) {
  auto [caller, called] = pair();
  ASSERT_EQ(caller->t_snd(as_bytes("question"), 0), 8U);
  EXPECT_EQ(receive_all(*called, 8), "question");
  std::string first = "ans";
  std::string second = "wer";
  const std::array parts{t_iovec{std::as_writable_bytes(std::span(first)).data(), 3},
                         t_iovec{std::as_writable_bytes(std::span(second)).data(), 3}};
  ASSERT_EQ(called->t_sndv(parts, T_PUSH), 6U);
  EXPECT_EQ(receive_all(*caller, 6), "answer");
  ASSERT_TRUE(caller->t_sndrel());
  EXPECT_EQ(caller->t_getstate(), T_OUTREL);
  EXPECT_EQ(receive(*called, 10), "error " + std::to_string(TLOOK));
  EXPECT_EQ(called->t_look(), T_ORDREL);
  ASSERT_TRUE(called->t_rcvrel());
  EXPECT_EQ(called->t_getstate(), T_INREL);
  ASSERT_EQ(called->t_snd(as_bytes("half closed"), 0), 11U);
  ASSERT_TRUE(called->t_sndrel());
  EXPECT_EQ(called->t_getstate(), T_IDLE);
  EXPECT_EQ(receive_all(*caller, 11), "half closed");
  ASSERT_TRUE(run_until_event(*caller, T_ORDREL));
  ASSERT_TRUE(caller->t_rcvrel());
  EXPECT_EQ(caller->t_getstate(), T_IDLE);
  EXPECT_EQ(caller->t_sync(), T_IDLE);
  EXPECT_EQ(called->t_sync(), T_IDLE);
  EXPECT_TRUE(set.sources().empty());
  EXPECT_TRUE(caller->t_unbind());
}

TEST_P(TliOverTcp, BothEndsAreNamed) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 3);
  const Made caller = make();
  const wire::TransportAddress from = bind(*caller);
  Name to(at);
  Name responder;
  t_call confirmed{.addr = responder.asked(), .opt = {}, .udata = {}, .sequence = 0};
  ASSERT_TRUE(caller->t_connect({.addr = to.given(), .opt = {}, .udata = {}, .sequence = 0}, &confirmed));
  EXPECT_EQ(Name::in(confirmed.addr), at);
  Name source;
  t_call call{.addr = source.asked(), .opt = {}, .udata = {}, .sequence = 0};
  ASSERT_TRUE(listener->t_listen(call));
  EXPECT_EQ(Name::in(call.addr), from);
  EXPECT_EQ(listener->t_getstate(), T_INCON);
  const Made called = make();
  ASSERT_TRUE(listener->t_accept(*called, call));
  EXPECT_EQ(listener->t_getstate(), T_IDLE);
  Name local;
  Name remote;
  tli::t_bind boundaddr{local.asked(), 0};
  tli::t_bind peeraddr{remote.asked(), 0};
  ASSERT_TRUE(called->t_getprotaddr(&boundaddr, &peeraddr));
  EXPECT_EQ(Name::in(boundaddr.addr), at);
  EXPECT_EQ(Name::in(peeraddr.addr), from);
  ASSERT_TRUE(listener->t_getprotaddr(&boundaddr, &peeraddr));
  EXPECT_EQ(peeraddr.addr.len, 0U);
}

TEST_P(TliOverTcp, NobodyListens) {
  const Made caller = make();
  bind(*caller);
  wire::TransportAddress closed;
  {
    const Made gone = make();
    closed = bind(*gone, 1);
  }
  EXPECT_EQ(error_of(connect(*caller, closed)), TLOOK);
  EXPECT_EQ(caller->t_look(), T_DISCONNECT);
  t_discon discon;
  ASSERT_TRUE(caller->t_rcvdis(&discon));
  EXPECT_EQ(discon.reason, ECONNREFUSED);
  EXPECT_EQ(caller->t_getstate(), T_IDLE);
  // And it may call somebody else.
  const Made listener = make();
  EXPECT_TRUE(connect(*caller, bind(*listener, 1)));
}

TEST_P(TliOverTcp, ConnectingInTheBackground) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const Made caller = make();
  bind(*caller);
  caller->stream().set_nonblocking(true);
  EXPECT_EQ(error_of(connect(*caller, at)), TNODATA);
  EXPECT_EQ(caller->t_getstate(), T_OUTCON);
  ASSERT_TRUE(run_until_event(*caller, T_CONNECT));
  EXPECT_EQ(caller->t_sync(), T_OUTCON);
  ASSERT_TRUE(caller->t_rcvconnect(nullptr));
  EXPECT_EQ(caller->t_getstate(), T_DATAXFER);
  // Given up while it connects.
  const Made hasty = make();
  bind(*hasty);
  hasty->stream().set_nonblocking(true);
  EXPECT_EQ(error_of(connect(*hasty, at)), TNODATA);
  ASSERT_TRUE(hasty->t_snddis(nullptr));
  EXPECT_EQ(hasty->t_getstate(), T_IDLE);
  EXPECT_EQ(hasty->t_look(), 0);
}

TEST_P(TliOverTcp, AcceptedOnTheSameEndpoint) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const Made caller = make();
  bind(*caller);
  ASSERT_TRUE(connect(*caller, at));
  t_call call;
  ASSERT_TRUE(listener->t_listen(call));
  ASSERT_TRUE(listener->t_accept(*listener, call));
  EXPECT_EQ(listener->t_getstate(), T_DATAXFER);
  ASSERT_TRUE(caller->t_snd(as_bytes("hello"), 0));
  EXPECT_EQ(receive_all(*listener, 5), "hello");
  ASSERT_TRUE(listener->t_snddis(nullptr));
  EXPECT_EQ(listener->t_getstate(), T_IDLE);
  EXPECT_EQ(disconnection_reason(*caller), ECONNRESET);
  // It listens again.
  ASSERT_TRUE(connect(*caller, at));
  ASSERT_TRUE(listener->t_listen(call));
}

/// Whoever accepts a caller that has ended already is told so, on the same endpoint or another.
TEST_P(TliOverTcp, ACallerThatEndsBeforeItIsAccepted) {
  for (const bool elsewhere : {true, false}) {
    const auto [listener, caller, call] = called_listener();
    ASSERT_TRUE(caller->t_sndrel());
    // Its end has come, and nobody has the connection yet.
    loop->run_until([] { return false; }, loop->now() + std::chrono::milliseconds(50));
    const Made other = make();
    tli::Endpoint& acceptor = elsewhere ? *other : *listener;
    ASSERT_TRUE(listener->t_accept(acceptor, call));
    ASSERT_TRUE(run_until_event(acceptor, T_ORDREL));
    ASSERT_TRUE(acceptor.t_rcvrel());
    ASSERT_TRUE(acceptor.t_sndrel());
    EXPECT_EQ(acceptor.t_getstate(), T_IDLE);
    ASSERT_TRUE(run_until_event(*caller, T_ORDREL));
  }
}

/// As many as the queue holds are outstanding at once, and answered in any order.
TEST_P(TliOverTcp, ManyCallers) {
  constexpr std::uint32_t qlen = 4;
  constexpr std::size_t rounds = 3;
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, qlen);
  std::vector<Made> callers;
  std::size_t accepted = 0;
  std::size_t rejected = 0;
  std::vector<Made> called;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<t_call> calls;
    for (std::uint32_t i = 0; i < qlen; ++i) {
      callers.push_back(make());
      bind(*callers.back());
      callers.back()->stream().set_nonblocking(true);
      EXPECT_EQ(error_of(connect(*callers.back(), at)), TNODATA);
      ASSERT_TRUE(run_until_event(*listener, T_LISTEN));
      calls.emplace_back();
      ASSERT_TRUE(listener->t_listen(calls.back()));
    }
    t_call one_more;
    EXPECT_EQ(error_of(listener->t_listen(one_more)), TQFULL);
    EXPECT_EQ(error_of(listener->t_accept(*listener, calls[0])), TINDOUT);
    // The last first, and every third is not wanted.
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      EXPECT_EQ(listener->t_getstate(), T_INCON);
      if ((accepted + rejected) % 3 == 2) {
        ASSERT_TRUE(listener->t_snddis(&*call));
        ++rejected;
      } else {
        called.push_back(make());
        if (accepted % 2 == 1) {
          bind(*called.back());
        }
        ASSERT_TRUE(listener->t_accept(*called.back(), *call));
        ++accepted;
      }
    }
    EXPECT_EQ(listener->t_getstate(), T_IDLE);
  }
  for (const Made& one : called) {
    ASSERT_TRUE(one->t_snd(as_bytes("welcome"), 0));
  }
  std::size_t welcome = 0;
  std::size_t reset = 0;
  for (const Made& one : callers) {
    ASSERT_TRUE(run_until([&] { return one->t_look() != 0; }));
    if (one->t_look() == T_CONNECT) {
      ASSERT_TRUE(one->t_rcvconnect(nullptr));
    }
    ASSERT_TRUE(run_until([&] { return one->t_look() != 0; }));
    one->t_look() == T_DATA ? ++welcome : ++reset;
  }
  EXPECT_EQ(welcome, accepted);
  EXPECT_EQ(reset, rejected);
}

TEST_P(TliOverTcp, LargeTransfersArriveWholeBothWays) {
  auto [caller, called] = pair({.receive_buffer_bytes = 32'768, .send_buffer_bytes = 32'768});
  const std::array<tli::Endpoint*, 2> ends{caller.get(), called.get()};
  const std::array texts{random_text(3'000'000, 1), random_text(2'000'000, 2)};
  std::array<std::string, 2> arrived;
  std::array<std::size_t, 2> sent{};
  bool refused = false;
  for (tli::Endpoint* end : ends) {
    end->stream().set_nonblocking(true);
  }
  ASSERT_TRUE(step_until([&] {
    for (std::size_t i = 0; i < 2; ++i) {
      const ConstBytes left = as_bytes(texts[i]).subspan(sent[i]);
      if (!left.empty()) {
        const auto done = ends[i]->t_snd(left.first(std::min<std::size_t>(left.size(), 1 + sent[i] % 200'001)), 0);
        sent[i] += done.value_or(0);
        refused |= !done;
        EXPECT_TRUE(done || done.error().t_errno == TFLOW);
      }
      if (const std::string part = receive(*ends[1 - i], 50'000); !part.starts_with("error")) {
        arrived[i] += part;
      }
    }
    return arrived[0].size() == texts[0].size() && arrived[1].size() == texts[1].size();
  }));
  EXPECT_TRUE(arrived[0] == texts[0]);
  EXPECT_TRUE(arrived[1] == texts[1]);
  if (GetParam().kernel) {  // in memory a reader is never late
    EXPECT_TRUE(refused) << "flow control was not met";
  }
}

/// A sender that waits, in the way of t_snd(): the reader is another thread's socket.
TEST_P(TliOverKernelTcp, ASenderThatWaits) {
  Peer listener;
  const wire::TransportAddress to = listener.listen();
  const std::string text = random_text(4'000'000, 3);
  std::string arrived;
  std::thread reader([&] {
    const Peer peer = listener.accept();
    std::string part(100'000, '\0');
    for (ssize_t size = 1; size > 0;) {
      size = ::recv(peer.descriptor(), part.data(), part.size(), 0);
      arrived.append(part, 0, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
  });
  const Made caller = make({.send_buffer_bytes = 100'000});
  bind(*caller);
  ASSERT_TRUE(connect(*caller, to));
  std::string copy = text;
  EXPECT_EQ(caller->t_snd(as_bytes(copy), 0), text.size());
  std::ranges::fill(copy, 'x');
  ASSERT_TRUE(caller->t_sndrel());
  EXPECT_EQ(receive(*caller, 10), "error " + std::to_string(TLOOK));
  EXPECT_TRUE(caller->t_rcvrel());
  reader.join();
  EXPECT_TRUE(arrived == text);
}

TEST_P(TliOverTcp, AResetIsAnEventInEachState) {
  for (const State state : {T_DATAXFER, T_OUTREL}) {
    auto [caller, called] = pair();
    if (state == T_OUTREL) {
      ASSERT_TRUE(caller->t_sndrel());
    }
    ASSERT_TRUE(called->t_snddis(nullptr));
    ASSERT_TRUE(run_until_event(*caller, T_DISCONNECT)) << int{state};
    EXPECT_EQ(caller->t_getstate(), state);
    EXPECT_EQ(receive(*caller, 1), "error " + std::to_string(TLOOK));
    t_discon discon;
    ASSERT_TRUE(caller->t_rcvdis(&discon));
    EXPECT_EQ(discon.reason, ECONNRESET);
    EXPECT_EQ(caller->t_getstate(), T_IDLE);
    EXPECT_EQ(called->t_getstate(), T_IDLE);
  }
}

/// A caller that goes before it is answered is taken back, and makes room for another.
TEST_P(TliOverKernelTcp, ACallerThatGoesIsTakenBack) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const auto call_and_go = [&] {
    Peer caller;
    caller.connect(at);
    EXPECT_TRUE(run_until_event(*listener, T_LISTEN));
    caller.reset();
  };
  call_and_go();
  t_call call;
  ASSERT_TRUE(listener->t_listen(call));
  ASSERT_TRUE(run_until_event(*listener, T_DISCONNECT));
  EXPECT_EQ(error_of(listener->t_accept(*listener, call)), TLOOK);
  t_discon discon;
  ASSERT_TRUE(listener->t_rcvdis(&discon));
  EXPECT_EQ(discon.sequence, call.sequence);
  EXPECT_EQ(discon.reason, ECONNRESET);
  EXPECT_EQ(listener->t_getstate(), T_IDLE);
  // One that has not even been listened to.
  call_and_go();
  const Made caller = make();
  bind(*caller);
  ASSERT_TRUE(connect(*caller, at));
  const std::int32_t before = call.sequence;
  ASSERT_TRUE(listener->t_listen(call));
  EXPECT_EQ(call.sequence, before + 1);
  ASSERT_TRUE(run_until_event(*listener, T_DISCONNECT));
  ASSERT_TRUE(listener->t_rcvdis(nullptr));
  ASSERT_TRUE(listener->t_listen(call));
  ASSERT_TRUE(listener->t_accept(*listener, call));
  ASSERT_TRUE(caller->t_snd(as_bytes("hello"), 0));
  EXPECT_EQ(receive_all(*listener, 5), "hello");
}

/// A reset while the stream above is full, and nobody reads.
TEST_P(TliOverKernelTcp, AResetWhileNobodyReads) {
  auto [caller, called] = pair({.receive_buffer_bytes = 16'384, .send_buffer_bytes = 16'384});
  caller->stream().set_nonblocking(true);
  const std::string block(50'000, 'x');
  Module& driver = *called->stream().chain().modules().back();
  const auto stops = [&]() -> std::uint64_t {
    for (const Counter* counter : driver.counters()) {
      if (counter->name() == "read_stops") {
        return counter->value();
      }
    }
    return 0;
  };
  ASSERT_TRUE(run_until([&] {
    static_cast<void>(caller->t_snd(as_bytes(block), 0));
    return stops() > 0;
  }));
  ASSERT_TRUE(caller->t_snddis(nullptr));
  EXPECT_EQ(disconnection_reason(*called), ECONNRESET);
  EXPECT_EQ(called->t_getstate(), T_IDLE);
  EXPECT_EQ(receive(*called, 10), "error " + std::to_string(TOUTSTATE));
}

TEST_P(TliOverTcp, OptionsOfAConnection) {
  using namespace wire::xti;
  auto [caller, called] = pair();
  std::vector<std::byte> wanted;
  put_option(wanted, T_INET_TCP, T_TCP_NODELAY, T_YES);
  std::vector<std::byte> told(64);
  tli::t_optmgmt answer{.opt = buffer_of(told)};
  ASSERT_TRUE(caller->t_optmgmt({.opt = buffer_of(wanted), .flags = wire::tpi::T_NEGOTIATE}, answer));
  EXPECT_EQ(answer.flags, wire::tpi::T_SUCCESS);
  // Options that cannot be had refuse the connection that asks for them.
  const Made other = make();
  bind(*other);
  std::vector<std::byte> bad;
  put_option(bad, T_INET_TCP, T_TCP_NODELAY, 77);
  Name name(wire::TransportAddress::from_text(host() + ":1").value());
  EXPECT_EQ(
      error_of(other->t_connect({.addr = name.given(), .opt = buffer_of(bad), .udata = {}, .sequence = 0}, nullptr)),
      TBADOPT);
}

TEST_P(TliOverTcp, RequestsThatTheProviderRefuses) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const auto refused = connect(*listener, at);
  EXPECT_EQ(error_of(refused), TSYSERR);
  EXPECT_EQ(refused.error().system_errno, EOPNOTSUPP);
  EXPECT_EQ(listener->t_getstate(), T_IDLE);
  const Made caller = make();
  bind(*caller);
  EXPECT_EQ(error_of(connect(*caller, wire::TransportAddress::from_text("[::1]:9").value())), TBADADDR);
  ASSERT_TRUE(connect(*caller, at));
  t_call call;
  ASSERT_TRUE(listener->t_listen(call));
  t_call wrong;
  wrong.sequence = call.sequence + 1;
  EXPECT_EQ(error_of(listener->t_accept(*listener, wrong)), TBADSEQ);
  EXPECT_EQ(error_of(listener->t_snddis(&wrong)), TBADSEQ);
  EXPECT_TRUE(listener->t_accept(*listener, call));
}

INSTANTIATE_TEST_SUITE_P(BothModes, TliOverKernelTcp,
                         testing::Values(ProviderVariant{true, ProcessingMode::layered},
                                         ProviderVariant{true, ProcessingMode::fused}),
                         name_of_variant);
INSTANTIATE_TEST_SUITE_P(BothModes, TliOverTcp, testing::ValuesIn(all_variants), name_of_variant);

}  // namespace
}  // namespace sluice::tpi
