// SPDX-License-Identifier: Apache-2.0
// The first flight: files behind the list, before the receiver has said anything.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// Both ways take 20 ms.
WorldOptions long_path(bool sealed, std::uint64_t seed = 1) {
  WorldOptions options;
  options.seed = seed;
  options.sealed = sealed;
  options.sender.ip_header_bytes = 28;
  options.forward = {.delay = 20ms, .rate = 12'500'000};
  options.back = {.delay = 20ms};
  return options;
}

/// Where among all events of the sender the first of a kind is.
std::size_t place_of(const World& world, Event::Kind kind) {
  const auto found = std::ranges::find(world.sender_events, kind, &Event::kind);
  return static_cast<std::size_t>(found - world.sender_events.begin());
}

/// A DATA of files.
bool carries_files(ConstBytes datagram) {
  const auto adu = adu_of(datagram);
  return adu && !is_list(adu->file);
}

bool is_offer(ConstBytes datagram) { return parse_envelope(datagram)->kind == Kind::offer; }

TEST(FirstFlight, WhatFitsItTakesOneRoundTrip) {
  for (const bool sealed : {true, false}) {
    for (const std::size_t bytes : {0UL, 1UL, 10'000UL, 100'000UL}) {
      SCOPED_TRACE(testing::Message() << (sealed ? "sealed " : "plain ") << bytes);
      World world(long_path(sealed));
      world.source.add("file", random_content(bytes, 1));
      world.run();
      ASSERT_TRUE(world.all_equal());
      const Event* const done = world.sender_event(Event::Kind::done);
      ASSERT_NE(done, nullptr);
      const double greeting = sealed ? 0 : 0.04;
      EXPECT_LT(done->seconds, greeting + 0.04 + static_cast<double>(bytes) / 12.5e6 + 0.002);
      EXPECT_EQ(done->repaired, 0U);
      EXPECT_EQ(done->bytes, bytes);
      EXPECT_LT(place_of(world, Event::Kind::offer), place_of(world, Event::Kind::done));
      EXPECT_NE(world.server_event(Event::Kind::offer), nullptr);
    }
  }
}

/// A program tells of the offer first, and then of each file.
TEST(FirstFlight, NoFileIsToldAsSentBeforeTheReceiverAccepts) {
  World world(long_path(true));
  for (int i = 0; i < 5; ++i) {
    world.source.add_packed("f" + std::to_string(i), random_content(1000, 1));
  }
  std::size_t told = 0;
  world.each_step = [&] {
    const bool accepted = world.sender_event(Event::Kind::offer) != nullptr;
    while (world.sender->next_sent()) {
      EXPECT_TRUE(accepted || world.now >= TimePoint{1h} + 40ms);
      ++told;
    }
  };
  world.run();
  EXPECT_EQ(told, 5U);
}

/// It goes by the receiver's first credit, and stops when that has said something.
TEST(FirstFlight, IsOneWindow) {
  World world(long_path(true));
  world.source.add("file", random_content(1'000'000, 1));
  std::uint64_t bytes = 0, largest = 0;
  world.forward.set_filter([&](TimePoint now, ConstBytes datagram) {
    if (carries_files(datagram) && now < TimePoint{1h} + 40ms) {
      bytes += datagram.size();
      largest = std::max(largest, datagram.size());
    }
    return true;
  });
  world.run();
  EXPECT_TRUE(world.all_equal());
  EXPECT_GT(bytes, ReceiveCredit::initial_bytes - 5000);
  EXPECT_LT(bytes, ReceiveCredit::initial_bytes + 20'000);
  EXPECT_LE(largest, PathMtu::base_bytes);
}

/// What is there is neither written nor counted as sent, whatever came of it before anybody had looked.
TEST(FirstFlight, WhatIsThereStaysAsItIs) {
  for (const bool packed : {true, false}) {
    SCOPED_TRACE(packed);
    World world(long_path(true));
    world.destination.same = true;
    for (int i = 0; i < 20; ++i) {
      const std::string name = "f" + std::to_string(i);
      packed ? world.source.add_packed(name, random_content(20'000, 1))
             : world.source.add(name, random_content(20'000, 1));
    }
    std::uint64_t ahead = 0;
    world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
      ahead += carries_files(datagram) ? 1 : 0;
      return true;
    });
    world.run();
    EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
    EXPECT_GT(ahead, 50U);
    EXPECT_LT(ahead, 150U);
    EXPECT_EQ(world.destination.writes, 0U);
    EXPECT_TRUE(world.destination.files.empty() && world.destination.temporaries.empty());
    for (const Event* done : {world.sender_event(Event::Kind::done), world.server_event(Event::Kind::done)}) {
      ASSERT_NE(done, nullptr);
      EXPECT_EQ(done->skipped_files, 20U);
      EXPECT_EQ(done->bytes, 0U);
    }
    EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
  }
}

/// What comes before the OFFER belongs to no session.
TEST(FirstFlight, ALostOfferCostsFewDatagrams) {
  for (const std::size_t lost : {1UL, 2UL, 3UL}) {
    SCOPED_TRACE(lost);
    World world(long_path(true));
    world.source.add("file", random_content(100'000, 1));
    std::size_t offers = 0;
    world.forward.set_filter([&](TimePoint, ConstBytes datagram) { return !is_offer(datagram) || offers++ >= lost; });
    world.run();
    ASSERT_TRUE(world.all_equal());
    EXPECT_LE(world.sender_event(Event::Kind::done)->repaired, lost == 1 ? 1U : lost == 2 ? 2U : 8U);
    EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 0.13) << "the OFFER's timer alone would take 0.25 s";
  }
}

/// The end of the data may be in it, and be lost: nobody waits for a timer.
TEST(FirstFlight, ALostEndComesAgainAtOnce) {
  World world(long_path(true));
  world.source.add("file", random_content(50'000, 1));
  bool lost = false;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    const auto adu = adu_of(datagram);
    return !adu || adu->file != digest_file || std::exchange(lost, true);
  });
  world.run();
  ASSERT_TRUE(world.all_equal());
  EXPECT_TRUE(lost);
  EXPECT_LT(world.sender_event(Event::Kind::done)->seconds, 0.09);
}

/// Where the receiver may need none of it, or asks for something else first.
TEST(FirstFlight, WaitsWhereFilesMayNotBeWanted) {
  struct Row {
    const char* what;
    Update update;
    bool delta;
  };
  const Row rows[] = {{"existing", {.existing = true}, false},
                      {"told", {.told = true}, false},
                      {"a dry run", {.told = true, .dry_run = true}, false},
                      {"digests", {.compare = Update::Compare::digest}, false},
                      {"delta", {}, true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    WorldOptions options = long_path(true);
    options.sender.update = row.update;
    options.sender.delta = options.sender.update.delta = row.delta;
    World world(options);
    world.source.add("file", random_content(10'000, 1));
    std::uint64_t ahead = 0;
    world.forward.set_filter([&](TimePoint now, ConstBytes datagram) {
      ahead += carries_files(datagram) && now < TimePoint{1h} + 40ms ? 1 : 0;
      return true;
    });
    world.run();
    EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
    EXPECT_EQ(ahead, 0U);
  }
}

/// A sender that is interrupted before anybody has answered tells the receiver, who may have begun.
TEST(FirstFlight, AnInterruptedSenderTellsTheReceiver) {
  World world(long_path(true));
  world.source.add("file", random_content(1'000'000, 1));
  bool interrupted = false;
  world.each_step = [&] {
    if (!interrupted && world.destination.writes > 0) {
      world.sender->interrupt(world.now);
      interrupted = true;
    }
  };
  world.run();
  EXPECT_TRUE(interrupted);
  EXPECT_EQ(world.sender->exit_code(), ExitCode::interrupted);
  const Event* const error = world.server_event(Event::Kind::error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ExitCode::interrupted);
  EXPECT_LT(error->seconds, 1);
}

}  // namespace
}  // namespace sluice::ftx::test
