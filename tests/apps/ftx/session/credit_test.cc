// SPDX-License-Identifier: Apache-2.0
// A receiver that is slower than its sender, or stops, loses nothing: what is under way fits where it waits.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/bench.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// A link of 1 Gbit/s, or what `rate` says, and a receiver that holds `room` bytes.
WorldOptions slow_receiver(std::uint64_t room, Duration delay) {
  WorldOptions options;
  options.forward.rate = 125'000'000;
  options.forward.delay = options.back.delay = delay;
  options.reader.room_bytes = room;
  options.server.receive_room_bytes = room / 4 * 3;  // the rest is for headers
  options.fixed_rate = 1'000'000'000;                // far above: nothing but credit holds the sender back
  return options;
}

void expect_nothing_lost(WorldOptions options, std::size_t bytes = 30'000'000) {
  World world(std::move(options));
  world.source.add("file", random_content(bytes, 1));
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  EXPECT_EQ(world.overrun, 0U);
  EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 0U);
  EXPECT_EQ(world.spins, 0U);
}

TEST(Credit, AReceiverAtTwentyMegabytesASecondLosesNothing) {
  for (const std::uint64_t room : {160'000ULL, 400'000ULL, 2'000'000ULL}) {
    SCOPED_TRACE(room);
    WorldOptions options = slow_receiver(room, 50us);
    options.reader.rate = 20'000'000;
    expect_nothing_lost(std::move(options));
  }
}

TEST(Credit, AReceiverThatStopsForFiveSecondsLosesNothing) {
  for (const Duration from : {Duration(0ms), Duration(1ms), Duration(20ms), Duration(100ms)}) {
    SCOPED_TRACE(from.count());
    WorldOptions options = slow_receiver(1'000'000, 50us);
    options.reader.stopped_from = from;
    options.reader.stopped_for = 5s;
    expect_nothing_lost(std::move(options));
  }
}

// What the network itself holds (1 Gbit/s * 20 ms = 2.5 MB) needs no room at the receiver while that keeps up.
TEST(Credit, ALongPathIsFilledAllTheSame) {
  WorldOptions options = slow_receiver(300'000, 10ms);
  options.fixed_rate = 120'000'000;
  World world(std::move(options));
  world.source.add("file", random_content(60'000'000, 1));
  world.run();
  ASSERT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_EQ(world.overrun, 0U);
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 0.9) << "0.5 s at the link's rate";
}

// Slower all of a sudden: what is under way then still fits, where the path is short enough.
TEST(Credit, AReceiverThatGetsSlowerLosesNothing) {
  WorldOptions options = slow_receiver(2'000'000, 2ms);
  options.server.receive_room_bytes = 1'000'000;  // drivers announce a part of what they have
  options.reader.rate = 100'000'000;
  World world(std::move(options));
  world.source.add("file", random_content(60'000'000, 1));
  world.each_step = [&] {
    if (world.now - TimePoint(1h) > 200ms) {
      world.options.reader.rate = 5'000'000;
    }
  };
  world.run();
  ASSERT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_EQ(world.overrun, 0U);
  EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 0U);
}

TEST(Credit, OpenSessionsShareTheRoom) {
  ServerOptions options;
  options.receive_room_bytes = 1'000'000;
  Bench bench(options);
  const auto announced = [&] {
    bench.probe();
    const auto report = bench.drain(Kind::report);
    return report ? parse_report(*report)->credit_bytes : 0;
  };
  bench.open();
  EXPECT_EQ(announced(), 1'000'000U);
  for (std::uint64_t other = 1; other <= 3; ++other) {
    bench.envelope.connection = 42 + other;
    bench.last_sequence = 0;
    bench.open();
    EXPECT_EQ(announced(), 1'000'000U / (other + 1));
  }
  bench.error(5);  // the last one ends
  bench.envelope.connection = 42;
  bench.last_sequence = 100;
  EXPECT_EQ(announced(), 1'000'000U / 3);
}

TEST(Credit, EverySessionGetsSome) {
  ServerOptions options;
  options.receive_room_bytes = 0;
  Bench bench(options);
  bench.open();
  bench.probe();
  const auto report = bench.drain(Kind::report);
  ASSERT_TRUE(report);
  EXPECT_EQ(parse_report(*report)->credit_bytes, 16U * 1024);
}

}  // namespace
}  // namespace sluice::ftx::test
