// SPDX-License-Identifier: Apache-2.0
// Whole transfers in simulated time over a faulty link. Each property runs over many seeds and names the one that
// fails.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

void expect_arrived(World& world) {
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
  ASSERT_NE(world.sender_event(Event::Kind::done), nullptr);
  EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
  EXPECT_EQ(world.spins, 0U);
}

TEST(Transfer, FilesOfEverySizeArrive) {
  const std::uint32_t adu = adu_bytes_for(1472);
  for (const std::size_t size : {0UL, 1UL, adu - 1UL, adu + 0UL, adu + 1UL, 64UL * adu, 65UL * adu + 7, 1000000UL}) {
    SCOPED_TRACE(size);
    World world({});
    world.source.add("file", random_content(size, size));
    expect_arrived(world);
    EXPECT_EQ(world.sender_event(Event::Kind::done)->bytes, size);
    EXPECT_EQ(world.sender_event(Event::Kind::done)->adus, (size + adu - 1) / adu);
    EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 0U);
    EXPECT_EQ(world.server_event(Event::Kind::done)->out_of_order, 0U);
  }
}

TEST(Transfer, ManyFilesArriveOverALossyLink) {
  WorldOptions options;
  options.forward.loss = options.back.loss = 0.05;
  World world(options);
  for (int i = 0; i < 2000; ++i) {
    world.source.add("file" + std::to_string(i), random_content(static_cast<std::size_t>(i % 7) * 700, 7));
  }
  expect_arrived(world);
  EXPECT_EQ(world.server_event(Event::Kind::offer)->files, 2000U);
}

TEST(Transfer, AnyLinkDeliversTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions options;
    options.seed = seed;
    for (LinkFaults* link : {&options.forward, &options.back}) {
      draw_faults(*link, prng, 0.3);
      link->rate = prng.chance(0.5) ? 1'000'000 + prng.below(20'000'000) : 0;
      link->queue_bytes = 20'000 + prng.below(500'000);
    }
    options.sender.tsdu_bytes = prng.chance(0.5) ? 1472 : 1200 + prng.below(8000);
    World world(options);
    const std::uint64_t files = 1 + prng.below(5);
    for (std::uint64_t i = 0; i < files; ++i) {
      world.source.add("f" + std::to_string(i), random_content(prng.below(300'000), seed + i));
    }
    expect_arrived(world);
  }
}

TEST(Transfer, RepairsExactlyWhatWasLost) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.forward.loss = 0.05;
    options.forward.burst = 1 + static_cast<double>(seed % 4);
    options.back.loss = seed % 2 == 0 ? 0.2 : 0;
    World world(options);
    world.source.add("file", random_content(3'000'000, seed));
    expect_arrived(world);
    EXPECT_GT(world.forward.lost_data, 0U);
    // An ADU that reached a server which did not know the connection yet (its OFFER was lost) is lost too. One that has
    // copies on the way is not sent for each of those that are lost.
    const std::uint64_t lost = world.forward.lost_data + world.server->drops().unknown_connection;
    const Event& done = *world.sender_event(Event::Kind::done);
    EXPECT_LE(done.repaired, lost);
    EXPECT_GE(done.repaired + 2 * done.copied, lost);
    EXPECT_LE(done.copied, 2 * (done.repaired + 1)) << "three times each at most";
    EXPECT_EQ(world.server_event(Event::Kind::done)->out_of_order, 0U);
  }
}

/// How long a transfer takes whose `nth` ADU from the end is lost `times` times; 0: none.
double seconds_without(std::uint64_t nth, int times, std::uint64_t* copied = nullptr, Duration delay = 25ms) {
  constexpr std::uint64_t adus = 3000;
  const std::uint32_t adu = adu_bytes_for(1472);
  WorldOptions options;
  options.forward.delay = options.back.delay = delay;
  options.forward.rate = 12'500'000;
  World world(options);
  world.source.add("file", random_content(adus * adu, 1));
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    const auto data = parse_data(datagram.first(std::min(datagram.size(), data_header_bytes)), datagram.size());
    const bool end = data && data->adu.file == digest_file;
    const bool chosen =
        end ? nth == 1 : data && data->adu.file == 0 && nth > 1 && data->adu.offset == (adus + 1 - nth) * adu;
    return !chosen || times-- <= 0;
  });
  expect_arrived(world);
  if (copied != nullptr) {
    *copied = world.sender_event(Event::Kind::done)->copied;
  }
  return world.sender_event(Event::Kind::done)->seconds;
}

// At the end of the data a loss would cost the transfer the time until it is noticed, and a round trip.
TEST(Transfer, TheLastAduIsNotWaitedFor) {
  const double clean = seconds_without(0, 0);
  EXPECT_LT(seconds_without(1, 1) - clean, 0.003) << "the first copy follows after a 32nd of the round trip";
  EXPECT_LT(seconds_without(1, 2) - clean, 0.006);
  EXPECT_GT(seconds_without(1, 3) - clean, 0.040) << "there are two";
}

TEST(Transfer, ALossNearTheEndCostsARoundTripAndLittleMore) {
  const double clean = seconds_without(0, 0);
  for (const std::uint64_t nth : {2U, 5U, 30U}) {
    SCOPED_TRACE(nth);
    EXPECT_LT(seconds_without(nth, 1) - clean, 0.056) << "not half a round trip later";
    EXPECT_LT(seconds_without(nth, 2) - clean, 0.058) << "the repair has copies, too";
  }
}

TEST(Transfer, OnAShortPathNothingIsCopied) {
  std::uint64_t copied = 0;
  seconds_without(1, 1, &copied, 1ms);
  EXPECT_EQ(copied, 0U);
  seconds_without(0, 0, &copied);
  EXPECT_GT(copied, 0U);
  EXPECT_LE(copied, 2U);
}

TEST(Transfer, ReorderingCausesAlmostNoRepairs) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.forward.reorder = 0.5;
    options.forward.reorder_delay = 30ms;
    options.forward.delay = 20ms;
    World world(options);
    world.source.add("file", random_content(5'000'000, seed));
    expect_arrived(world);
    const Event& done = *world.sender_event(Event::Kind::done);
    EXPECT_GT(done.out_of_order, done.adus / 10);
    // Until the first late arrivals have been measured, a few may be taken for lost.
    EXPECT_LE(done.repaired, done.adus / 100);
  }
}

// The first late ones are declared lost, and the sender has forgotten them when they come: the receiver learns from
// them all the same.
TEST(Transfer, ReorderingFarLongerThanTheRoundTripIsLearned) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.forward.reorder = 0.5;
    options.forward.reorder_delay = 50ms;
    options.forward.delay = options.back.delay = 100us;
    options.fixed_rate = 5'000'000;
    World world(options);
    world.source.add("file", random_content(10'000'000, seed));
    expect_arrived(world);
    const Event& done = *world.sender_event(Event::Kind::done);
    EXPECT_LE(done.repaired * 50, done.adus);
  }
}

TEST(Transfer, DuplicatesAreNeitherWrittenNorRepaired) {
  WorldOptions options;
  options.forward.duplicate = 0.5;
  World world(options);
  world.source.add("file", random_content(1'000'000, 1));
  expect_arrived(world);
  EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 0U);
  EXPECT_EQ(world.destination.writes, world.sender_event(Event::Kind::done)->adus);
  EXPECT_GT(world.server->drops().duplicate, 100U);
}

TEST(Transfer, PayloadsMayBeLandedByTheCaller) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.land_by_hand = true;
    options.forward = {.loss = 0.1, .reorder = 0.3, .duplicate = 0.1};
    World world(options);
    world.source.add("a", random_content(200'000, seed));
    world.source.add("b", random_content(seed * 100, seed));
    expect_arrived(world);
  }
}

TEST(Transfer, MoreHalfFilesThanMayBeOpenAtOnce) {
  World world({});
  const std::uint64_t adu = adu_bytes_for(1472);
  for (int i = 0; i < 1000; ++i) {
    world.source.add("f" + std::to_string(i), random_content(2 * adu, 1));
  }
  // The second half of each file is lost when it is sent first.
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    const auto data = parse_data(datagram, datagram.size());
    const bool is_data = parse_envelope(datagram)->kind == Kind::data && data;
    return !is_data || data->repair || data->adu.file >= 1000 || data->adu.offset == 0;
  });
  expect_arrived(world);
  EXPECT_GT(world.server->drops().no_room, 0U);
}

TEST(Transfer, ALostTailEndsNothing) {
  WorldOptions options;
  World world(options);
  world.source.add("file", random_content(100'000, 1));
  int lost = 0;
  // Loses the first sending of the last ADU, and all that follows it for a while.
  TimePoint until = never;
  world.forward.set_filter([&](TimePoint now, ConstBytes datagram) {
    const auto data = parse_data(datagram, datagram.size());
    const auto envelope = parse_envelope(datagram);
    if (until == never && envelope && envelope->kind == Kind::data && data && data->adu.file == 0 &&
        data->adu.offset + data->adu.length == 100'000) {
      until = now + 300ms;
    }
    const bool lose = until != never && now < until;
    lost += lose ? 1 : 0;
    return !lose;
  });
  expect_arrived(world);
  EXPECT_GE(lost, 2);
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 2);
}

TEST(Transfer, AllReportsLostForTwoSeconds) {
  WorldOptions options;
  options.forward.rate = 2'000'000;
  World world(options);
  world.source.add("file", random_content(3'000'000, 1));
  const TimePoint start = world.now;
  world.back.set_filter([&](TimePoint now, ConstBytes) { return now - start < 300ms || now - start > 2300ms; });
  expect_arrived(world);
  EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 0U);
}

TEST(Transfer, APartitionOfTenSecondsIsSurvived) {
  WorldOptions options;
  options.forward.rate = 2'000'000;
  World world(options);
  world.source.add("file", random_content(3'000'000, 1));
  const TimePoint start = world.now;
  const auto partition = [&](TimePoint now, ConstBytes) { return now - start < 500ms || now - start > 10500ms; };
  world.forward.set_filter(partition);
  world.back.set_filter(partition);
  expect_arrived(world);
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 14);
}

TEST(Transfer, ALargeAduSizeIsAgreedOn) {
  WorldOptions options;
  options.sender.tsdu_bytes = 65'507;
  options.server.tsdu_bytes = 9000;
  World world(options);
  world.source.add("file", random_content(1'000'000, 1));
  expect_arrived(world);
  EXPECT_EQ(world.sender_event(Event::Kind::done)->adus, (1'000'000 + 8943) / 8944);
}

TEST(Transfer, CorruptDatagramsNeverMakeAWrongFile) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.forward.corrupt = options.back.corrupt = 0.002;
    options.sender.idle_timeout = options.server.receiver.idle_timeout = 5s;
    World world(options);
    world.source.add("file", random_content(500'000, seed));
    world.run();
    ASSERT_TRUE(world.sender->finished());
    const auto arrived = world.destination.files.find("file");
    if (arrived != world.destination.files.end()) {
      EXPECT_EQ(arrived->second, world.source.content(0));
    }
    EXPECT_TRUE(world.sender->exit_code() != ExitCode::ok || world.all_equal());
  }
}

// Over 1 Gbit/s and 50 ms with a queue of one bandwidth-delay product, 64 MiB: the link alone takes 0.56 s with
// headers, the handshake and start-up half a second.
TEST(Transfer, AGigabitLinkWithLossIsFilled) {
  for (const auto& [loss, bound] : {std::pair{0.001, 1.15}, {0.01, 1.2}, {0.05, 1.6}}) {
    SCOPED_TRACE(loss);
    WorldOptions options;
    options.forward = {.loss = loss, .delay = 25ms, .rate = 125'000'000, .queue_bytes = 6'250'000};
    options.back.delay = 25ms;
    World world(options);
    world.source.add("file", random_content(64 << 20, 1));
    expect_arrived(world);
    EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, bound);
    EXPECT_LT(world.forward.overflowed * 20, world.forward.sent) << "start-up at most: 64 MiB are ten round trips";
  }
}

// 100 Mbit/s, 200 ms, 0.5 % lost in bursts of three; 64 MiB take the link 5.6 s with headers.
TEST(Transfer, ALongLinkWithBurstsOfLossIsFilled) {
  WorldOptions options;
  options.forward = {.loss = 0.005, .burst = 3, .delay = 100ms, .rate = 12'500'000, .queue_bytes = 2'500'000};
  options.back.delay = 100ms;
  World world(options);
  world.source.add("file", random_content(64 << 20, 1));
  expect_arrived(world);
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 5.6 / 0.88 + 1.6);  // and eight round trips of beginning
}

TEST(Transfer, AShallowQueueIsNotFloodedForever) {
  WorldOptions options;
  options.forward = {.delay = 100us, .rate = 50'000'000, .queue_bytes = 200'000};
  options.back.delay = 100us;
  World world(options);
  world.source.add("file", random_content(50'000'000, 1));
  expect_arrived(world);
  const Event& done = *world.sender_event(Event::Kind::done);
  EXPECT_LT(done.seconds, 1.5);
  EXPECT_LT(done.repaired, done.adus / 10);
}

TEST(Transfer, AFixedRateIsKept) {
  WorldOptions options;
  options.fixed_rate = 1'000'000;
  World world(options);
  world.source.add("file", random_content(3'000'000, 1));
  expect_arrived(world);
  EXPECT_NEAR(world.sender_event(Event::Kind::done)->seconds, 3.13, 0.15);
}

TEST(Transfer, AFixedRateFarAboveThePathEndsTheTransfer) {
  WorldOptions options;
  options.fixed_rate = 4'000'000;
  options.forward = {.delay = 10ms, .rate = 1'000'000, .queue_bytes = 50'000};
  World world(options);
  world.source.add("file", random_content(30'000'000, 1));
  world.run();
  ASSERT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::congested);
  ASSERT_NE(world.server_event(Event::Kind::error), nullptr);
  EXPECT_EQ(world.server_event(Event::Kind::error)->code, ExitCode::congested);
}

}  // namespace
}  // namespace sluice::ftx::test
