// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>

#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint64_t seed = 20260101;

Fault::Options only_down(const FaultSettings& settings, std::uint64_t with_seed = seed) {
  return {.settings = settings, .up = false, .down = true, .seed = with_seed};
}

/// Sends `messages` numbered ones down, all at once, and returns the numbers in the order of their departure.
std::vector<int> send_numbered(Stack& stack, int messages, Duration between = {}) {
  for (int i = 0; i < messages; ++i) {
    stack.down(data(stack, std::to_string(i)));
    stack.advance(between);
  }
  stack.advance(seconds(10));
  std::vector<int> numbers;
  for (const std::string& text : take_texts(stack.driver())) {
    numbers.push_back(std::stoi(text));
  }
  return numbers;
}

std::uint64_t down(const Fault& fault, const std::string& name) { return count(fault, "down_" + name); }

/// in + duplicated = lost + queue_dropped + flushed + out, once nothing is on its way.
void expect_every_message_accounted_for(const Fault& fault) {
  EXPECT_EQ(down(fault, "in") + down(fault, "duplicated"),
            down(fault, "lost") + down(fault, "queue_dropped") + down(fault, "flushed") + down(fault, "out"));
}

TEST(Fault, WithoutParametersItPassesABatchWholeAndAtOnce) {
  Stack stack;
  stack.push<Fault>(Fault::Options{});
  Batch batch(data(stack, "a"));
  batch.push(data(stack, "b"));
  stack.down(std::move(batch));
  EXPECT_EQ(stack.driver().batch_sizes(), std::vector<std::size_t>{2});
  EXPECT_EQ(take_texts(stack.driver()), (std::vector<std::string>{"a", "b"}));
}

// An empty line says that its next message departs never, and a simulation may run until then.
TEST(Fault, AtTheEndOfTimeAnEmptyLineGivesNothing) {
  Stack stack;
  const Fault& fault = stack.push<Fault>(only_down({.delay = milliseconds(1)}));
  EXPECT_EQ(send_numbered(stack, 1), std::vector<int>{0});
  stack.set().scheduler().poll(never);
  stack.down(flush(stack, flush_write));
  EXPECT_EQ(stack.driver().take().type(), MessageType::flush);
  expect_every_message_accounted_for(fault);
}

TEST(Fault, LossIsIndependentAndOfTheRateAskedFor) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.loss = 0.05}));
  const int messages = 20000;
  const std::vector<int> arrived = send_numbered(stack, messages);
  const double expected = messages * 0.05;
  const double deviation = std::sqrt(messages * 0.05 * 0.95);
  EXPECT_NEAR(static_cast<double>(down(fault, "lost")), expected, 4 * deviation) << "seed " << seed;
  EXPECT_EQ(arrived.size(), messages - down(fault, "lost"));
  EXPECT_TRUE(std::ranges::is_sorted(arrived));
  expect_every_message_accounted_for(fault);
}

/// The lengths of the runs of missing numbers.
std::vector<int> gaps(const std::vector<int>& arrived) {
  std::vector<int> lengths;
  int expected = 0;
  for (const int number : arrived) {
    if (number > expected) {
      lengths.push_back(number - expected);
    }
    expected = number + 1;
  }
  return lengths;
}

TEST(Fault, BurstsHaveTheMeanLengthAndTheLossAskedFor) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.loss = 0.02, .burst_messages = 5.0}));
  const int messages = 100000;
  const std::vector<int> lengths = gaps(send_numbered(stack, messages));
  const double mean = static_cast<double>(down(fault, "lost")) / static_cast<double>(lengths.size());
  EXPECT_NEAR(mean, 5, 1) << "seed " << seed;
  EXPECT_NEAR(static_cast<double>(down(fault, "lost")) / messages, 0.02, 0.005) << "seed " << seed;
}

TEST(Fault, ABurstOfOneNeverLosesTwoInARow) {
  Stack stack;
  stack.push<Fault>(only_down({.loss = 0.3, .burst_messages = 1.0}));
  const std::vector<int> lengths = gaps(send_numbered(stack, 5000));
  EXPECT_FALSE(lengths.empty());
  EXPECT_EQ(std::ranges::count(lengths, 1), static_cast<std::ptrdiff_t>(lengths.size()));
}

TEST(Fault, LosingEverythingLosesEverything) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.loss = 1}));
  EXPECT_TRUE(send_numbered(stack, 100).empty());
  EXPECT_EQ(down(fault, "lost"), 100U);
}

TEST(Fault, ADuplicateFollowsItsOriginal) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.duplicate = 1}));
  EXPECT_EQ(send_numbered(stack, 3), (std::vector<int>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(down(fault, "duplicated"), 3U);
  expect_every_message_accounted_for(fault);
}

TEST(Fault, ReorderedMessagesAreOvertakenAndNoneIsLost) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.reorder = 0.1, .reorder_delay = milliseconds(3)}));
  const int messages = 2000;
  const std::vector<int> arrived = send_numbered(stack, messages, milliseconds(1));
  EXPECT_EQ(std::set<int>(arrived.begin(), arrived.end()).size(), static_cast<std::size_t>(messages));
  int late = 0;
  int newest = -1;
  for (const int number : arrived) {
    late += number < newest ? 1 : 0;
    EXPECT_GE(number, newest - 3) << "held back for longer than 3 ms, seed " << seed;
    newest = std::max(newest, number);
  }
  EXPECT_EQ(down(fault, "reordered"), static_cast<std::uint64_t>(late));
  EXPECT_NEAR(late, messages * 0.1, 60) << "seed " << seed;
}

/// Bits that differ from zero in everything the driver got.
std::uint64_t flipped_bits(Recorder& driver) {
  std::uint64_t flipped = 0;
  for (const std::string& text : take_texts(driver)) {
    for (const char c : text) {
      flipped += static_cast<std::uint64_t>(std::popcount(static_cast<unsigned char>(c)));
    }
  }
  return flipped;
}

TEST(Fault, BitsAreFlippedAtTheRateAskedFor) {
  for (const double rate : {1e-4, 1e-2, 0.5}) {
    Stack stack;
    Fault& fault = stack.push<Fault>(only_down({.bit_errors = rate}));
    const int messages = 2000;
    for (int i = 0; i < messages; ++i) {
      stack.down(data_chain(stack, {std::string(100, '\0'), std::string(25, '\0')}));
    }
    const double bits = messages * 125 * 8;
    EXPECT_NEAR(static_cast<double>(flipped_bits(stack.driver())), bits * rate, 4 * std::sqrt(bits * rate))
        << "rate " << rate << " seed " << seed;
    const double corrupted = messages * (1 - std::pow(1 - rate, 1000));
    EXPECT_NEAR(static_cast<double>(down(fault, "corrupted")), corrupted, 4 * std::sqrt(corrupted) + 1);
  }
}

TEST(Fault, AnErrorDamagesAsManyMessagesInARowAsAskedFor) {
  for (const std::int64_t in_a_row : {1, 3, 5}) {
    Stack stack;
    auto& fault = dynamic_cast<Fault&>(stack.push(
        make(fault_entry(), stack, {{"direction", "down"}, {"bit_errors", 1e-6}, {"error_messages", in_a_row}})
            .value()));
    int run = 0;
    std::map<int, int> runs;
    const int messages = 20'000;
    for (int i = 0; i < messages; ++i) {
      stack.down(data(stack, std::string(125, '\0')));
      stack.down(data(stack, ""));  // has no bit to flip, and does not count
      const auto texts = take_texts(stack.driver());
      ASSERT_EQ(texts.size(), 2U);
      const bool damaged = texts[0] != std::string(125, '\0');
      EXPECT_EQ(texts[1], "");
      if (!damaged && run > 0) {
        ++runs[run];
      }
      run = damaged ? run + 1 : 0;
    }
    EXPECT_GT(runs.size(), 0U);
    int damaged = run;
    for (const auto& [length, times] : runs) {
      EXPECT_GE(length, in_a_row);
      damaged += length * times;
    }
    EXPECT_EQ(down(fault, "corrupted"), static_cast<std::uint64_t>(damaged));
    const double errors = messages * 1e-3;
    EXPECT_NEAR(runs[static_cast<int>(in_a_row)], errors, 4 * std::sqrt(errors) + 1) << "in a row " << in_a_row;
  }
}

TEST(Fault, AnErrorAmongDamagedMessagesDamagesAsManyAgain) {
  Stack stack;
  constexpr double bits = 1000;
  constexpr double rate = 3e-4;
  Fault& fault = stack.push<Fault>(only_down({.bit_errors = rate, .error_messages = 3}));
  const int messages = 20'000;
  for (int i = 0; i < messages; ++i) {
    stack.down(data(stack, std::string(static_cast<std::size_t>(bits) / 8, '\0')));
  }
  take_texts(stack.driver());
  // A message is whole when none of three has an error: itself and the two before.
  const double damaged = 1 - std::pow(1 - rate, 3 * bits);
  EXPECT_NEAR(static_cast<double>(down(fault, "corrupted")) / messages, damaged, 0.03) << "seed " << seed;
}

TEST(Fault, EveryBitIsFlippedAtRateOneAndPositionsAreInOrder) {
  Stack stack;
  stack.push<Fault>(only_down({.bit_errors = 1}));
  stack.down(data_chain(stack, {std::string("\x0f"), std::string("\xf0\x55", 2)}));
  EXPECT_EQ(take_texts(stack.driver()), std::vector<std::string>{"\xf0\x0f\xaa"});
}

TEST(Fault, BitErrorsLeaveSharedBytesAndProtocolBlocksAlone) {
  Stack stack;
  stack.push<Fault>(only_down({.bit_errors = 1}));
  Message original = unitdata_req(stack, encoded(wire::TransportAddress{}), {}, "kept");
  stack.down(original.duplicate());
  EXPECT_EQ(data_text(original), "kept");
  const Message corrupted = stack.driver().take();
  EXPECT_NE(data_text(corrupted), "kept");
  EXPECT_TRUE(wire::tpi::UnitdataReq::decode(corrupted.bytes()).has_value());
}

TEST(Fault, PrimitivesWithoutDataAndIoctlsAreNeverTouched) {
  Stack stack;
  Fault& fault = stack.push<Fault>(Fault::Options{.settings = {.loss = 1, .delay = seconds(1)}});
  stack.down(proto(stack, wire::tpi::UnbindReq{}));
  stack.down(ioctl(stack, 1, 1, data(stack, "argument")));
  stack.up(proto(stack, wire::tpi::OkAck{}, MessageType::pcproto));
  stack.up(bare(stack, MessageType::hangup));
  EXPECT_EQ(stack.driver().count(), 2U);
  EXPECT_EQ(stack.head().count(), 2U);
  EXPECT_EQ(down(fault, "in"), 0U);
}

TEST(Fault, DelayIsKeptToTheNanosecond) {
  Stack stack;
  stack.push<Fault>(only_down({.delay = milliseconds(25)}));
  stack.down(data(stack, "x"));
  EXPECT_EQ(stack.set().scheduler().next_deadline(), stack.set().now() + milliseconds(25));
  stack.advance(milliseconds(25) - nanoseconds(1));
  EXPECT_EQ(stack.driver().count(), 0U);
  stack.advance(nanoseconds(1));
  EXPECT_EQ(stack.driver().count(), 1U);
}

/// Checks what begins with "bad" on its way up; no such text has the right sum.
class Checking : public Module {
 public:
  Checking() : Module("checking") {}
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (!data_text(message).starts_with("bad") ||
          message.transform(Check{}, handle(), damaged_) != TransformResult::failed) {
        read_queue().put_next(std::move(message));
      }
    }
  }

 private:
  Counter damaged_{*this, "damaged", "messages whose sum does not hold"};
};

/// A message whose checksum does not hold ends below on a layered path and here on a fused one. Nobody may see that: it
/// does not even make the module look at the time.
TEST(Fault, ARefutedMessageDoesNotReleaseWhatIsDue) {
  Stack stack;
  const Checking& checking = stack.push<Checking>();
  stack.push<Fault>(Fault::Options{.settings = {.delay = milliseconds(1)}, .up = true, .down = false, .seed = seed});
  stack.up(data(stack, "first"));
  stack.set().scheduler().advance(stack.set().now() + milliseconds(1));
  Message bad = data(stack, "bad");
  bad.defer();
  stack.up(std::move(bad));
  EXPECT_EQ(stack.head().count(), 0U);
  stack.run();
  EXPECT_EQ(take_texts(stack.head()), std::vector<std::string>{"first"});
  EXPECT_EQ(count(checking, "damaged"), 1U);
}

TEST(Fault, JitterDelaysButDoesNotReorder) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.delay = milliseconds(5), .jitter = milliseconds(20)}));
  const std::vector<int> arrived = send_numbered(stack, 1000, microseconds(100));
  EXPECT_EQ(arrived.size(), 1000U);
  EXPECT_TRUE(std::ranges::is_sorted(arrived));
  EXPECT_EQ(down(fault, "reordered"), 0U);
}

// What becomes due within a slot leaves together at its end; what is due exactly then goes with it.
TEST(Fault, WithSlotsMessagesLeaveTogetherAtMultiples) {
  Stack stack;
  stack.push<Fault>(only_down({.delay = milliseconds(5), .slot = milliseconds(2)}));
  // Sent at 0, 1, 2 and 3 ms, due at 5, 6, 7 and 8.
  for (int sent = 0; sent < 4; ++sent) {
    stack.down(data(stack, "x"));
    stack.advance(milliseconds(1));
  }
  std::vector<std::pair<Duration, std::size_t>> left;
  for (std::size_t count = 0; stack.set().scheduler().next_deadline() != never; count = stack.driver().count()) {
    stack.set().scheduler().poll(stack.set().scheduler().next_deadline());
    left.emplace_back(stack.set().now().time_since_epoch(), stack.driver().count() - count);
  }
  EXPECT_EQ(left, (std::vector<std::pair<Duration, std::size_t>>{{milliseconds(6), 2}, {milliseconds(8), 2}}));
}

TEST(Fault, SlotsLeaveHeldBackMessagesHeldBack) {
  Stack stack;
  Fault& fault = stack.push<Fault>(
      only_down({.reorder = 0.2, .reorder_delay = milliseconds(3), .delay = milliseconds(1), .slot = milliseconds(2)}));
  const std::vector<int> arrived = send_numbered(stack, 1000, microseconds(100));
  EXPECT_EQ(arrived.size(), 1000U);
  EXPECT_GT(down(fault, "reordered"), 100U);
}

// 1250 bytes on the wire are 10,000 bits: 10 us at 1 Gbit/s.
TEST(Fault, PacingIsExactWhenPollIsCoarse) {
  Stack stack;
  stack.push<Fault>(
      only_down({.rate_bits_per_second = 1'000'000'000, .queue_bytes = 10'000'000, .overhead_bytes = 38}));
  const std::string payload(1212, 'x');
  for (int i = 0; i < 1000; ++i) {
    stack.down(data(stack, payload));
  }
  // poll() runs every millisecond only: each time, what has become due leaves together.
  for (int tick = 1; tick <= 10; ++tick) {
    stack.set().scheduler().poll(TimePoint(milliseconds(tick)));
    EXPECT_EQ(stack.driver().count(), static_cast<std::size_t>(100 * tick));
  }
  EXPECT_EQ(stack.driver().batch_sizes().front(), 32U);
}

// 1000 bits at 3 Gbit/s are 333.33... ns each; three of them are 1000 ns, and nothing is lost to rounding.
TEST(Fault, FractionsOfANanosecondAreNotLost) {
  Stack stack;
  stack.push<Fault>(only_down({.rate_bits_per_second = 3'000'000'000}));
  for (int i = 0; i < 3; ++i) {
    stack.down(data(stack, std::string(125, 'x')));
  }
  stack.advance(nanoseconds(999));
  EXPECT_EQ(stack.driver().count(), 2U);
  stack.advance(nanoseconds(1));
  EXPECT_EQ(stack.driver().count(), 3U);
}

TEST(Fault, WhatDoesNotFitTheLinksQueueIsDroppedAndCounted) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.rate_bits_per_second = 8'000'000, .queue_bytes = 10'000}));
  for (int i = 0; i < 30; ++i) {
    stack.down(data(stack, std::string(1000, 'x')));
  }
  EXPECT_EQ(down(fault, "queue_dropped"), 20U);
  stack.advance(milliseconds(1));  // one has left, one more may come
  stack.down(data(stack, std::string(1000, 'x')));
  stack.down(data(stack, std::string(1000, 'x')));
  EXPECT_EQ(down(fault, "queue_dropped"), 21U);
  stack.advance(seconds(1));
  EXPECT_EQ(stack.driver().count(), 11U);
  expect_every_message_accounted_for(fault);
}

TEST(Fault, MemoryOfMessagesOnTheirWayIsBounded) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.delay = seconds(1), .in_flight_bytes_max = 100'000}));
  for (int i = 0; i < 10000; ++i) {
    stack.down(data(stack, "small"));  // each holds a whole buffer
  }
  EXPECT_GT(down(fault, "queue_dropped"), 9000U);
  stack.advance(seconds(2));
  EXPECT_EQ(stack.driver().count(), down(fault, "out"));
  expect_every_message_accounted_for(fault);
}

TEST(Fault, ABufferThatManyMessagesShowIsCountedOnce) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.delay = seconds(1), .in_flight_bytes_max = 200'000}));
  Message whole = data(stack, std::string(64'000, 'x'));
  Batch fragments;
  for (int i = 0; i < 40; ++i) {
    fragments.push(whole.duplicate());
  }
  stack.down(std::move(fragments));
  EXPECT_EQ(down(fault, "queue_dropped"), 0U);
}

TEST(Fault, TheSameSeedGivesTheSameOutcome) {
  const FaultSettings settings{.loss = 0.1,
                               .burst_messages = 2.0,
                               .duplicate = 0.1,
                               .bit_errors = 1e-4,
                               .reorder = 0.1,
                               .jitter = milliseconds(2)};
  const auto outcome = [&](std::uint64_t with_seed) {
    Stack stack;
    stack.push<Fault>(only_down(settings, with_seed));
    for (int i = 0; i < 300; ++i) {
      stack.down(data(stack, std::string(100, static_cast<char>('0' + i % 64))));
      stack.advance(microseconds(50));
    }
    stack.advance(seconds(1));
    return take_texts(stack.driver());
  };
  EXPECT_EQ(outcome(1), outcome(1));
  EXPECT_NE(outcome(1), outcome(2));
}

TEST(Fault, OnlyTheDirectionAskedForSuffers) {
  for (const std::string_view direction : {"up", "down", "both"}) {
    Stack stack;
    stack.push(make(fault_entry(), stack, {{"direction", std::string(direction)}, {"loss", 100.0}}).value());
    stack.down(data(stack, "x"));
    stack.up(data(stack, "x"));
    EXPECT_EQ(stack.driver().count(), direction == "up" ? 1U : 0U);
    EXPECT_EQ(stack.head().count(), direction == "down" ? 1U : 0U);
  }
}

TEST(Fault, ADirectionThatDoesNotSufferIsLookedThrough) {
  Stack stack;
  stack.push<Fault>(only_down({}));
  stack.head().hold();
  stack.up(data(stack, "fills the head"));
  EXPECT_FALSE(stack.can_deliver());
  stack.head().release();
  EXPECT_TRUE(stack.can_deliver());
}

/// Sends until refused, lets the other end take one by one, and expects everything to arrive in order.
template <class Send, class Refused>
void expect_nothing_lost_when_blocked(Stack& stack, Recorder& end, Send send, Refused refused) {
  end.hold();
  int sent = 0;
  while (!refused() && sent < 100'000) {
    send(std::to_string(sent++));
    stack.advance(milliseconds(2));
  }
  ASSERT_LT(sent, 100'000) << "the writer is never held back";
  std::vector<std::string> arrived;
  for (int round = 0; round < 100'000 && arrived.size() < static_cast<std::size_t>(sent); ++round) {
    end.release();
    for (std::string& text : take_texts(end)) {
      arrived.push_back(std::move(text));
    }
    end.hold();
    stack.advance(milliseconds(2));
  }
  ASSERT_EQ(arrived.size(), static_cast<std::size_t>(sent));
  for (int i = 0; i < sent; ++i) {
    ASSERT_EQ(arrived[static_cast<std::size_t>(i)], std::to_string(i));
  }
  EXPECT_FALSE(refused());
}

TEST(Fault, FlowControlReachesAcrossItDownwards) {
  Stack stack;
  stack.push<Fault>(Fault::Options{.settings = {.delay = milliseconds(1)}});
  expect_nothing_lost_when_blocked(
      stack, stack.driver(), [&](const std::string& text) { stack.down(data(stack, text)); },
      [&] { return !stack.can_write(); });
}

TEST(Fault, FlowControlReachesAcrossItUpwards) {
  Stack stack;
  stack.push<Fault>(Fault::Options{.settings = {.delay = milliseconds(1)}});
  expect_nothing_lost_when_blocked(
      stack, stack.head(), [&](const std::string& text) { stack.up(data(stack, text)); },
      [&] { return !stack.can_deliver(); });
}

TEST(Fault, ASenderThatIgnoresFlowControlMeetsTheBound) {
  Stack stack;
  Fault& fault = stack.push<Fault>(only_down({.in_flight_bytes_max = 100'000}));
  stack.driver().hold();
  for (int i = 0; i < 100'000; ++i) {
    stack.down(data(stack, std::string(1000, 'x')));
  }
  EXPECT_GT(down(fault, "queue_dropped"), 0U);
  EXPECT_LT(stack.pool().statistics().buffers_in_use, 400U);
  stack.driver().release();
  stack.run();
}

TEST(Fault, FlushDiscardsWhatIsOnItsWayInTheDirectionsItNames) {
  Stack stack;
  Fault& fault = stack.push<Fault>(Fault::Options{.settings = {.reorder = 0.5, .delay = milliseconds(5)}});
  for (int i = 0; i < 10; ++i) {
    stack.down(data(stack, "x"));
    stack.up(data(stack, "x"));
  }
  stack.down(flush(stack, flush_write));
  stack.advance(seconds(1));
  EXPECT_EQ(stack.driver().count(), 1U);
  EXPECT_EQ(stack.driver().take().type(), MessageType::flush);
  EXPECT_EQ(stack.head().count(), 10U);
  EXPECT_EQ(down(fault, "flushed"), 10U);
  expect_every_message_accounted_for(fault);
}

TEST(Fault, FlushOfABandLeavesTheOthers) {
  Stack stack;
  stack.push<Fault>(Fault::Options{.settings = {.delay = milliseconds(5)}});
  stack.down(data(stack, "ordinary"));
  Message banded = data(stack, "banded");
  banded.first().band = 2;
  stack.down(std::move(banded));
  stack.up(flush(stack, flush_write | flush_band, 2));
  stack.advance(seconds(1));
  EXPECT_EQ(take_texts(stack.driver()), std::vector<std::string>{"ordinary"});
}

TEST(Fault, PoppingItDiscardsWhatIsOnItsWay) {
  Stack stack;
  stack.push<Fault>(Fault::Options{.settings = {.delay = milliseconds(5)}});
  stack.down(data(stack, "x"));
  EXPECT_TRUE(stack.pop().has_value());
  stack.advance(seconds(1));
  EXPECT_EQ(stack.driver().count(), 0U);
  EXPECT_EQ(stack.pool().statistics().buffers_in_use, 0U);
}

TEST(Fault, WithoutMemoryForACopyACorruptedMessageIsDropped) {
  Stack stack(1, 128 * 1024);
  Fault& fault = stack.push<Fault>(only_down({.bit_errors = 1}));
  Message shared = Message::copy_of(stack.pool(), std::vector<std::byte>(48 * 1024));
  stack.down(shared.duplicate());
  EXPECT_EQ(stack.driver().count(), 0U);
  EXPECT_EQ(down(fault, "no_memory"), 1U);
}

TEST(Fault, ImpossibleBurstsAreRefused) {
  Stack stack;
  EXPECT_TRUE(make(fault_entry(), stack, {{"loss", 50.0}, {"burst", 1.0}}).has_value());
  for (const double loss : {60.0, 100.0}) {
    const auto refused = make(fault_entry(), stack, {{"loss", loss}, {"burst", 1.0}});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, EINVAL);
    EXPECT_NE(refused.error().text.find("burst"), std::string::npos);
  }
}

TEST(Fault, WithoutASeedItDrawsFromTheStreamSets) {
  const auto arrived_of = [](std::uint64_t set_seed) {
    Stack stack(set_seed);
    stack.push(make(fault_entry(), stack, {{"loss", 50.0}}).value());
    return send_numbered(stack, 100);
  };
  EXPECT_EQ(arrived_of(1), arrived_of(1));
  EXPECT_NE(arrived_of(1), arrived_of(2));
}

}  // namespace
}  // namespace sluice::test
