// SPDX-License-Identifier: Apache-2.0
// Whole transfers over simulated paths that carry no datagram above a size, and say nothing of those they drop.
#include <gtest/gtest.h>

#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

constexpr std::size_t header_v4 = 28;

/// A world whose path has an MTU, and which notes what is sent.
struct PathWorld {
  explicit PathWorld(std::size_t path_mtu, WorldOptions options = {}) : mtu(path_mtu), world(with_search(options)) {
    world.forward.set_filter([this](TimePoint, ConstBytes datagram) { return passes(datagram); });
  }

  static WorldOptions with_search(WorldOptions options) {
    options.sender.tsdu_bytes = options.server.tsdu_bytes = 9000 - header_v4;
    options.sender.ip_header_bytes = header_v4;
    return options;
  }

  bool passes(ConstBytes datagram) {
    const bool data = parse_envelope(datagram)->kind == Kind::data;
    const bool fits = datagram.size() + header_v4 <= mtu;
    if (data) {
      // RFC 8899 section 3: "A PL MUST NOT send a datagram (other than a probe packet) with a size at the PL that is
      // larger than the current PLPMTU."
      EXPECT_LE(datagram.size(), world.sender->datagram_bytes());
      largest = std::max(largest, datagram.size());
      bytes += fits ? datagram.size() : 0;
      datagrams += fits ? 1 : 0;
    }
    refused += fits ? 0 : 1;
    refused_data += !fits && data ? 1 : 0;
    return fits;
  }

  void run() {
    world.run();
    ASSERT_TRUE(world.sender->finished());
    EXPECT_EQ(world.sender->exit_code(), ExitCode::ok);
    EXPECT_TRUE(world.all_equal());
    EXPECT_EQ(world.spins, 0U);
    EXPECT_EQ(world.server->memory_left(), world.options.server.memory_bytes_max);
    ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
    EXPECT_EQ(world.server_event(Event::Kind::done)->bytes, world.server_event(Event::Kind::done)->total_bytes);
  }

  std::size_t mtu;
  World world;
  std::size_t largest = 0;
  std::uint64_t bytes = 0, datagrams = 0, refused = 0, refused_data = 0;
};

/// What the largest datagram of payload in units of 16 has, sealed or not.
std::size_t largest_datagram(std::size_t mtu, bool sealed) {
  const std::size_t framing = data_header_bytes + (sealed ? tag_bytes : 0);
  return (mtu - header_v4 - framing) / adu_bytes_unit * adu_bytes_unit + framing;
}

TEST(PathMtuTransfer, DatagramsAreAsLargeAsThePathCarries) {
  for (const std::size_t mtu : {1280UL, 1400UL, 1492UL, 1500UL, 9000UL}) {
    for (const int form : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << mtu << " form " << form);
      WorldOptions options;
      options.sealed = form > 0;
      options.pull = form == 2;
      options.fixed_rate = 4'000'000;  // more than a second, a hundred round trips
      PathWorld path(mtu, options);
      path.world.source.add("file", random_content(5'000'000, mtu));
      path.run();
      EXPECT_EQ(path.largest, largest_datagram(mtu, options.sealed));
      EXPECT_EQ(path.refused_data, 0U) << "only probes were too large";
      EXPECT_EQ(path.world.sender_event(Event::Kind::done)->repaired, 0U);
      if (mtu == 1500) {  // all data behind the first flight has the size: the probe comes back with the answer to that
        const std::uint64_t framing = data_header_bytes + (options.sealed ? tag_bytes : 0);
        const auto adus_of = [&](std::uint64_t bytes, std::size_t datagram) {
          return bytes / (datagram - framing) + 1;
        };
        constexpr std::uint64_t flight = ReceiveCredit::initial_bytes;
        EXPECT_LE(path.world.sender_event(Event::Kind::done)->adus,
                  adus_of(5'000'000 - flight, path.largest) + adus_of(flight, PathMtu::base_bytes - 16) + 1);
      } else {
        EXPECT_GE(path.bytes / path.datagrams, path.largest * 3 / 4);
      }
    }
  }
}

/// Sends a window at a time, and notes how large it is told that datagrams are.
class Told final : public CongestionControl {
 public:
  [[nodiscard]] std::string_view name() const override { return "test"; }
  void on_datagram_bytes(std::size_t bytes) override { datagram_bytes = bytes; }
  void on_sent(TimePoint, std::size_t) override {}
  void on_report(TimePoint, const Delivery&) override {}
  [[nodiscard]] std::uint64_t window_bytes() const override { return 100'000; }
  [[nodiscard]] TimePoint next_send() const override { return {}; }
  [[nodiscard]] bool behind(TimePoint) const override { return false; }

  std::size_t datagram_bytes = 0;
};

TEST(PathMtuTransfer, CongestionControlKnowsHowLargeDatagramsAre) {
  for (const std::size_t mtu : {1280UL, 9000UL}) {
    for (const bool sealed : {false, true}) {
      SCOPED_TRACE(testing::Message() << mtu << sealed);
      WorldOptions options;
      options.sealed = sealed;
      PathWorld path(mtu, options);
      auto told = std::make_unique<Told>();
      const Told& control = *told;
      path.world.congestion = std::move(told);
      path.world.source.add("file", random_content(5'000'000, mtu));
      path.run();
      EXPECT_EQ(control.datagram_bytes, largest_datagram(mtu, sealed));
    }
  }
}

TEST(PathMtuTransfer, AServerThatTakesLessIsNotAskedForMore) {
  WorldOptions options = PathWorld::with_search({});
  options.server.tsdu_bytes = 3000;
  options.fixed_rate = 4'000'000;  // many round trips
  World world(options);
  std::size_t largest = 0;
  world.forward.set_filter([&](TimePoint, ConstBytes datagram) {
    largest = std::max(largest, datagram.size());
    return true;
  });
  world.source.add("file", random_content(1'000'000, 1));
  world.run();
  EXPECT_TRUE(world.all_equal());
  EXPECT_LE(largest, 3000U);
  EXPECT_GT(largest, 2900U);
}

TEST(PathMtuTransfer, APathThatShrinksIsABlackHoleAndWhatWasLostComesInParts) {
  for (const auto& [before, after] : std::vector<std::pair<std::size_t, std::size_t>>{
           {9000, 1500}, {9000, 1400}, {1500, 1400}, {1500, 1280}, {1500, 1228}, {1280, 1100}}) {
    for (const bool sealed : {false, true}) {
      SCOPED_TRACE(testing::Message() << before << " -> " << after << (sealed ? " sealed" : ""));
      WorldOptions options;
      options.sealed = sealed;
      options.forward.rate = 2'000'000;
      PathWorld path(before, options);
      path.world.source.add("file", random_content(4'000'000, after));
      path.world.each_step = [&] {
        if (path.datagrams > 0 && path.bytes > 1'500'000) {
          path.mtu = after;
        }
      };
      path.run();
      EXPECT_GT(path.refused_data, 0U);
      EXPECT_LE(path.world.sender->datagram_bytes() + header_v4, after);
      EXPECT_LT(path.world.sender_event(Event::Kind::done)->seconds, 12);
    }
  }
}

TEST(PathMtuTransfer, APathThatGrowsAndShrinksOftenLosesNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions options;
    options.seed = seed;
    options.sealed = seed % 2 == 0;
    options.forward.rate = 4'000'000;
    options.forward.reorder = 0.1;
    options.forward.duplicate = 0.02;
    PathWorld path(1500, options);
    for (int i = 0; i < 5; ++i) {
      path.world.source.add("f" + std::to_string(i), random_content(prng.below(1'500'000), seed + 1));
    }
    TimePoint next = path.world.now + 300ms;
    path.world.each_step = [&] {
      if (path.world.now >= next) {
        next = path.world.now + 300ms;
        path.mtu = 1228 + prng.below(8000);
      }
    };
    path.run();
  }
}

TEST(PathMtuTransfer, LostProbesAreNoLimit) {
  int full = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options;
    options.seed = seed;
    options.sealed = true;
    options.forward.loss = options.back.loss = 0.05;
    options.fixed_rate = 4'000'000;  // many round trips
    PathWorld path(1500, options);
    path.world.source.add("file", random_content(2'000'000, seed));
    path.run();
    full += path.largest == largest_datagram(1500, true) ? 1 : 0;
  }
  EXPECT_GE(full, 28);
}

// Losses that have nothing to do with size: a queue that overflows, a partition.
TEST(PathMtuTransfer, CongestionIsNoBlackHole) {
  WorldOptions options;
  options.sealed = true;
  options.fixed_rate = 2'000'000;
  options.forward.rate = 1'600'000;
  options.forward.queue_bytes = 30'000;
  PathWorld path(1500, options);
  path.world.source.add("file", random_content(3'000'000, 1));
  std::uint64_t at_base = 0;
  path.world.each_step = [&] {
    at_base += path.bytes > 100'000 && path.world.sender->datagram_bytes() <= PathMtu::base_bytes ? 1 : 0;
  };
  path.run();
  EXPECT_GT(path.world.forward.overflowed, 100U);
  EXPECT_EQ(at_base, 0U);
}

TEST(PathMtuTransfer, TooBigMessagesAloneSlowNothingDown) {
  WorldOptions options;
  options.fixed_rate = 4'000'000;
  PathWorld path(9000, options);
  path.world.source.add("file", random_content(3'000'000, 1));
  std::size_t at = 0;
  path.world.each_step = [&] {
    at = std::max(at, path.world.sender->datagram_bytes());
    if (at > 1472) {
      path.world.sender->too_big(path.world.now);
      EXPECT_EQ(path.world.sender->datagram_bytes(), at);
    }
  };
  path.run();
  EXPECT_EQ(at, 8972U);
  EXPECT_EQ(path.world.sender_event(Event::Kind::done)->repaired, 0U);
}

}  // namespace
}  // namespace sluice::ftx::test
