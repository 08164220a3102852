// SPDX-License-Identifier: Apache-2.0
// A whole conversation over a connection with its n-th allocation failing, for n = 1 and so on until none is left to
// fail: each call is done, or refused with ENOSR and done when it is made again; what is owed comes, and no byte is
// lost (docs/streams.md, "When the pool is exhausted").
#include "tests/tpi/tli_over_tcp.h"

namespace sluice::tpi {
namespace {

using namespace tli;
using enum wire::tpi::TliError;

class TliExhaustion : public TliOverTcp {
 protected:
  static constexpr int attempts_max = 8;

  /// What `call` answers once it is not refused any more.
  template <class Call>
  auto repeat(std::string_view what, Call call) {
    for (int attempt = 1;; ++attempt) {
      auto outcome = call();
      const bool refused = !outcome && outcome.error() == Failure{TSYSERR, ENOSR};
      if (!refused || attempt == attempts_max) {
        EXPECT_TRUE(outcome) << what << ", attempt " << attempt << ": "
                             << (outcome ? "" : tli::Endpoint::t_error("", outcome.error()));
        return outcome;
      }
    }
  }
  Made open() {
    Made made;
    repeat("t_open", [&]() -> Outcome<> {
      auto stream = Stream::open(set, std::make_unique<KernelTcp>(set, TcpSocket::Options{}));
      if (!stream || !(*stream)->push(std::make_unique<Timod>())) {
        return failed(TSYSERR, ENOSR);
      }
      (*stream)->set_mode(GetParam().mode);
      (*stream)->set_waiter(loop.get());
      auto opened = tli::Endpoint::t_open(std::move(*stream), nullptr);
      if (!opened) {
        return std::unexpected(opened.error());
      }
      made = std::move(*opened);
      return {};
    });
    return made;
  }
  /// Sends all of it, and the other end receives it.
  void carry(tli::Endpoint& from, tli::Endpoint& to, const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const auto done = repeat("t_snd", [&] { return from.t_snd(as_bytes(text).subspan(sent), 0); });
      if (!done) {
        return;
      }
      sent += *done;
    }
    std::string arrived;
    while (arrived.size() < text.size()) {
      std::string part(text.size(), '\0');
      int flags = 0;
      const auto got = repeat("t_rcv", [&] { return to.t_rcv(std::as_writable_bytes(std::span(part)), flags); });
      if (!got) {
        return;
      }
      arrived.append(part, 0, *got);
    }
    EXPECT_TRUE(arrived == text);
  }
  void converse() {
    const Made listener = open();
    Name any(wire::TransportAddress::from_text("127.0.0.1:0").value());
    tli::t_bind request{any.given(), 2};
    Name at;
    tli::t_bind bound{at.asked(), 0};
    repeat("t_bind", [&] { return listener->t_bind(&request, &bound); });
    const Made caller = open();
    repeat("t_bind", [&] { return caller->t_bind(nullptr, nullptr); });
    repeat("t_connect", [&] {
      const auto done = caller->t_connect(
          {.addr = {.maxlen = 0, .len = bound.addr.len, .buf = bound.addr.buf}, .opt = {}, .udata = {}, .sequence = 0},
          nullptr);
      return done;
    });
    t_call call;
    repeat("t_listen", [&] { return listener->t_listen(call); });
    const Made called = open();
    repeat("t_accept", [&] { return listener->t_accept(*called, call); });
    carry(*caller, *called, random_text(20'000, 1));
    carry(*called, *caller, random_text(100, 2));
    repeat("t_sndrel", [&] { return caller->t_sndrel(); });
    ASSERT_TRUE(run_until_event(*called, T_ORDREL));
    repeat("t_rcvrel", [&] { return called->t_rcvrel(); });
    repeat("t_snddis", [&] { return called->t_snddis(nullptr); });
    EXPECT_EQ(called->t_getstate(), T_IDLE);
    ASSERT_TRUE(run_until_event(*caller, T_DISCONNECT));
    repeat("t_rcvdis", [&] { return caller->t_rcvdis(nullptr); });
    repeat("t_unbind", [&] { return listener->t_unbind(); });
  }
};

TEST_P(TliExhaustion, EachAllocationFails) {
  for (const std::uint64_t length : {1U, 3U}) {
    std::uint64_t asked = 0;
    std::uint64_t first = 0;
    do {
      ++first;
      asked = 0;
      SCOPED_TRACE(testing::Message() << length << " allocations fail from number " << first << " on");
      set.pool().fail_when([&] {
        ++asked;
        return asked >= first && asked < first + length;
      });
      converse();
      set.pool().fail_when({});
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
    } while (asked >= first && first < 1000);
    EXPECT_GT(first, 20U) << "too few for a conversation";
  }
}

INSTANTIATE_TEST_SUITE_P(BothModes, TliExhaustion,
                         testing::Values(ProviderVariant{true, ProcessingMode::layered},
                                         ProviderVariant{true, ProcessingMode::fused}),
                         name_of_variant);

}  // namespace
}  // namespace sluice::tpi
