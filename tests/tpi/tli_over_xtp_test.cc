// SPDX-License-Identifier: Apache-2.0
// Endpoints of the transport library over xtp, over the kernel's UDP on loopback and over our own udp: calls, messages
// with their ends, releases, and accepting on another endpoint.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "stack/modules/udp.h"
#include "stack/modules/xtp.h"
#include "tests/tpi/tli_endpoints.h"
#include "tpi/register.h"

namespace sluice::tpi {
namespace {

using namespace tli;
using enum wire::tpi::TliError;

class TliOverXtp : public TliEndpoints {
 protected:
  TliOverXtp() { add_providers(registry_); }

  Made make(const xtp::Options& options = {}) {
    auto stream = provider_stream();
    EXPECT_TRUE(stream->push(std::make_unique<Xtp>(options)));
    return endpoint_on(std::move(stream));
  }
  /// Calls without waiting: the called user has to accept first.
  void call(tli::Endpoint& endpoint, const wire::TransportAddress& to) const {
    Name name(to);
    endpoint.stream().set_nonblocking(true);
    const auto called = endpoint.t_connect({.addr = name.given(), .opt = {}, .udata = {}, .sequence = 0}, nullptr);
    EXPECT_TRUE(!called && called.error().t_errno == TNODATA);
  }
  /// One that listens, one that calls it, and the call that the first has heard.
  std::tuple<Made, Made, t_call> called_listener(const xtp::Options& options = {}) {
    Made listener = make(options);
    const wire::TransportAddress at = bind(*listener, 1);
    Made caller = make(options);
    bind(*caller);
    call(*caller, at);
    EXPECT_TRUE(run_until_event(*listener, T_LISTEN));
    t_call heard;
    EXPECT_TRUE(listener->t_listen(heard));
    return {std::move(listener), std::move(caller), heard};
  }
  /// The one that called, and the one that was called.
  std::pair<Made, Made> pair(const xtp::Options& options = {}) {
    auto [listener, caller, heard] = called_listener(options);
    Made called = make(options);
    bind(*called);
    EXPECT_TRUE(listener->t_accept(*called, heard));
    EXPECT_TRUE(run_until_event(*caller, T_CONNECT));
    EXPECT_TRUE(caller->t_rcvconnect(nullptr));
    caller->stream().set_nonblocking(false);
    return {std::move(caller), std::move(called)};
  }
  /// A message of at most `size` bytes, whole.
  static std::string receive_message(tli::Endpoint& endpoint, std::size_t size) {
    std::string all;
    int flags = T_MORE;
    while ((flags & T_MORE) != 0) {
      std::string text(size, '\0');
      flags = 0;
      const auto got = endpoint.t_rcv(std::as_writable_bytes(std::span(text)), flags);
      if (!got) {
        return "error " + std::to_string(got.error().t_errno);
      }
      all += text.substr(0, *got);
    }
    return all;
  }

  std::unique_ptr<Stream> provider_stream() {
    if (GetParam().kernel) {
      return std::move(Stream::open(set, registry_.find("kernel_udp")->make(set, {}).value())).value();
    }
    auto stream = host_stream({"10.77.0.1/24"});
    EXPECT_TRUE(stream->push(udp_entry().make(set, {}).value()));
    return stream;
  }
};

TEST_P(TliOverXtp, TheServiceIsTold) {
  const Made endpoint = make();
  EXPECT_EQ(info.servtype, wire::tpi::T_COTS_ORD);
  EXPECT_EQ(info.tsdu, wire::tpi::T_INFINITE);
  EXPECT_EQ(info.etsdu, wire::tpi::T_INVALID);
  EXPECT_EQ(endpoint->t_getstate(), T_UNBND);
}

TEST_P(TliOverXtp, AConversationInMessagesWithBothReleases) {
  auto [caller, called] = pair();
  ASSERT_TRUE(caller->t_snd(as_bytes("quest"), T_MORE));
  ASSERT_TRUE(caller->t_snd(as_bytes("ion"), 0));
  ASSERT_TRUE(caller->t_snd(as_bytes("another"), 0));
  EXPECT_EQ(receive_message(*called, 100), "question");
  EXPECT_EQ(receive_message(*called, 3), "another");
  ASSERT_TRUE(called->t_snd(as_bytes("answer"), 0));
  EXPECT_EQ(receive_message(*caller, 100), "answer");
  ASSERT_TRUE(caller->t_sndrel());
  ASSERT_TRUE(run_until_event(*called, T_ORDREL));
  ASSERT_TRUE(called->t_rcvrel());
  ASSERT_TRUE(called->t_snd(as_bytes("half closed"), 0));
  ASSERT_TRUE(called->t_sndrel());
  EXPECT_EQ(called->t_getstate(), T_IDLE);
  EXPECT_EQ(receive_message(*caller, 100), "half closed");
  ASSERT_TRUE(run_until_event(*caller, T_ORDREL));
  ASSERT_TRUE(caller->t_rcvrel());
  EXPECT_EQ(caller->t_getstate(), T_IDLE);
  EXPECT_TRUE(caller->t_unbind());
  EXPECT_TRUE(called->t_unbind());
}

TEST_P(TliOverXtp, TheCallerLearnsWhereItWasAccepted) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const Made caller = make();
  const wire::TransportAddress from = bind(*caller);
  call(*caller, at);
  ASSERT_TRUE(run_until_event(*listener, T_LISTEN));
  Name source;
  t_call heard{.addr = source.asked(), .opt = {}, .udata = {}, .sequence = 0};
  ASSERT_TRUE(listener->t_listen(heard));
  EXPECT_EQ(Name::in(heard.addr), from);
  const Made called = make();
  const wire::TransportAddress responder = bind(*called);
  ASSERT_TRUE(listener->t_accept(*called, heard));
  ASSERT_TRUE(run_until_event(*caller, T_CONNECT));
  Name told;
  t_call confirmed{.addr = told.asked(), .opt = {}, .udata = {}, .sequence = 0};
  ASSERT_TRUE(caller->t_rcvconnect(&confirmed));
  EXPECT_EQ(Name::in(confirmed.addr), responder);
  Name local;
  Name remote;
  tli::t_bind boundaddr{local.asked(), 0};
  tli::t_bind peeraddr{remote.asked(), 0};
  ASSERT_TRUE(called->t_getprotaddr(&boundaddr, &peeraddr));
  EXPECT_EQ(Name::in(boundaddr.addr), responder);
  EXPECT_EQ(Name::in(peeraddr.addr), from);
}

TEST_P(TliOverXtp, AcceptedOnTheSameEndpointAndDisconnected) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const Made caller = make();
  bind(*caller);
  for (int round = 0; round < 2; ++round) {
    call(*caller, at);
    ASSERT_TRUE(run_until_event(*listener, T_LISTEN));
    t_call heard;
    ASSERT_TRUE(listener->t_listen(heard));
    ASSERT_TRUE(listener->t_accept(*listener, heard));
    ASSERT_TRUE(run_until_event(*caller, T_CONNECT));
    ASSERT_TRUE(caller->t_rcvconnect(nullptr));
    ASSERT_TRUE(caller->t_snd(as_bytes("hello"), 0));
    EXPECT_EQ(receive_message(*listener, 10), "hello");
    ASSERT_TRUE(listener->t_snddis(nullptr));
    EXPECT_EQ(listener->t_getstate(), T_IDLE);
    EXPECT_EQ(disconnection_reason(*caller), ECONNRESET);
  }
}

TEST_P(TliOverXtp, RejectedAndNobodyThere) {
  const auto [listener, caller, heard] = called_listener();
  ASSERT_TRUE(listener->t_snddis(&heard));
  EXPECT_EQ(disconnection_reason(*caller), ECONNREFUSED);
  const Made deaf = make();
  call(*caller, bind(*deaf));
  EXPECT_EQ(disconnection_reason(*caller), ECONNREFUSED);
}

TEST_P(TliOverXtp, AnAcceptorMustBeBoundAndIdle) {
  const auto [listener, caller, heard] = called_listener();
  const Made unbound = make();
  const auto refused = listener->t_accept(*unbound, heard);
  EXPECT_FALSE(refused);
  const Made listening = make();
  bind(*listening, 1);
  EXPECT_FALSE(listener->t_accept(*listening, heard));
  const Made called = make();
  bind(*called);
  EXPECT_TRUE(listener->t_accept(*called, heard));
}

TEST_P(TliOverXtp, LargeMessagesArriveWholeBothWays) {
  auto [caller, called] = pair({.packet_bytes = 8000});
  const std::array<tli::Endpoint*, 2> ends{caller.get(), called.get()};
  const std::array texts{random_text(3'000'000, 1), random_text(2'000'000, 2)};
  std::array<std::string, 2> arrived;
  std::array<std::size_t, 2> sent{};
  std::array<int, 2> last_flags{};
  for (tli::Endpoint* end : ends) {
    end->stream().set_nonblocking(true);
  }
  const auto step = [&] {
    for (std::size_t i = 0; i < 2; ++i) {
      const ConstBytes left = as_bytes(texts[i]).subspan(sent[i]);
      if (!left.empty()) {
        const std::size_t size = std::min<std::size_t>(left.size(), 1 + sent[i] % 100'001);
        const auto done = ends[i]->t_snd(left.first(size), size < left.size() ? T_MORE : 0);
        sent[i] += done.value_or(0);
        EXPECT_TRUE(done || done.error().t_errno == TFLOW);
        if (done && *done < size) {
          continue;
        }
      }
      std::string text(50'000, '\0');
      if (const auto got = ends[1 - i]->t_rcv(std::as_writable_bytes(std::span(text)), last_flags[i])) {
        arrived[i] += text.substr(0, *got);
      }
    }
    return arrived[0].size() == texts[0].size() && arrived[1].size() == texts[1].size();
  };
  ASSERT_TRUE(step_until(step));
  EXPECT_EQ(arrived[0], texts[0]);
  EXPECT_EQ(arrived[1], texts[1]);
  EXPECT_EQ(last_flags[0] & T_MORE, 0);
}

INSTANTIATE_TEST_SUITE_P(Providers, TliOverXtp, testing::ValuesIn(all_variants),
                         [](const auto& variant) { return variant_name(variant.param, "udp"); });

}  // namespace
}  // namespace sluice::tpi
