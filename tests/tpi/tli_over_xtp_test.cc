// SPDX-License-Identifier: Apache-2.0
// Endpoints of the transport library over xtp, over the kernel's UDP on loopback and over our own udp: calls, messages
// with their ends, releases, and accepting on another endpoint.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "dlpi/register.h"
#include "edge/run_loop.h"
#include "stack/modules/ip.h"
#include "stack/modules/timod.h"
#include "stack/modules/udp.h"
#include "stack/modules/xtp.h"
#include "tests/tpi/tli_over_tcp.h"
#include "tli/endpoint.h"
#include "tpi/register.h"

namespace sluice::tpi {
namespace {

using namespace tli;
using enum wire::tpi::TliError;

struct XtpVariant {
  bool kernel;
  ProcessingMode mode;
};

class TliOverXtp : public testing::TestWithParam<XtpVariant> {
 protected:
  using Made = std::unique_ptr<tli::Endpoint>;

  Made make(const xtp::Options& options = {}) {
    auto stream = provider_stream();
    EXPECT_TRUE(stream->push(std::make_unique<Xtp>(options)));
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    stream->set_mode(GetParam().mode);
    stream->set_waiter(loop.get());
    auto opened = tli::Endpoint::t_open(std::move(stream), &info);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  [[nodiscard]] static std::string host() { return GetParam().kernel ? "127.0.0.1" : "10.78.0.1"; }
  wire::TransportAddress bind(tli::Endpoint& endpoint, std::uint32_t qlen = 0) const {
    Name name(wire::TransportAddress::from_text(host() + ":0").value());
    tli::t_bind request{name.given(), qlen};
    Name answer;
    tli::t_bind bound{answer.asked(), 0};
    EXPECT_TRUE(endpoint.t_bind(&request, &bound));
    EXPECT_EQ(bound.qlen, qlen);
    return Name::in(bound.addr);
  }
  /// Calls without waiting: the called user has to accept first.
  void call(tli::Endpoint& endpoint, const wire::TransportAddress& to) const {
    Name name(to);
    endpoint.stream().set_nonblocking(true);
    const auto called = endpoint.t_connect({.addr = name.given(), .opt = {}, .udata = {}, .sequence = 0}, nullptr);
    EXPECT_TRUE(!called && called.error().t_errno == TNODATA);
  }
  /// The one that called, and the one that was called.
  std::pair<Made, Made> pair(const xtp::Options& options = {}) {
    const Made listener = make(options);
    const wire::TransportAddress at = bind(*listener, 1);
    Made caller = make(options);
    bind(*caller);
    call(*caller, at);
    EXPECT_TRUE(run_until_event(*listener, T_LISTEN));
    t_call heard;
    EXPECT_TRUE(listener->t_listen(heard));
    Made called = make(options);
    bind(*called);
    EXPECT_TRUE(listener->t_accept(*called, heard));
    EXPECT_TRUE(run_until_event(*caller, T_CONNECT));
    EXPECT_TRUE(caller->t_rcvconnect(nullptr));
    caller->stream().set_nonblocking(false);
    return {std::move(caller), std::move(called)};
  }
  template <class Predicate>
  [[nodiscard]] bool run_until(Predicate predicate) const {
    return loop->run_until(predicate, loop->now() + std::chrono::seconds(20));
  }
  [[nodiscard]] bool run_until_event(tli::Endpoint& endpoint, std::uint16_t event) const {
    return run_until([&] { return endpoint.t_look() == event; });
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
      auto driver = providers_.find("kernel_udp")->make(set, {});
      return std::move(Stream::open(set, std::move(*driver))).value();
    }
    Parameters link;
    link.set("name", std::string("xtp_lab"));
    link.set("end", std::string("a"));
    auto stream = std::move(Stream::open(set, links_.find("wire")->make(set, link).value())).value();
    Parameters host_parameters;
    host_parameters.set("address", std::vector<std::string>{"10.78.0.1/24"});
    EXPECT_TRUE(stream->push(ip_entry().make(set, host_parameters).value()));
    EXPECT_TRUE(stream->push(udp_entry().make(set, {}).value()));
    return stream;
  }
  static Registry links() {
    Registry registry;
    dlpi::add_drivers(registry);
    return registry;
  }
  static Registry providers() {
    Registry registry;
    add_providers(registry);
    return registry;
  }

  Registry links_ = links();
  Registry providers_ = providers();
  StreamSet set{{.defer_bytes_min = 0}};
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
  tli::t_info info;
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
    ASSERT_TRUE(run_until_event(*caller, T_DISCONNECT));
    t_discon discon;
    ASSERT_TRUE(caller->t_rcvdis(&discon));
    EXPECT_EQ(discon.reason, ECONNRESET);
  }
}

TEST_P(TliOverXtp, RejectedAndNobodyThere) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const Made caller = make();
  bind(*caller);
  call(*caller, at);
  ASSERT_TRUE(run_until_event(*listener, T_LISTEN));
  t_call heard;
  ASSERT_TRUE(listener->t_listen(heard));
  ASSERT_TRUE(listener->t_snddis(&heard));
  ASSERT_TRUE(run_until_event(*caller, T_DISCONNECT));
  t_discon discon;
  ASSERT_TRUE(caller->t_rcvdis(&discon));
  EXPECT_EQ(discon.reason, ECONNREFUSED);
  const Made deaf = make();
  call(*caller, bind(*deaf));
  ASSERT_TRUE(run_until_event(*caller, T_DISCONNECT));
  ASSERT_TRUE(caller->t_rcvdis(&discon));
  EXPECT_EQ(discon.reason, ECONNREFUSED);
}

TEST_P(TliOverXtp, AnAcceptorMustBeBoundAndIdle) {
  const Made listener = make();
  const wire::TransportAddress at = bind(*listener, 1);
  const Made caller = make();
  bind(*caller);
  call(*caller, at);
  ASSERT_TRUE(run_until_event(*listener, T_LISTEN));
  t_call heard;
  ASSERT_TRUE(listener->t_listen(heard));
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
  bool all = false;
  for (const TimePoint end = loop->now() + std::chrono::seconds(20); !all && loop->now() < end;) {
    all = loop->run_until(step, loop->now() + std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(all);
  EXPECT_EQ(arrived[0], texts[0]);
  EXPECT_EQ(arrived[1], texts[1]);
  EXPECT_EQ(last_flags[0] & T_MORE, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Providers, TliOverXtp,
    testing::Values(XtpVariant{true, ProcessingMode::layered}, XtpVariant{true, ProcessingMode::fused},
                    XtpVariant{false, ProcessingMode::layered}, XtpVariant{false, ProcessingMode::fused}),
    [](const auto& variant) {
      return std::string(variant.param.kernel ? "kernel_udp_" : "udp_") + std::string(name_of(variant.param.mode));
    });

}  // namespace
}  // namespace sluice::tpi
