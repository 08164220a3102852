// SPDX-License-Identifier: Apache-2.0
// Endpoints of the transport library over our own tcp and ip, two hosts joined in memory by a link that may be bad, in
// simulated time: the same seed gives the same run.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/prng.h"
#include "stack/head/stream.h"
#include "stack/wire/address.h"
#include "tests/e2e/simulated_waiter.h"
#include "tli/endpoint.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using namespace tli;
using wire::TransportAddress;
using enum wire::tpi::TliError;

struct Link {
  ProcessingMode mode = ProcessingMode::layered;
  bool v6 = false;
};

class TcpStreams : public testing::TestWithParam<Link> {
 protected:
  using Made = std::unique_ptr<Endpoint>;

  TcpStreams() { set_.scheduler().advance(clock_.now()); }

  Parameters parameters(const std::vector<std::pair<std::string, ParameterValue>>& values) {
    Parameters made;
    for (const auto& [name, value] : values) {
      made.set(name, value);
    }
    return made;
  }
  std::unique_ptr<Module> module(std::string_view name, const Parameters& values = {}) {
    return registry_.find(name)->make(set_, values).value();
  }
  Made open(char end) {
    auto driver = module("wire", parameters({{"name", "tcp"}, {"end", std::string(1, end)}}));
    auto stream = std::move(Stream::open(set_, std::move(driver))).value();
    if (!fault_.values().empty()) {
      EXPECT_TRUE(stream->push(module("fault", fault_)));
    }
    const std::string host = end == 'a' ? "1" : "2";
    const std::vector<std::string> addresses{"10.77.0." + host + "/24", "fd00:77::" + host + "/64"};
    EXPECT_TRUE(stream->push(module("ip", parameters({{"address", addresses}}))));
    EXPECT_TRUE(stream->push(module("tcp", buffers_)));
    EXPECT_TRUE(stream->push(module("timod")));
    stream->set_mode(GetParam().mode);
    stream->set_waiter(&clock_);
    return std::move(Endpoint::t_open(std::move(stream), nullptr)).value();
  }
  Made bound(char end, std::uint16_t port = 0, std::uint32_t qlen = 0) {
    Made made = open(end);
    std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
    const std::size_t size = TransportAddress{wire::Ipv6Address{}, port}.encode(bytes);
    const t_bind request{{.maxlen = bytes.size(), .len = size, .buf = bytes.data()}, qlen};
    EXPECT_TRUE(made->t_bind(&request, nullptr));
    return made;
  }
  static TransportAddress server(std::uint16_t port) {
    return TransportAddress::from_text((GetParam().v6 ? "[fd00:77::2]:" : "10.77.0.2:") + std::to_string(port)).value();
  }
  static Outcome<> connect(Endpoint& endpoint, const TransportAddress& to) {
    std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
    const std::size_t size = to.encode(bytes);
    return endpoint.t_connect(
        {.addr = {.maxlen = bytes.size(), .len = size, .buf = bytes.data()}, .opt = {}, .udata = {}, .sequence = 0},
        nullptr);
  }
  /// A caller and who was called, through `listener`.
  std::pair<Made, Made> pair(Endpoint& listener, std::uint16_t port) {
    Made caller = bound('a');
    EXPECT_TRUE(connect(*caller, server(port)));
    t_call call;
    const auto heard = listener.t_listen(call);
    EXPECT_TRUE(heard) << Endpoint::t_error("", heard.error()) << ", event " << listener.t_look().value_or(0);
    Made called = open('b');
    EXPECT_TRUE(listener.t_accept(*called, call));
    return {std::move(caller), std::move(called)};
  }
  static std::string text_of(std::size_t size, std::uint64_t seed) {
    Prng prng(seed);
    std::string text(size, '\0');
    for (char& one : text) {
      one = static_cast<char>(prng());
    }
    return text;
  }
  static std::string receive(Endpoint& endpoint, std::size_t size) {
    std::string text(size, '\0');
    int flags = 0;
    const auto got = endpoint.t_rcv(std::as_writable_bytes(std::span(text)), flags);
    return got ? text.substr(0, *got) : std::string();
  }
  static std::string receive_all(Endpoint& endpoint, std::size_t size) {
    std::string all;
    while (all.size() < size) {
      const std::string part = receive(endpoint, size - all.size());
      if (part.empty()) {
        break;
      }
      all += part;
    }
    return all;
  }
  static int error_of(const Outcome<>& outcome) { return outcome ? 0 : outcome.error().t_errno; }
  static int discon_reason(Endpoint& endpoint) {
    t_discon discon;
    return endpoint.t_rcvdis(&discon) ? discon.reason : -1;
  }
  /// Moves the clock until `done`, for `time_max` at most.
  template <class Predicate>
  bool run(Predicate done, Duration time_max = 600s) {
    for (const TimePoint end = clock_.now() + time_max; clock_.now() < end;) {
      if (done()) {
        return true;
      }
      static_cast<void>(clock_.wait(std::min(end, clock_.now() + 10ms)));
    }
    return done();
  }
  static void release_both(Endpoint& first, Endpoint& second) {
    ASSERT_TRUE(first.t_sndrel());
    ASSERT_EQ(receive(second, 1), "");
    ASSERT_TRUE(second.t_rcvrel());
    ASSERT_TRUE(second.t_sndrel());
    ASSERT_EQ(receive(first, 1), "");
    ASSERT_TRUE(first.t_rcvrel());
    EXPECT_EQ(first.t_getstate(), T_IDLE);
    EXPECT_EQ(second.t_getstate(), T_IDLE);
  }

  Parameters fault_;
  Parameters buffers_;
  Registry registry_ = standard_registry();
  StreamSet set_{{.seed = 1}};
  SimulatedWaiter clock_{set_};
};

/// Each connection has a stream of its own, all have one port, and none gets what is another's; who listens may go.
TEST_P(TcpStreams, ManyConnectionsOfOnePort) {
  std::vector<std::pair<Made, Made>> pairs;
  Made listener = bound('b', 80, 4);
  for (int i = 0; i < 20; ++i) {
    pairs.push_back(pair(*listener, 80));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      auto& [caller, called] = pairs[i];
      const std::string question = text_of(1 + 977 * i, i);
      const std::string answer = text_of(1 + 1733 * i, i + 100);
      ASSERT_EQ(caller->t_snd(as_bytes(question), 0), question.size());
      ASSERT_EQ(called->t_snd(as_bytes(answer), 0), answer.size());
      EXPECT_EQ(receive_all(*called, question.size()), question);
      EXPECT_EQ(receive_all(*caller, answer.size()), answer);
    }
    listener.reset();
  }
  for (auto& [caller, called] : pairs) {
    release_both(*caller, *called);
    EXPECT_TRUE(caller->t_unbind());
    EXPECT_TRUE(called->t_unbind());
  }
}

TEST_P(TcpStreams, OverABadLinkEveryByteComesOnceAndInOrder) {
  fault_ = parameters({{"loss", 3.0}, {"duplicate", 2.0}, {"reorder", 5.0}, {"bit_errors", 1e-6}, {"delay_ms", 2.0}});
  const Made listener = bound('b', 80, 1);
  auto [caller, called] = pair(*listener, 80);
  const std::string there = text_of(400'000, 1);
  const std::string back = text_of(300'000, 2);
  std::string arrived_there;
  std::string arrived_back;
  std::size_t sent_there = 0;
  std::size_t sent_back = 0;
  caller->stream().set_nonblocking(true);
  called->stream().set_nonblocking(true);
  const auto send = [](Endpoint& from, const std::string& text, std::size_t& sent) {
    if (sent < text.size()) {
      sent +=
          from.t_snd(as_bytes(text).subspan(sent, std::min<std::size_t>(text.size() - sent, 20'000)), 0).value_or(0);
    }
  };
  ASSERT_TRUE(run([&] {
    send(*caller, there, sent_there);
    send(*called, back, sent_back);
    arrived_there += receive(*called, 50'000);
    arrived_back += receive(*caller, 50'000);
    return arrived_there.size() >= there.size() && arrived_back.size() >= back.size();
  }));
  EXPECT_TRUE(arrived_there == there);
  EXPECT_TRUE(arrived_back == back);
  caller->stream().set_nonblocking(false);
  called->stream().set_nonblocking(false);
  release_both(*caller, *called);
  EXPECT_TRUE(caller->t_unbind()) << "whatever was lost of the release has been repeated";
  EXPECT_TRUE(called->t_unbind());
}

TEST_P(TcpStreams, WhoDoesNotReadStopsWhoSends) {
  buffers_ = parameters({{"receive_buffer_bytes", std::int64_t{20'000}}, {"send_buffer_bytes", std::int64_t{30'000}}});
  const Made listener = bound('b', 80, 1);
  auto [caller, called] = pair(*listener, 80);
  caller->stream().set_nonblocking(true);
  const std::string text = text_of(12'000'000, 3);
  std::size_t sent = 0;
  const auto send = [&] {
    if (sent < text.size()) {
      sent +=
          caller->t_snd(as_bytes(text).subspan(sent, std::min<std::size_t>(text.size() - sent, 50'000)), 0).value_or(0);
    }
    return sent == text.size();
  };
  EXPECT_FALSE(run(send, 30s));
  EXPECT_LT(sent, 6'000'000U) << "bounded by the buffers and queues of both ends";
  const std::size_t stopped_at = sent;
  EXPECT_FALSE(run(send, 300s)) << "for as long as nobody reads";
  EXPECT_EQ(sent, stopped_at);
  std::string arrived;
  called->stream().set_nonblocking(true);
  ASSERT_TRUE(run([&] {
    static_cast<void>(send());
    arrived += receive(*called, 70'000);
    return arrived.size() == text.size();
  }));
  EXPECT_TRUE(arrived == text);
}

TEST_P(TcpStreams, APortThatNobodyHasIsRefused) {
  const Made host = open('b');  // unbound: answers for what nobody wants
  const Made caller = bound('a');
  EXPECT_EQ(error_of(connect(*caller, server(81))), TLOOK);
  EXPECT_EQ(discon_reason(*caller), ECONNREFUSED);
  EXPECT_EQ(caller->t_getstate(), T_IDLE);
}

TEST_P(TcpStreams, AHostThatDoesNotAnswerIsUnreachable) {
  const Made caller = bound('a');
  const std::string nobody = GetParam().v6 ? "[fd00:77::9]:80" : "10.77.0.9:80";
  EXPECT_EQ(error_of(connect(*caller, TransportAddress::from_text(nobody).value())), TLOOK);
  EXPECT_EQ(discon_reason(*caller), EHOSTUNREACH);
}

/// RFC 9293 section 3.8.3: three minutes for a SYN.
TEST_P(TcpStreams, ACallThatNobodyAnswersEnds) {
  const Made other = bound('b', 82);  // its host is there, and nobody of it answers for port 80
  const Made caller = bound('a');
  const TimePoint begun = clock_.now();
  EXPECT_EQ(error_of(connect(*caller, server(80))), TLOOK);
  EXPECT_EQ(discon_reason(*caller), ETIMEDOUT);
  EXPECT_GE(clock_.now() - begun, 180s);
  EXPECT_LE(clock_.now() - begun, 300s);
}

TEST_P(TcpStreams, ACallerThatGoesIsTakenBack) {
  const Made listener = bound('b', 80, 1);
  Made caller = bound('a');
  ASSERT_TRUE(connect(*caller, server(80)));
  t_call call;
  ASSERT_TRUE(listener->t_listen(call));
  ASSERT_TRUE(caller->t_snddis(nullptr));
  ASSERT_TRUE(run([&] { return listener->t_look() == T_DISCONNECT; }));
  t_discon discon;
  ASSERT_TRUE(listener->t_rcvdis(&discon));
  EXPECT_EQ(discon.sequence, call.sequence);
  EXPECT_EQ(listener->t_getstate(), T_IDLE);
  ASSERT_TRUE(connect(*caller, server(80))) << "the next one is welcome";
  ASSERT_TRUE(listener->t_listen(call));
  // And one that is rejected hears of it.
  t_call rejected;
  rejected.sequence = call.sequence;
  ASSERT_TRUE(listener->t_snddis(&rejected));
  ASSERT_TRUE(run([&] { return caller->t_look() == T_DISCONNECT; }));
  EXPECT_EQ(discon_reason(*caller), ECONNRESET);
}

/// A stream closes when what it has said last has arrived. Within its close time, fifteen seconds, a release is sent
/// four times; with more loss all four, or what answers them, are lost now and then.
TEST_P(TcpStreams, ALostReleaseIsRepeatedWhileTheStreamCloses) {
  fault_ = parameters({{"loss", 10.0}, {"delay_ms", 1.0}});
  const Made listener = bound('b', 80, 1);
  for (int i = 0; i < 10; ++i) {
    auto [caller, called] = pair(*listener, 80);
    ASSERT_TRUE(caller->t_sndrel());
    ASSERT_TRUE(run([&] { return called->t_look() == T_ORDREL; }));
    ASSERT_TRUE(called->t_rcvrel());
    ASSERT_TRUE(called->t_snd(as_bytes("the last word"), 0));
    ASSERT_TRUE(called->t_sndrel());
    ASSERT_TRUE(called->t_close());
    EXPECT_EQ(receive_all(*caller, 13), "the last word");
    ASSERT_TRUE(run([&] { return caller->t_look() == T_ORDREL; }, 1s)) << "it had come before the stream was closed";
    ASSERT_TRUE(caller->t_rcvrel());
  }
}

/// The peer must not take the part that it has for the whole.
TEST_P(TcpStreams, ClosingBeforeTheEndResets) {
  const Made listener = bound('b', 80, 1);
  auto [caller, called] = pair(*listener, 80);
  ASSERT_TRUE(caller->t_snd(as_bytes("part of it"), 0));
  EXPECT_EQ(receive_all(*called, 10), "part of it");
  caller.reset();
  ASSERT_TRUE(run([&] { return called->t_look() == T_DISCONNECT; }));
  EXPECT_EQ(discon_reason(*called), ECONNRESET);
}

/// A stream that has accepted a connection may call others afterwards, from the address that it has.
TEST_P(TcpStreams, WhoAcceptedMayCall) {
  const Made listener = bound('b', 80, 1);
  auto [caller, called] = pair(*listener, 80);
  release_both(*caller, *called);
  const Made other = bound('a', 90, 1);
  const std::string at = GetParam().v6 ? "[fd00:77::1]:90" : "10.77.0.1:90";
  const auto outcome = connect(*called, TransportAddress::from_text(at).value());
  ASSERT_TRUE(outcome) << Endpoint::t_error("", outcome.error()) << discon_reason(*called);
  t_call call;
  ASSERT_TRUE(other->t_listen(call));
  ASSERT_TRUE(other->t_accept(*other, call));
  ASSERT_TRUE(called->t_snd(as_bytes("the other way round"), 0));
  EXPECT_EQ(receive_all(*other, 19), "the other way round");
}

INSTANTIATE_TEST_SUITE_P(Links, TcpStreams,
                         testing::Values(Link{ProcessingMode::layered, false}, Link{ProcessingMode::layered, true},
                                         Link{ProcessingMode::fused, false}, Link{ProcessingMode::fused, true}),
                         [](const auto& link) {
                           return std::string(name_of(link.param.mode)) + (link.param.v6 ? "_v6" : "_v4");
                         });

}  // namespace
}  // namespace sluice
