// SPDX-License-Identifier: Apache-2.0
// Turns at streams in simulated time: whatever comes in one burst comes out with no further event, whoever reads and
// however little he takes at a time; and nobody who takes nothing keeps the loop awake.
#include "edge/stream_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/prng.h"
#include "stack/core/module.h"
#include "stack/core/scheduler.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t repetitions = 1000;

/// A device: brings what the test says, and sends `room` messages a millisecond where it has a limit.
class Device final : public Module {
 public:
  explicit Device(StreamSet& set) : Module("device", Services::both), timer_(set.scheduler(), [this] { refill(); }) {
    write_queue().set_marks({.high_bytes = 64, .low_bytes = 16});
  }
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      write_queue().enqueue(std::move(message));
    }
  }
  void wsrv() override {
    for (; room_ > 0; room_ -= limit ? 1 : 0) {
      const Message message = write_queue().dequeue();
      if (!message) {
        return;
      }
      ++sent;
    }
    write_queue().set_enabled(false);
    timer_.arm_after(1ms);
  }
  void bring(std::size_t count) {
    Batch batch;
    for (; count > 0; --count) {
      batch.push(Message::copy_of(set().pool(), as_bytes("datagram")));
    }
    read_queue().put_next(std::move(batch));
  }

  std::optional<std::size_t> limit;
  std::size_t sent = 0;

 private:
  void refill() {
    room_ = limit.value_or(1);
    write_queue().set_enabled(true);
    write_queue().enable();
  }

  std::size_t room_ = 1;
  Timer timer_;
};

class StreamTurnsTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<Stream> stream;
    Device* device;
  };
  End open() {
    auto driver = std::make_unique<Device>(set_);
    Device* const device = driver.get();
    auto stream = Stream::open(set_, std::move(driver));
    EXPECT_TRUE(stream);
    (*stream)->head().read_queue().set_marks({.high_bytes = 1 << 20, .low_bytes = 1});
    return {std::move(*stream), device};
  }
  /// As a run loop does, but what it would sleep for is the next timer. Returns the rounds until nothing is left to do;
  /// nothing where there is no end.
  std::optional<std::size_t> run_until_asleep() {
    for (std::size_t rounds = 0; rounds < 100'000; ++rounds) {
      bool worked = set_.scheduler().poll(now_);
      worked |= turns_.serve(worked);
      if (!worked) {
        if (set_.scheduler().next_deadline() == never) {
          return rounds;
        }
        now_ = std::max(now_, set_.scheduler().next_deadline());
      }
    }
    return std::nullopt;
  }
  /// Calls check(count, a_turn, prng) for many bursts, each of its own seed: how many messages come, what a turn takes
  /// at most, and what the rest of the case is random by.
  template <class Check>
  void for_bursts(const Check& check) {
    for (std::uint64_t seed = 1; seed <= repetitions && !HasFatalFailure(); ++seed) {
      SCOPED_TRACE(seed);
      Prng prng(seed);
      const std::size_t count = burst_size(prng);
      const std::size_t a_turn = 1 + prng() % 80;
      check(count, a_turn, prng);
    }
  }
  /// 1..5000, small ones as likely as large ones.
  static std::size_t burst_size(Prng& prng) {
    const std::size_t bound = std::size_t{1} << (prng() % 13);
    return std::min<std::size_t>(5000, 1 + prng() % bound);
  }

  StreamSet set_;
  StreamTurns turns_;
  TimePoint now_{};
};

TEST_F(StreamTurnsTest, ABurstComesOutWhateverATurnTakes) {
  End end = open();
  for_bursts([&](std::size_t count, std::size_t a_turn, Prng& prng) {
    const bool modest = prng() % 2 == 0;  // says that nothing more waits whether or not that is so
    std::size_t got = 0;
    turns_.attend(*end.stream, [&] {
      std::size_t taken = 0;
      while (taken < a_turn && end.stream->receive()) {
        ++taken;
      }
      got += taken;
      return !modest && taken == a_turn;
    });
    end.device->bring(count);
    ASSERT_TRUE(run_until_asleep());
    ASSERT_EQ(got, count);
    ASSERT_FALSE(turns_.declined());
    turns_.unattend(*end.stream);
  });
}

// A library above the stream may have taken a message that its program has not got yet (a TLI endpoint does, to see
// whether an error waits before it sends): the stream is empty then, and the program has still something to read.
TEST_F(StreamTurnsTest, WhatALibraryHasTakenAheadIsNotForgotten) {
  End end = open();
  for_bursts([&](std::size_t count, std::size_t a_turn, Prng& /*prng*/) {
    std::size_t got = 0;
    Message ahead;
    turns_.attend(*end.stream, [&] {
      std::size_t taken = 0;
      for (; taken < a_turn; ++taken) {
        Message message = ahead ? std::move(ahead) : end.stream->receive();
        if (!message) {
          break;
        }
      }
      got += taken;
      ahead = end.stream->receive();  // as a call that sends does
      return taken > 0;
    });
    end.device->bring(count);
    ASSERT_TRUE(run_until_asleep());
    ASSERT_EQ(got, count);
    turns_.unattend(*end.stream);
  });
}

TEST_F(StreamTurnsTest, ABridgeMovesABurstThroughADeviceWithLittleRoom) {
  End from = open();
  End to = open();
  for (std::uint64_t seed = 1; seed <= repetitions; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    const std::size_t count = 1 + prng() % 200;
    to.device->limit = 1 + prng() % 40;
    to.device->sent = 0;
    turns_.attend(*from.stream, [&] {
      bool moved = false;
      while (to.stream->can_put()) {
        Message message = from.stream->receive();
        if (!message) {
          break;
        }
        EXPECT_TRUE(to.stream->send(Batch(std::move(message))));
        moved = true;
      }
      return moved;
    });
    from.device->bring(count);
    ASSERT_TRUE(run_until_asleep());
    ASSERT_EQ(to.device->sent, count);
    turns_.unattend(*from.stream);
  }
}

TEST_F(StreamTurnsTest, WhoTakesNothingDeclinesAndSleeps) {
  End end = open();
  std::size_t calls = 0;
  turns_.attend(*end.stream, [&] {
    ++calls;
    return false;
  });
  end.device->bring(3);
  const auto rounds = run_until_asleep();
  ASSERT_TRUE(rounds);
  EXPECT_LT(calls, 5U);
  EXPECT_TRUE(turns_.declined());
  turns_.unattend(*end.stream);
}

// The loop looks again soon only as long as something is declined.
TEST_F(StreamTurnsTest, WhoTakesWhatItHadDeclinedIsNotAskedAgain) {
  End end = open();
  bool has_room = false;
  turns_.attend(*end.stream, [&] { return has_room && end.stream->receive(); });
  end.device->bring(3);
  ASSERT_TRUE(run_until_asleep());
  ASSERT_TRUE(turns_.declined());
  has_room = true;
  static_cast<void>(turns_.serve(true));
  ASSERT_TRUE(run_until_asleep());
  EXPECT_FALSE(turns_.declined());
  turns_.unattend(*end.stream);
}

// One that declines is remembered whatever those behind it say: the loop looks again before long.
TEST_F(StreamTurnsTest, WhoDeclinesIsNotForgottenForOthers) {
  End declining = open();
  End idle = open();
  turns_.attend(*declining.stream, [] { return false; });
  turns_.attend(*idle.stream, [] { return false; });
  declining.device->bring(1);
  ASSERT_TRUE(run_until_asleep());
  EXPECT_TRUE(turns_.declined());
}

// A turn that waits itself (a blocking call) must not find itself called again, and what happened meanwhile counts.
TEST_F(StreamTurnsTest, ATurnIsNotGivenInsideATurn) {
  End end = open();
  int depth = 0;
  std::size_t got = 0;
  turns_.attend(*end.stream, [&] {
    EXPECT_EQ(++depth, 1);
    const bool taken = static_cast<bool>(end.stream->receive());
    got += taken ? 1 : 0;
    EXPECT_FALSE(turns_.serve(true));
    --depth;
    return false;
  });
  end.device->bring(5);
  for (int rounds = 0; rounds < 20; ++rounds) {
    turns_.serve(false);
  }
  EXPECT_EQ(got, 5U);
  turns_.unattend(*end.stream);
}

// Who comes behind one that is ended has its turn all the same.
TEST_F(StreamTurnsTest, NobodyLosesATurnWhenAnotherIsEnded) {
  End first = open();
  End second = open();
  End third = open();
  int turns = 0;
  turns_.attend(*first.stream, [] { return false; });
  turns_.attend(*second.stream, [&] {
    turns_.unattend(*first.stream);
    return false;
  });
  turns_.attend(*third.stream, [&] {
    ++turns;
    return false;
  });
  for (int round = 0; turns_.serve(round == 0) && round < 10; ++round) {
  }
  EXPECT_GE(turns, 1);
}

TEST_F(StreamTurnsTest, ATurnMayEndItselfAndOthers) {
  End one = open();
  End two = open();
  int second = 0;
  turns_.attend(*one.stream, [&] {
    turns_.unattend(*two.stream);
    turns_.unattend(*one.stream);
    return false;
  });
  turns_.attend(*two.stream, [&] {
    ++second;
    return false;
  });
  one.device->bring(1);
  two.device->bring(1);
  ASSERT_TRUE(run_until_asleep());
  EXPECT_EQ(second, 0);
}

}  // namespace
}  // namespace sluice
