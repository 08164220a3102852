// SPDX-License-Identifier: Apache-2.0
// Messages that nobody has posted a receive for: held within bounds, refused beyond them; and messages that lose their
// end on the way.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/msg/bed.h"

namespace sluice::test::msgs {
namespace {

class MsgUnexpected : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] Arrangement arrangement() const { return {.name = "unexpected", .mode = GetParam()}; }
  /// Sends, and waits until the peer has it, or has refused it.
  void send(Bed& bed, std::uint64_t bits, std::size_t size, int error = 0) {
    const std::vector<std::byte> bytes = content(bits, size);
    const auto sent = bed[0].wait(*bed[0].send(bed.peer(1), bits, bytes), bed.soon());
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->error, error) << bits;
    bed.settle();
  }
  /// The bits of the messages that are held, in their order.
  static std::vector<std::uint64_t> held(Bed& bed) {
    std::vector<std::uint64_t> bits;
    std::vector<std::byte> buffer(100'000);
    while (bed[1].probe({.ignore = any_bits})) {
      const auto done = bed[1].test(*bed[1].post(buffer, {.ignore = any_bits}));
      if (!done) {
        ADD_FAILURE() << "what is whole is delivered at once";
        break;
      }
      EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(done->bytes),
                             content(done->bits, done->bytes).begin()));
      bits.push_back(done->bits);
    }
    return bits;
  }
};

INSTANTIATE_TEST_SUITE_P(Over, MsgUnexpected, testing::Values("layered", "fused"),
                         [](const auto& tested) { return tested.param; });

TEST_P(MsgUnexpected, BytesAreBounded) {
  Bed bed(arrangement(), 2, {.unexpected_bytes_max = 10'000});
  send(bed, 1, 6000);
  send(bed, 2, 4001, EXFULL);  // one byte too many
  send(bed, 3, 4000);
  send(bed, 4, 1, EXFULL);
  send(bed, 5, 0);
  EXPECT_EQ(bed[1].statistics().refused, 2U);
  EXPECT_EQ(bed[1].statistics().unexpected_bytes, 10'000U);
  EXPECT_EQ(held(bed), (std::vector<std::uint64_t>{1, 3, 5}));
  EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U);
  send(bed, 6, 10'000);
  EXPECT_EQ(held(bed), std::vector<std::uint64_t>{6}) << "there is room again";
}

TEST_P(MsgUnexpected, TheirNumberIsBounded) {
  Bed bed(arrangement(), 2, {.unexpected_messages_max = 3});
  for (std::uint64_t bits = 1; bits <= 5; ++bits) {
    send(bed, bits, 0, bits <= 3 ? 0 : EXFULL);
  }
  EXPECT_EQ(bed[1].statistics().refused, 2U);
  EXPECT_EQ(held(bed), (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_P(MsgUnexpected, APostedReceiveIsNotTouchedByTheBounds) {
  Bed bed(arrangement(), 2, {.unexpected_bytes_max = 0, .unexpected_messages_max = 1});
  std::vector<std::byte> buffer(50'000);
  const Handle receive = *bed[1].post(buffer, {.bits = 2});
  send(bed, 1, 50'000, EXFULL);
  send(bed, 2, 50'000);
  EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
  EXPECT_TRUE(buffer == content(2, 50'000));
  EXPECT_EQ(bed[1].statistics().refused, 1U);
}

// What a message holds it holds from its first packet on, and a receive may be posted while it comes.
TEST_P(MsgUnexpected, AReceivePostedInTheMiddleOfAMessageGetsAllOfIt) {
  Arrangement slow = arrangement();
  slow.fault = "rate_mbit = 1, direction = \"down\"";
  Bed bed(slow, 2, {.unexpected_bytes_max = 50'000});
  const std::vector<std::byte> bytes = content(1, 50'000);
  const Handle sending = *bed[0].send(bed.peer(1), 1, bytes);
  for (int turns = 0; turns < 100'000 && !bed[1].probe({.bits = 1}); ++turns) {
    static_cast<void>(bed.waiter().wait(bed.soon()));
  }
  ASSERT_TRUE(bed[1].probe({.bits = 1}));
  EXPECT_FALSE(bed[1].probe({.bits = 1})->whole);
  EXPECT_EQ(bed[1].statistics().unexpected_bytes, 50'000U);
  std::vector<std::byte> buffer(50'000);
  const Handle receive = *bed[1].post(buffer, {.bits = 1});
  EXPECT_FALSE(bed[1].probe({.bits = 1}));
  EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
  EXPECT_TRUE(buffer == bytes);
  EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, 0);
  EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U);
}

// The sender hears of a refusal however long the message is and whatever gets lost on the way, and later messages come.
TEST_P(MsgUnexpected, ARefusalIsToldToTheSenderOverALinkThatLoses) {
  over_seeds([this](std::uint64_t seed) {
    for (const std::string settings : {"recovery = \"message\"", "recovery = \"selective\""}) {
      Arrangement lossy = arrangement();
      lossy.settings = settings + ", timeout_ms = 5, attempts = 200";
      lossy.fault = "loss = 0.1, duplicate = 0.1, seed = " + std::to_string(seed);
      lossy.seed = seed;
      Bed bed(lossy, 2, {.unexpected_bytes_max = 0});
      for (const std::size_t size : {std::size_t{1}, std::size_t{1400}, std::size_t{1401}, std::size_t{60'000}}) {
        send(bed, size, size, EXFULL);
        std::vector<std::byte> buffer(size);
        const Handle receive = *bed[1].post(buffer, {.bits = size});
        send(bed, size, size);
        EXPECT_EQ(bed[1].wait(receive, bed.soon())->error, 0);
        EXPECT_TRUE(buffer == content(size, size));
      }
      EXPECT_EQ(bed[1].statistics().refused, 4U);
      EXPECT_EQ(bed[1].statistics().lost, 0U);
      EXPECT_EQ(bed.count(1, "rmpp", "messages_refused"), 4U);
    }
  });
}

// utopia: "nothing is sent again, and nobody says that it came". A message of one packet has left when it is refused;
// the sender of a longer one waits for a grant, and is told.
TEST_P(MsgUnexpected, OverUtopiaOnlyTheSenderOfALongMessageHearsOfARefusal) {
  Arrangement without_recovery = arrangement();
  without_recovery.module = "utopia";
  Bed bed(without_recovery, 2, {.unexpected_bytes_max = 0});
  send(bed, 1, 1400);
  send(bed, 2, 1401, EXFULL);
  send(bed, 3, 60'000, EXFULL);
  EXPECT_EQ(bed[1].statistics().refused, 3U);
  EXPECT_EQ(bed[1].statistics().lost, 0U);
  EXPECT_EQ(bed[1].statistics().stray, 0U);
}

// Nothing is said to the sender before the receiver's program has looked: else what it refuses would have arrived.
TEST_P(MsgUnexpected, AMessageHasNotArrivedBeforeTheEndpointHasLookedAtIt) {
  Bed bed(arrangement(), 2);
  const std::vector<std::byte> bytes = content(1, 10);
  const Handle sending = *bed[0].send(bed.peer(1), 1, bytes);
  SimulatedWaiter alone(bed.set());
  for (int turns = 0; turns < 20; ++turns) {
    static_cast<void>(alone.wait(alone.now() + 1ms));
    bed[0].progress();
  }
  EXPECT_EQ(bed[0].test(sending).error().code, EAGAIN);
  EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, 0);
}

// A receive that is cancelled in the middle of its message: its buffer is left alone from then on, the sender is told.
TEST_P(MsgUnexpected, AReceiveThatAMessageHasMatchedCanBeCancelled) {
  for (const bool expected : {true, false}) {
    Arrangement slow = arrangement();
    slow.fault = "rate_mbit = 1, direction = \"down\"";
    Bed bed(slow, 2);
    const std::vector<std::byte> bytes = content(1, 50'000);
    std::vector<std::byte> buffer(50'000);
    Handle receive;
    if (expected) {
      receive = *bed[1].post(buffer, {.bits = 1});
    }
    const Handle sending = *bed[0].send(bed.peer(1), 1, bytes);
    for (int turns = 0; turns < 100'000 && bed.count(1, "rmpp", "packets_in") < 5; ++turns) {
      static_cast<void>(bed.waiter().wait(bed.soon()));
    }
    if (!expected) {
      receive = *bed[1].post(buffer, {.bits = 1});
    }
    EXPECT_EQ(bed[1].test(receive).error().code, EAGAIN);
    EXPECT_TRUE(bed[1].cancel(receive));
    EXPECT_EQ(bed[1].test(receive).error().code, EINVAL);
    EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U);
    EXPECT_EQ(bed[1].statistics().unexpected_messages, 0U);
    const std::vector<std::byte> then = buffer;
    EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, EXFULL);
    bed.settle();
    EXPECT_TRUE(buffer == then);
    EXPECT_FALSE(bed[1].probe({.ignore = any_bits}));
    const Handle next = *bed[1].post(buffer, {.bits = 2});
    send(bed, 2, 50'000);
    EXPECT_EQ(bed[1].wait(next, bed.soon())->error, 0);
    EXPECT_TRUE(buffer == content(2, 50'000));
    EXPECT_EQ(bed[1].statistics().lost, 0U);
    EXPECT_EQ(bed[1].statistics().stray, 0U);
  }
}

/// A sender that goes in the middle of a message, of which `size` bytes were meant to come.
class MsgLost : public MsgUnexpected {
 protected:
  void half_a_message(Bed& bed) {
    const Handle sending = *bed[0].send(bed.peer(1), 1, bytes_);
    for (int turns = 0;
         turns < 100'000 && bed[1].probe({.bits = 1}) == std::nullopt && bed.count(1, "rmpp", "packets_in") < 4;
         ++turns) {
      static_cast<void>(bed.waiter().wait(bed.soon()));
    }
    EXPECT_EQ(bed[0].test(sending).error().code, EAGAIN);
    bed.close(0);
  }
  const std::vector<std::byte> bytes_ = content(1, 50'000);
};

INSTANTIATE_TEST_SUITE_P(Over, MsgLost, testing::Values("layered", "fused"),
                         [](const auto& tested) { return tested.param; });

TEST_P(MsgLost, EndsItsReceiveAndGivesBackWhatItHeld) {
  Arrangement slow = arrangement();
  slow.fault = "rate_mbit = 1, direction = \"down\"";
  slow.settings = "dead_ms = 4000";
  for (const bool expected : {true, false}) {
    Bed bed(slow, 2);
    std::vector<std::byte> buffer(50'000);
    Handle receive;
    if (expected) {
      receive = *bed[1].post(buffer, {.bits = 1});
    }
    half_a_message(bed);
    EXPECT_EQ(bed[1].statistics().unexpected_bytes, expected ? 0U : 50'000U);
    if (expected) {
      EXPECT_EQ(bed[1].test(receive).error().code, EAGAIN);
      const auto done = bed[1].wait(receive, bed.soon());
      ASSERT_TRUE(done);
      EXPECT_EQ(done->error, ECONNABORTED);
      EXPECT_EQ(done->bytes, 0U);
      EXPECT_EQ(done->total_bytes, 50'000U);
    }
    bed.pass(10s);
    EXPECT_FALSE(bed[1].probe({.bits = 1}));
    EXPECT_EQ(bed[1].statistics().lost, 1U);
    EXPECT_EQ(bed[1].statistics().unexpected_bytes, 0U);
    EXPECT_EQ(bed[1].statistics().unexpected_messages, 0U);
  }
}

TEST_P(MsgLost, ASendToNobodyFailsInTheEnd) {
  Arrangement impatient = arrangement();
  impatient.settings = "attempts = 3";
  Bed bed(impatient, 2);
  const Peer nobody{*wire::IpAddress::from_text("10.80.0.2"), 9};
  const auto sent = bed[0].wait(*bed[0].send(nobody, 1, bytes_), bed.soon());
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->error, ETIMEDOUT);
}

}  // namespace
}  // namespace sluice::test::msgs
