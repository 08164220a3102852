// SPDX-License-Identifier: Apache-2.0
// Connections where something lacks: callers that read no answers, calls and messages that find no memory, callers that
// leave before they are answered, and a provider whose callers have no address.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "stack/modules/timod.h"
#include "tests/msg/callers.h"
#include "tests/tli/connection_harness.h"

namespace sluice::test::msgs {
namespace {

// ---- Answers that are not read ----

/// A caller of endpoint 0 that sends messages of no bytes, each of which is refused, and reads no answers by itself.
class DeafCaller {
 public:
  explicit DeafCaller(Bed& bed) : bed_(bed), caller_(bed) { caller_.say(frames({hello})); }

  /// Sends until nothing more is taken and the endpoint takes no message any more, or so many have left.
  void talk(std::uint64_t messages_max) {
    for (int idle = 0; idle < 20 && said_ < messages_max;) {
      const std::uint64_t before = said_ + refused();
      for (std::size_t taken = 1; taken > 0 && said_ < messages_max;) {
        while (unsaid_.size() < std::size_t{64} * 1024) {
          const auto next = frames({{.type = FrameKind::message, .number = ++number_}});
          unsaid_.insert(unsaid_.end(), next.begin(), next.end());
        }
        taken = caller_.try_to_say(unsaid_);
        unsaid_.erase(unsaid_.begin(), unsaid_.begin() + static_cast<std::ptrdiff_t>(taken));
        said_ = number_ - unsaid_.size() / MsgFrame::size;
      }
      bed_.pass(100ms);
      idle = said_ + refused() == before ? idle + 1 : 0;
    }
  }
  /// Reads answers while some come; how many bytes, of all so far.
  std::uint64_t listen() {
    for (int idle = 0; idle < 20;) {
      std::uint64_t got = 0;
      for (std::size_t now = 1; now > 0; got += now) {
        now = caller_.hear(place_);
      }
      heard_ += got;
      bed_.pass(100ms);
      idle = got == 0 ? idle + 1 : 0;
    }
    return heard_;
  }
  [[nodiscard]] std::uint64_t refused() const { return bed_[0].statistics().refused; }
  /// Messages that the caller's provider has taken at least in part.
  [[nodiscard]] std::uint64_t said() const { return said_; }

 private:
  Bed& bed_;
  WireCaller caller_;
  std::vector<std::byte> unsaid_;
  std::vector<std::byte> place_ = std::vector<std::byte>(std::size_t{64} * 1024);
  std::uint64_t number_ = 0;
  std::uint64_t said_ = 0;
  std::uint64_t heard_ = 0;
};

class MsgBounds : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] Arrangement arrangement() const { return {.name = "bounds", .module = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Over, MsgBounds, testing::Values("tcp", "xtp"), [](const auto& one) { return one.param; });

// msg/connections.h: "Each may make the endpoint keep [...] 64 KiB of answers that it does not read".
TEST_P(MsgBounds, ACallerThatReadsNoAnswersIsNotReadFromBeyondTheBound) {
  constexpr std::uint64_t kept = std::uint64_t{64} * 1024;
  constexpr std::uint64_t messages_max = 2'000'000;
  Bed bed(arrangement(), 1, {.unexpected_messages_max = 0});
  DeafCaller caller(bed);
  caller.talk(messages_max);
  ASSERT_LT(caller.said(), messages_max) << "it is read from for ever";
  const std::uint64_t answered = caller.refused() * MsgFrame::size;
  // What the provider has taken of the answers comes without the endpoint; what it keeps itself does not.
  bed.hold_back(0);
  const std::uint64_t taken = caller.listen();
  ASSERT_LT(taken, answered);
  EXPECT_GE(answered - taken, kept);
  EXPECT_LT(answered - taken, kept + MsgFrame::size);
  // It goes on as soon as they are read.
  bed.resume(0);
  EXPECT_GE(caller.listen(), (caller.said() - 1) * MsgFrame::size);
  EXPECT_GT(caller.refused() * MsgFrame::size, answered);
  EXPECT_EQ(caller.listen(), caller.refused() * MsgFrame::size);
  EXPECT_EQ(bed[0].statistics().malformed, 0U);
}

// ---- No memory for a while ----

// Nothing else happens on an idle connection: only the endpoint's own timer makes it try again.
TEST_P(MsgBounds, AMessageThatFindsNoMemoryLeavesWhenThereIsSome) {
  Bed bed(arrangement(), 2);
  std::vector<std::byte> buffer(100);
  const auto bytes = content(1, buffer.size());
  const Handle first = *bed[1].post(buffer, {.bits = 1});
  ASSERT_EQ(bed[0].wait(*bed[0].send(bed.peer(1), 1, bytes), bed.soon())->error, 0);
  ASSERT_EQ(bed[1].wait(first, bed.soon())->error, 0);
  bed.pass(5s);
  ASSERT_FALSE(bed.waiter().wait(bed.waiter().now() + 5s)) << "the connection is not idle";
  const TimePoint memory_at = bed.waiter().now() + 5s;
  bool failed = false;
  bed.set().pool().fail_when([&] { return bed.waiter().now() < memory_at && (failed = true); });
  const Handle receive = *bed[1].post(buffer, {.bits = 2});
  const Handle sending = *bed[0].send(bed.peer(1), 2, bytes);
  bed.pass(5s - 1ms);
  EXPECT_TRUE(failed);
  EXPECT_EQ(bed[0].test(sending).error().code, EAGAIN);
  bed.pass(100ms);
  EXPECT_TRUE(bed[1].test(receive));
  const auto sent = bed[0].test(sending);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->error, 0);
  bed.pass(5s);
  EXPECT_FALSE(bed.waiter().wait(bed.waiter().now() + 5s)) << "it goes on trying";
  bed.set().pool().fail_when(nullptr);
}

// ---- Calls, by a provider that the test commands ----

/// As ConnectionProvider, bound to what it is asked for.
class CallingProvider : public ConnectionProvider {
 public:
  CallingProvider() { info.addr_size = Peer::encoded_size_max; }
  void wput(Batch&& batch) override {
    Batch rest;
    while (Message message = batch.pop()) {
      const bool is_bind = is_protocol(message.type()) && tpi::BindReq::decode(message.bytes()).has_value();
      if (is_bind) {
        const auto asked = tpi::BindReq::decode(message.bytes());
        info.current_state = tpi::TS_IDLE;
        up(tpi::BindAck{asked->address, asked->connect_indications}, {}, 0, MessageType::pcproto);
      } else {
        rest.push(std::move(message));
      }
    }
    if (!rest.empty()) {
      ConnectionProvider::wput(std::move(rest));
    }
  }
  void called(std::int32_t sequence, const Peer& from) {
    std::array<std::byte, Peer::encoded_size_max> bytes;
    indicates(sequence, as_text(ConstBytes(bytes).first(from.encode(bytes))));
  }
};

class MsgCalls : public testing::Test {
 protected:
  MsgCalls() {
    auto stream = opened(&listener);
    auto made = Endpoint::open(std::move(stream), {.local = Peer{*wire::IpAddress::from_text("10.80.0.1"), 7000},
                                                   .another_stream = [this]() -> Result<std::unique_ptr<Stream>> {
                                                     ++asked;
                                                     if (waiter.now() < memory_at) {
                                                       return fail(ENOSR);
                                                     }
                                                     CallingProvider* at = nullptr;
                                                     return opened(&at);
                                                   }});
    EXPECT_TRUE(made) << made.error().text;
    endpoint = std::move(*made);
    waiter.endpoints.push_back(endpoint.get());
  }
  std::unique_ptr<Stream> opened(CallingProvider** at) {
    auto made = std::make_unique<CallingProvider>();
    *at = made.get();
    auto stream = std::move(*Stream::open(set, std::move(made)));
    stream->set_waiter(&waiter);
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    return stream;
  }
  void pass(Duration time) {
    const TimePoint end = waiter.now() + time;
    while (waiter.now() < end) {
      static_cast<void>(waiter.wait(end));
    }
  }
  /// What the listener's provider has been told of a call.
  [[nodiscard]] std::string said_of(std::int32_t sequence) const {
    std::string said;
    for (const std::string& one : listener->sent) {
      const std::string named = " of " + std::to_string(sequence) + " ";
      said += one.find(named) == std::string::npos ? "" : one.substr(0, one.find(' ')) + " ";
    }
    return said;
  }

  StreamSet set{{.defer_bytes_min = 0}};
  TurnsWaiter waiter{set};
  TimePoint memory_at{};  // until then there is none for a stream
  int asked = 0;          // for one
  CallingProvider* listener = nullptr;
  std::unique_ptr<Endpoint> endpoint;
  const Peer caller{*wire::IpAddress::from_text("10.80.0.2"), 7001};
};

TEST_F(MsgCalls, ACallThatFindsNoMemoryIsAcceptedWhenThereIsSome) {
  memory_at = waiter.now() + 5s;
  listener->called(1, caller);
  pass(5s - 1ms);
  EXPECT_EQ(said_of(1), "");
  pass(10ms);
  EXPECT_EQ(said_of(1), "T_CONN_RES ");
  const int then = asked;
  pass(5s);
  EXPECT_EQ(asked, then);
  EXPECT_FALSE(waiter.wait(waiter.now() + 1s)) << "it goes on trying";
  EXPECT_EQ(endpoint->statistics().callers_refused, 0U);
}

// It has gone before there was memory for it: nothing is said to it, and the next one is heard.
TEST_F(MsgCalls, ACallerThatLeavesWhileItWaitsIsForgotten) {
  memory_at = waiter.now() + 5s;
  listener->called(1, caller);
  pass(1s);
  ASSERT_GT(asked, 0);
  listener->withdraws(1);
  pass(1s);
  const int then = asked;
  pass(1s);
  EXPECT_EQ(asked, then) << "for nobody";
  listener->called(2, caller);
  pass(5s);
  EXPECT_EQ(said_of(1), "");
  EXPECT_EQ(said_of(2), "T_CONN_RES ");
  EXPECT_EQ(endpoint->statistics().callers_refused, 0U);
}

// Nothing could be said of who sends its messages.
TEST_F(MsgCalls, ACallerWithoutAnAddressIsRefused) {
  listener->indicates(1, "caller");
  listener->called(2, {caller.address, 0});
  listener->called(3, caller);
  pass(1s);
  EXPECT_EQ(said_of(1), "T_DISCON_REQ ");
  EXPECT_EQ(said_of(2), "T_DISCON_REQ ");
  EXPECT_EQ(said_of(3), "T_CONN_RES ");
  EXPECT_EQ(endpoint->statistics().callers_refused, 2U);
  EXPECT_EQ(asked, 1) << "no stream is opened for who is refused";
}

}  // namespace
}  // namespace sluice::test::msgs
