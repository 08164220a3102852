// SPDX-License-Identifier: Apache-2.0
// Bbr on simulated paths (path.h): time to finish, share, queue. Every bound names what the link itself would do.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "apps/ftx/recovery/bbr.h"
#include "tests/apps/ftx/recovery/path.h"

namespace sluice::ftx::test {
namespace {

std::unique_ptr<Bbr> bbr(std::uint64_t seed = 1) { return std::make_unique<Bbr>(Flow::datagram_bytes, seed); }

Bbr& model(Flow& flow) { return static_cast<Bbr&>(flow.control()); }

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// What `flow` delivers in `span`, in MB a second.
double throughput(Path& path, Flow& flow, Duration span) {
  const std::uint64_t before = flow.delivered_bytes();
  path.run(span);
  return megabytes(flow.delivered_bytes() - before) / std::chrono::duration<double>(span).count();
}

TEST(BbrPath, AGigabitPathWithRandomLossIsFilled) {
  // The link takes 2.15 s; what is sent again 2.17 s at 1 %, 2.26 s at 5 %.
  for (const auto& [loss, bound] : {std::pair{0.0, 2.5}, {0.001, 2.6}, {0.01, 2.6}, {0.05, 2.9}}) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << "loss " << loss << " seed " << seed);
      Path path({.loss = loss, .seed = seed});
      Flow& flow = path.add(bbr(seed), 256 << 20);
      path.run(20s);
      ASSERT_TRUE(flow.finished());
      sum += flow.seconds();
      EXPECT_LT(flow.dropped * 100, flow.datagrams());
    }
    // The mean: how often the last ADUs are lost again is the repair's luck.
    EXPECT_LE(sum / 5, bound) << "loss " << loss;
    RecordProperty("seconds_at_loss_" + std::to_string(loss), std::to_string(sum / 5));
  }
}

TEST(BbrPath, ALongPathWithBurstsOfLossIsFilled) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Path path(
        {.rate = 12'500'000, .round_trip = 200ms, .queue_bytes = 2'500'000, .loss = 0.005, .burst = 3, .seed = seed});
    Flow& flow = path.add(bbr(seed), 256 << 20);
    path.run(60s);
    ASSERT_TRUE(flow.finished());
    EXPECT_LE(flow.seconds(), 21.5 / 0.93);
    EXPECT_LT(flow.dropped * 100, flow.datagrams());
  }
}

// Section 5.3.4: ProbeRTT is for flows that have not seen the path without a queue for a while.
TEST(BbrPath, AFlowThatKeepsTheQueueEmptyNeedsNoProbeRtt) {
  Path path({.rate = 12'500'000, .round_trip = 200ms, .queue_bytes = 2'500'000, .loss = 0.005, .seed = 4});
  Flow& flow = path.add(bbr(4));
  std::set<Bbr::State> states;
  flow.on_delivery = [&](TimePoint, const Delivery&) { states.insert(model(flow).state()); };
  path.run(3s);
  states.clear();
  path.run(20s);
  EXPECT_TRUE(states.contains(Bbr::State::probe_bw_cruise));
  EXPECT_FALSE(states.contains(Bbr::State::probe_rtt));
  EXPECT_EQ(std::chrono::duration_cast<std::chrono::milliseconds>(model(flow).min_round_trip()), 200ms);
}

TEST(BbrPath, AQueueOfAQuarterBandwidthDelayProductIsEnough) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 125'000, .seed = seed});
    Flow& flow = path.add(bbr(seed));
    EXPECT_GE(throughput(path, flow, 20s), 12.5 * 0.85);
    EXPECT_LT(flow.dropped * 100, flow.datagrams() * 2);
  }
}

TEST(BbrPath, AShortTransferFindsTheRateInTwoOrThreeRoundTrips) {
  struct Case {
    const char* name;
    PathOptions path;
    std::uint64_t bytes;
    double seconds_max;
    double dropped_max;  // of what was sent
  };
  const Case cases[] = {
      // The link takes 0.34 s, 1.34 s and 1.34 s.
      {"1 Gbit/s", {.loss = 0.001}, 40 << 20, 0.60, 0},
      {"100 Mbit/s", {.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000}, 16 << 20, 1.45, 0},
      {"a short queue", {.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 125'000}, 16 << 20, 1.65, 0.03},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      PathOptions options = one.path;
      options.seed = seed;
      Path path(options);
      Flow& flow = path.add(bbr(seed), one.bytes);
      path.run(20s);
      ASSERT_TRUE(flow.finished());
      sum += flow.seconds();
      EXPECT_LE(static_cast<double>(flow.dropped), one.dropped_max * static_cast<double>(flow.datagrams()));
    }
    EXPECT_LE(sum / 5, one.seconds_max);
  }
}

// Deviation 1: no program runs for a while, so round trips are long, and datagrams are lost at random besides.
TEST(BbrPath, APauseInStartupIsNoFullQueue) {
  for (const Duration at : {60ms, 100ms, 140ms, 180ms, 220ms, 260ms}) {
    for (const Duration pause : {30ms, 45ms}) {
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(testing::Message() << pause.count() / 1'000'000 << " ms after " << at.count() / 1'000'000
                                        << " ms, seed " << seed);
        Path path({.loss = 0.05, .seed = seed});
        Flow& flow = path.add(bbr(seed), 256 << 20);
        path.run(at);
        path.now += pause;
        path.run(20s);
        ASSERT_TRUE(flow.finished());
        EXPECT_LE(flow.seconds(), 3.2);
      }
    }
  }
}

// Without deviation 13 the larger of two has 1.2 of an equal share in the mean, up to 1.4.
TEST(BbrPath, TwoFlowsShareFromTheFirstSecondsOn) {
  for (const Duration after : {5ms, 50ms, 200ms, 1000ms}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", after " << after.count() << " ns");
      Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000, .seed = seed});
      Flow& first = path.add(bbr(seed));
      Flow& second = path.add(bbr(seed + 100), Flow::endless, after);
      path.run(after);
      const std::uint64_t before = second.delivered_bytes();
      const double one = throughput(path, first, 30s);
      const double other = megabytes(second.delivered_bytes() - before) / 30;
      EXPECT_LE(std::max(one, other), 1.15 * (one + other) / 2);
      EXPECT_GE(one + other, 12.5 * 0.95);
    }
  }
}

TEST(BbrPath, TwoFlowsShare) {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000, .seed = seed});
    Flow& first = path.add(bbr(seed));
    Flow& second = path.add(bbr(seed + 100), Flow::endless, 1s);
    path.run(40s);
    const std::uint64_t before = second.delivered_bytes();
    const double one = throughput(path, first, 60s);
    const double other = megabytes(second.delivered_bytes() - before) / 60;
    sum += one / other;
    EXPECT_GE(one / other, 0.7);
    EXPECT_LE(one / other, 1.45);
    EXPECT_GE(one + other, 12.5 * 0.9);
  }
  EXPECT_GE(sum / 4, 0.8);
  EXPECT_LE(sum / 4, 1.25);
}

TEST(BbrPath, FourFlowsShare) {
  double jain = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000, .seed = seed});
    std::vector<Flow*> flows;
    for (std::uint64_t i = 0; i < 4; ++i) {
      flows.push_back(&path.add(bbr(seed + 100 * i), Flow::endless, 300ms * i));
    }
    path.run(30s);
    double sum = 0;
    double squares = 0;
    for (const Flow* flow : flows) {
      sum += megabytes(flow->delivered_bytes());
      squares += megabytes(flow->delivered_bytes()) * megabytes(flow->delivered_bytes());
    }
    jain += sum * sum / squares / 4;
    EXPECT_GE(sum / 30, 12.5 * 0.95);
  }
  EXPECT_GE(jain / 12, 0.97) << "the index of Jain, Chiu and Hawe: 1 is equal";
}

TEST(BbrPath, WhatAnotherLeavesIsTakenWithinSeconds) {
  Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000});
  Flow& stays = path.add(bbr(1));
  Flow& leaves = path.add(bbr(2), Flow::endless, 50ms);
  const TimePoint begin = path.now;
  leaves.available = [begin](TimePoint now) -> std::uint64_t { return now - begin < 20s ? Flow::endless : 0; };
  path.run(22s);
  EXPECT_GE(throughput(path, stays, 2s), 12.5 * 0.9);
}

TEST(BbrPath, TheRoundTripIsMeasuredAgainWhenTheRouteChanges) {
  Path path({.rate = 12'500'000, .round_trip = 20ms, .queue_bytes = 500'000});
  Flow& flow = path.add(bbr());
  path.run(3s);
  EXPECT_LT(model(flow).min_round_trip(), 22ms);
  path.options.round_trip = 60ms;
  path.run(15s);
  EXPECT_GT(model(flow).min_round_trip(), 59ms);
  EXPECT_LT(model(flow).min_round_trip(), 66ms);
  EXPECT_GE(throughput(path, flow, 10s), 12.5 * 0.88);
}

TEST(BbrPath, ARateThatDropsToATenthAndRecovers) {
  Path path({.rate = 125'000'000, .round_trip = 20ms, .queue_bytes = 2'500'000});
  Flow& flow = path.add(bbr());
  path.run(3s);
  path.options.rate = 12'500'000;
  path.run(8s);
  EXPECT_NEAR(throughput(path, flow, 2s), 12.5, 1.5);
  EXPECT_LT(megabytes(model(flow).bandwidth()), 16);
  path.options.rate = 125'000'000;
  path.run(20s);
  EXPECT_GE(throughput(path, flow, 3s), 125 * 0.85);
}

TEST(BbrPath, TenGigabitsOverAFifthOfAMillisecond) {
  Path path({.rate = 1'250'000'000, .round_trip = 200us, .queue_bytes = 2'000'000});
  Flow& flow = path.add(bbr(), 512 << 20);
  path.run(20s);
  ASSERT_TRUE(flow.finished());
  EXPECT_LE(flow.seconds(), 0.43 / 0.8);
  EXPECT_LT(flow.dropped * 100, flow.datagrams() * 2);
}

TEST(BbrPath, APolicerIsNotOverrun) {
  Path path({.round_trip = 40ms, .police_rate = 12'500'000, .police_bytes = 125'000});
  Flow& flow = path.add(bbr());
  path.run(3s);
  const std::uint64_t dropped = flow.dropped, sent = flow.datagrams();
  EXPECT_GE(throughput(path, flow, 20s), 12.5 * 0.75);
  EXPECT_LT((flow.dropped - dropped) * 20, flow.datagrams() - sent) << "one in twenty";
}

TEST(BbrPath, HavingLittleToSendDoesNotLowerTheEstimate) {
  Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000});
  Flow& flow = path.add(bbr());
  const TimePoint begin = path.now;
  // Everything for 4 s, then 1 MB/s for 20 s, then everything.
  flow.available = [begin](TimePoint now) -> std::uint64_t {
    const double seconds = std::chrono::duration<double>(now - begin).count();
    const double slow = 60e6 + (seconds - 6) * 1e6;
    return seconds < 6 ? 60'000'000 : seconds < 26 ? static_cast<std::uint64_t>(slow) : Flow::endless;
  };
  path.run(25s);
  EXPECT_GE(megabytes(model(flow).bandwidth()), 11.5);
  path.run(1500ms);
  EXPECT_GE(throughput(path, flow, 2s), 12.5 * 0.88);
}

TEST(BbrPath, ARestartAfterAnIdleTimeIsPaced) {
  Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 100'000});
  Flow& flow = path.add(bbr());
  const TimePoint begin = path.now;
  flow.available = [begin](TimePoint now) -> std::uint64_t { return now - begin < 8s ? 40'000'000 : Flow::endless; };
  path.run(7900ms);
  const std::uint64_t dropped = flow.dropped;
  path.queued_most = 0;
  path.run(170ms);  // less than two round trips of sending: before it probes for bandwidth
  EXPECT_EQ(flow.dropped, dropped);
  EXPECT_LT(path.queued_most, 60'000U) << "the pacer's burst is 2 ms: 25 kB";
  EXPECT_GT(flow.delivered_bytes(), 40'000'000U);
}

TEST(BbrPath, ThirtyPercentLossStillProgresses) {
  Path path({.rate = 12'500'000, .round_trip = 40ms, .queue_bytes = 500'000, .loss = 0.3});
  Flow& flow = path.add(bbr());
  EXPECT_GE(throughput(path, flow, 30s), 0.25);
}

}  // namespace
}  // namespace sluice::ftx::test
