// SPDX-License-Identifier: Apache-2.0
// Trees of which nothing is there: the receiver accepts them by the beginning of their list, and their files come while
// the rest of it does.
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// `count` files of `size` bytes, a hundred in a directory. They have few contents, so that making them takes no time.
void add_tree(MemorySource& source, std::size_t count, std::size_t size) {
  source.add_directory("tree");
  for (std::size_t i = 0; i < count; ++i) {
    source.add_packed("file-" + std::to_string(i), random_content(size, i % 16));
  }
}

WorldOptions sealed(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.sealed = true;
  options.sender.ip_header_bytes = 28;
  return options;
}

/// Among 1024 files, at which a receiver looks at once, it needs no second turn.
void expect_arrived_early(const World& world) {
  EXPECT_TRUE(world.sender->finished());
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  EXPECT_NE(world.server_event(Event::Kind::done), nullptr);
  EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
  EXPECT_EQ(world.server->open_files(), 0U);
  EXPECT_TRUE(world.spins == 0 || world.source.files().size() > 1024) << world.spins;
}

/// 1 Gbit/s and 50 ms with 0.1 % lost both ways, a queue of one bandwidth-delay product: 10,000 files of 4 KiB take the
/// link 0.36 s, and a round trip each their list, the answer to it, and the last report; the rest is start-up.
/// `room_bytes` is what the receiver's socket holds.
double seconds_of_small_files(std::uint64_t seed, std::uint64_t room_bytes, bool fresh) {
  WorldOptions options = sealed(seed);
  // A datagram of 1472 bytes is a packet of 1500.
  constexpr std::uint64_t rate = 125'000'000 / 1500 * 1472;
  options.forward = {.loss = 0.001, .delay = 25ms, .rate = rate, .queue_bytes = 6'250'000};
  options.back = {.loss = 0.001, .delay = 25ms, .rate = rate};
  options.server.receive_room_bytes = room_bytes;
  World world(options);
  world.destination.fresh = fresh;
  add_tree(world.source, 10'000, 4096);
  world.run([&] { return world.sender->finished(); });
  EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
  EXPECT_TRUE(world.all_equal());
  return world.sender_event(Event::Kind::done)->seconds;
}

TEST(Early, TenThousandSmallFilesOverALongPath) {
  struct Row {
    const char* what;
    std::uint64_t room_bytes;
    double bound;
  };
  // A socket announces a quarter of what the kernel charges to it (tpi/udp_socket.cc): of twice 212992 bytes, Linux's
  // limit for who has no privileges, and of 4 MiB.
  constexpr Row rows[] = {{"small_socket", 106'496, 0.74}, {"large_socket", 1U << 20, 0.60}};
  constexpr std::uint64_t runs = sanitized ? 1 : 3;
  for (const Row& row : std::span(rows).first(sanitized ? 1 : std::size(rows))) {
    SCOPED_TRACE(row.what);
    std::vector<double> before, after;
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      before.push_back(seconds_of_small_files(seed, row.room_bytes, false));
      after.push_back(seconds_of_small_files(seed, row.room_bytes, true));
    }
    std::ranges::sort(before);
    std::ranges::sort(after);
    const double median = after[runs / 2];
    RecordProperty(row.what,
                   std::to_string(median) + " s, if the list is waited for " + std::to_string(before[runs / 2]));
    EXPECT_LT(median, row.bound);
    EXPECT_LT(median, before[runs / 2] - 0.02) << "most of a round trip";
  }
}

TEST(Early, FilesComeWhileTheListDoes) {
  for (const bool fresh : {false, true}) {
    WorldOptions options = sealed(1);
    options.forward.delay = options.back.delay = 25ms;
    World world(options);
    world.destination.fresh = fresh;
    add_tree(world.source, 10'000, 100);
    TimePoint list_at{}, files_at = never;
    world.forward.set_filter([&](TimePoint now, ConstBytes datagram) {
      const auto adu = adu_of(datagram);
      list_at = adu && adu->file == manifest_file ? now : list_at;
      files_at = adu && adu->file == pack_file ? std::min(now, files_at) : files_at;
      return true;
    });
    world.run();
    expect_arrived_early(world);
    EXPECT_EQ(files_at - list_at < 25ms, fresh) << "before the end of the list can have arrived";
  }
}

/// What overtakes a part of the list is not sent again.
TEST(Early, WhatOvertakesALostPartOfTheListWaitsForIt) {
  for (const std::uint64_t part : {0U, 1U, 50U, 150U, 250U, 300U}) {
    SCOPED_TRACE(part);
    WorldOptions options = sealed(1);
    options.forward = {.delay = 25ms, .rate = 125'000'000};
    options.back.delay = 25ms;
    World world(options);
    world.destination.fresh = true;
    add_tree(world.source, 10'000, 300);
    std::uint64_t parts = 0;
    std::uint64_t lost = 0;
    world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
      const auto adu = adu_of(datagram);
      const bool loses = adu && adu->file == manifest_file && parts++ == part;
      lost += loses ? 1 : 0;
      return !loses;
    });
    std::uint64_t held = 0;
    world.each_step = [&] {
      held = std::max(held, world.options.server.memory_bytes_max - world.server->memory_left());
    };
    world.run();
    expect_arrived_early(world);
    EXPECT_EQ(lost, 1U);
    EXPECT_EQ(world.sender_event(Event::Kind::done)->repaired, 1U);
    EXPECT_LT(held, EarlyAdus::bytes_max + (4U << 20));
  }
}

TEST(Early, AnyLinkDeliversTheSameBytes) {
  constexpr std::uint64_t runs = sanitized ? 40 : 200;
  std::uint64_t early = 0;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    WorldOptions options = sealed(seed);
    options.pull = prng.chance(0.3);
    options.sender.connect_timeout = options.invite_timeout = 60s;
    for (LinkFaults* link : {&options.forward, &options.back}) {
      *link = {.loss = prng.unit() * 0.3,
               .burst = 1 + prng.unit() * 5,
               .burst_max = 200ms,
               .reorder = prng.unit() * 0.5,
               .reorder_delay = 30ms,
               .duplicate = prng.unit() * 0.1,
               .corrupt = prng.unit() * 0.1,
               .delay = 10ms};
    }
    World world(options);
    world.destination.fresh = true;
    add_tree(world.source, 100 + prng.below(900), prng.below(1000));
    for (std::uint64_t left = prng.below(4); left > 0; --left) {
      world.source.add("large-" + std::to_string(left), random_content(prng.below(300'000), seed + left));
    }
    TimePoint files_at = never, list_at{};
    world.forward.set_filter([&](TimePoint now, ConstBytes datagram) {
      const auto adu = adu_of(datagram);
      files_at = adu && !is_list(adu->file) ? std::min(now, files_at) : files_at;
      list_at = adu && adu->file == manifest_file ? now : list_at;
      return true;
    });
    world.run();
    expect_arrived_early(world);
    early += files_at < list_at ? 1 : 0;
  }
  EXPECT_GT(early, runs / 4) << "of so many the list was not whole when files came";
}

}  // namespace
}  // namespace sluice::ftx::test
