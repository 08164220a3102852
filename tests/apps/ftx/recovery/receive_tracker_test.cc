// SPDX-License-Identifier: Apache-2.0
// Received sequences and loss detection against a plain set.
#include "apps/ftx/recovery/receive_tracker.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

std::set<std::uint64_t> missing_set(const Report& report) {
  std::set<std::uint64_t> set;
  for (std::size_t i = 0; i < report.range_count; ++i) {
    for (std::uint32_t k = 0; k < report.missing[i].count; ++k) {
      set.insert(report.missing[i].first + k);
    }
  }
  return set;
}

TEST(ReceiveTracker, MissingAgreesWithASetAcrossTheWindow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    ReceiveTracker tracker;
    std::set<std::uint64_t> model;
    TimePoint now{1h};
    // Starts near a multiple of the window every other time, so that it wraps.
    std::uint64_t base = 1 + (seed % 2) * (ReceiveTracker::window_sequences * 3 - 150);
    for (int i = 0; i < 400; ++i) {
      const std::uint64_t sequence = base + prng.below(300);
      const bool known = model.contains(sequence);
      ASSERT_EQ(tracker.classify(sequence),
                known ? ReceiveTracker::Arrival::duplicate : ReceiveTracker::Arrival::fresh);
      if (known) {
        continue;
      }
      tracker.record(now, {sequence, static_cast<std::uint32_t>(sequence - base), 0});
      model.insert(sequence);
    }
    now += 2s;
    EXPECT_EQ(tracker.loss_horizon(now), *model.rbegin());
    std::set<std::uint64_t> expected;
    for (std::uint64_t s = base; s < *model.rbegin(); ++s) {
      if (!model.contains(s)) {
        expected.insert(s);
      }
    }
    std::set<std::uint64_t> told;
    std::uint64_t from = tracker.first_known();
    for (bool all = false; !all;) {
      Report report;
      all = tracker.fill_missing(from, tracker.loss_horizon(now), report);
      ASSERT_EQ(report.from, from);
      ASSERT_GE(report.to + 1, from);
      told.merge(missing_set(report));
      from = report.to + 1;
    }
    EXPECT_EQ(told, expected);
  }
}

/// All that can be asked of two trackers.
void expect_alike(const ReceiveTracker& one, const ReceiveTracker& other, TimePoint now) {
  ASSERT_EQ(one.highest(), other.highest());
  ASSERT_EQ(one.highest_at(), other.highest_at());
  ASSERT_EQ(one.out_of_order(), other.out_of_order());
  ASSERT_EQ(one.floor(), other.floor());
  ASSERT_EQ(one.first_known(), other.first_known());
  for (const Duration later : {0us, 500us, 3000us, 2'000'000us}) {
    const std::uint64_t horizon = one.loss_horizon(now + later);
    ASSERT_EQ(horizon, other.loss_horizon(now + later));
    Report a;
    Report b;
    ASSERT_EQ(one.fill_missing(one.first_known(), horizon, a), other.fill_missing(one.first_known(), horizon, b));
    ASSERT_EQ(a.to, b.to);
    ASSERT_EQ(missing_set(a), missing_set(b));
  }
}

TEST(ReceiveTracker, ARunRecordedAtOnceIsItsSequencesOneByOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    ReceiveTracker single;
    ReceiveTracker run;
    TimePoint now{1h};
    std::uint64_t next = 1 + (seed % 2) * (ReceiveTracker::window_sequences - 300);
    std::vector<std::uint64_t> gaps;
    for (int i = 0; i < 200; ++i, now += Duration(prng.below(400'000))) {
      const std::uint64_t count = 1 + prng.below(150);
      const auto behind = static_cast<std::uint32_t>(std::min<std::uint64_t>(next - 1, prng.below(2000)));
      const auto round_trip = static_cast<std::uint32_t>(prng.below(20'000));
      for (std::uint32_t k = 0; k < count; ++k) {
        single.record(now, {next + k, behind + k, round_trip});
      }
      run.record(now, {next, behind, round_trip}, count);
      next += count;
      if (prng.below(4) == 0) {
        gaps.push_back(next);
        next += 1 + prng.below(prng.below(20) == 0 ? 2 * ReceiveTracker::window_sequences : 100);
      }
      if (!gaps.empty() && prng.below(8) == 0 && run.classify(gaps.back()) == ReceiveTracker::Arrival::fresh) {
        single.record(now, {gaps.back(), 0, round_trip});
        run.record(now, {gaps.back(), 0, round_trip});
        gaps.pop_back();
      }
      expect_alike(single, run, now);
      for (int ask = 0; ask < 20; ++ask) {
        const std::uint64_t sequence = 1 + prng.below(next + 100);
        ASSERT_EQ(single.classify(sequence), run.classify(sequence));
      }
    }
  }
}

TEST(LossDetector, AtTheEndOfTheDataOnlyWhatWasMeasuredCounts) {
  for (const std::uint64_t arrivals : {255U, 256U}) {
    for (const bool late : {false, true}) {
      SCOPED_TRACE(testing::Message() << arrivals << late);
      LossDetector detector;
      detector.set_round_trip(50ms);
      TimePoint now{1h};
      for (std::uint64_t sequence = 1; sequence <= arrivals; ++sequence) {
        detector.on_highest(now += 1ms, sequence);
      }
      if (late) {
        detector.on_reordered(now + 7ms, arrivals - 1);  // overtaken by the last, 8 ms before
      }
      EXPECT_EQ(detector.reorder_threshold(), 25ms);
      detector.end_of_data();
      const Duration learned = late ? 10ms : 1ms;
      EXPECT_EQ(detector.reorder_threshold(), arrivals < 256 ? 25ms : learned) << "too few to have learned from";
    }
  }
}

TEST(LossDetector, WaitsAWhileBeforeItKnowsTheRoundTrip) {
  LossDetector detector;
  EXPECT_EQ(detector.reorder_threshold(), 10ms);
  detector.set_round_trip(200us);
  EXPECT_EQ(detector.reorder_threshold(), 1ms);
}

// Reordering longer than the threshold: the sender has moved its floor past what it was told is lost.
TEST(ReceiveTracker, WhatComesAfterItWasDeclaredLostRaisesTheThreshold) {
  ReceiveTracker tracker;
  const TimePoint start{1h};
  tracker.record(start, {1, 0, 2000});
  tracker.record(start + 1ms, {3, 2, 2000});
  ASSERT_EQ(tracker.reorder_threshold(), 1ms);
  tracker.record(start + 5ms, {4, 0, 2000});  // the sender knows of 1 to 3
  ASSERT_EQ(tracker.classify(2), ReceiveTracker::Arrival::too_old);
  tracker.note_too_old(start + 9ms, 2);
  EXPECT_EQ(tracker.reorder_threshold(), 10ms) << "5/4 of 8 ms";
  EXPECT_EQ(tracker.out_of_order(), 1U);
  // Copies of what has arrived are not late, nor is what was never sent.
  for (const std::uint64_t sequence : {1U, 2U, 3U, 4U, 5U, 1'000'000U}) {
    tracker.note_too_old(start + 900ms, sequence);
  }
  EXPECT_EQ(tracker.reorder_threshold(), 10ms);
  EXPECT_EQ(tracker.out_of_order(), 1U);
}

TEST(ReceiveTracker, NothingIsLostBeforeTheReorderThresholdHasPassed) {
  ReceiveTracker tracker;
  const TimePoint now{1h};
  tracker.record(now, {1, 0, 20'000});
  tracker.record(now + 1ms, {5, 4, 20'000});
  EXPECT_EQ(tracker.reorder_threshold(), 10ms);  // half the round trip
  EXPECT_LT(tracker.loss_horizon(now + 10ms), 5U);
  EXPECT_EQ(tracker.loss_horizon(now + 11ms), 5U);
  EXPECT_EQ(tracker.out_of_order(), 0U);
}

TEST(ReceiveTracker, LatenessRaisesTheReorderThresholdUntilItIsForgotten) {
  ReceiveTracker tracker;
  TimePoint now{1h};
  tracker.record(now, {1, 0, 2000});
  tracker.record(now += 1ms, {10, 9, 2000});
  EXPECT_EQ(tracker.reorder_threshold(), 1ms);
  tracker.record(now += 40ms, {5, 4, 2000});
  EXPECT_EQ(tracker.out_of_order(), 1U);
  EXPECT_GE(tracker.reorder_threshold(), 40ms);
  EXPECT_LE(tracker.reorder_threshold(), 60ms);
  // Two periods later only small lateness remains.
  for (std::uint64_t s = 20; s < 60; s += 2) {
    tracker.record(now += 1s, {s + 1, 10, 2000});
    tracker.record(now += 1ms, {s, 10, 2000});
  }
  EXPECT_LT(tracker.reorder_threshold(), 10ms);
}

TEST(ReceiveTracker, ALeapClearsTheWholeWindow) {
  ReceiveTracker tracker;
  const TimePoint now{1h};
  for (std::uint64_t s = 1; s <= 1000; ++s) {
    tracker.record(now, {s, 0, 0});
  }
  const std::uint64_t leap = (1ULL << 40) + ReceiveTracker::window_sequences;
  tracker.record(now, {leap, 1000, 0});
  EXPECT_EQ(tracker.classify(1000), ReceiveTracker::Arrival::too_old);
  Report report;
  EXPECT_TRUE(tracker.fill_missing(tracker.first_known(), leap, report));
  ASSERT_EQ(report.range_count, 1U);
  EXPECT_EQ(report.missing[0].count, 1000U);
}

// The word of the highest sequence is also that of the oldest ones, which are forgotten then.
TEST(ReceiveTracker, WhatArrivedIsNotMissingAtTheWindowsEdge) {
  ReceiveTracker tracker;
  const TimePoint now{1h};
  std::uint64_t sequence = 1;
  for (; sequence < ReceiveTracker::window_sequences - 100; ++sequence) {
    tracker.record(now, {sequence, static_cast<std::uint32_t>(sequence - 1), 0});
  }
  for (; sequence < ReceiveTracker::window_sequences + 300; ++sequence) {
    tracker.record(now, {sequence, static_cast<std::uint32_t>(sequence - 1), 0});
    ASSERT_LE(tracker.first_known(), std::max<std::uint64_t>(sequence, ReceiveTracker::window_sequences) -
                                         ReceiveTracker::window_sequences + 64);
    for (std::uint64_t back = 0; back < 130 && back + 1 < sequence; ++back) {
      const std::uint64_t old = 1 + back;
      ASSERT_NE(tracker.classify(old), ReceiveTracker::Arrival::fresh) << old << " of " << sequence;
    }
    Report report;
    ASSERT_TRUE(tracker.fill_missing(tracker.first_known(), sequence, report));
    ASSERT_EQ(report.range_count, 0U) << sequence;
  }
}

// Every sequence that is still known and did not arrive is fresh; those the window has left are not.
TEST(ReceiveTracker, AGapIsKnownAsLongAsTheWindowHoldsIt) {
  ReceiveTracker tracker;
  const TimePoint now{1h};
  constexpr std::uint64_t gap = 1000;
  std::uint64_t left_at = 0;
  for (std::uint64_t s = 1; s < ReceiveTracker::window_sequences + 2000; ++s) {
    if (s == gap) {
      continue;
    }
    tracker.record(now, {s, static_cast<std::uint32_t>(std::min<std::uint64_t>(s - 1, 1U << 20)), 0});
    const bool fresh = s < gap || tracker.classify(gap) == ReceiveTracker::Arrival::fresh;
    left_at = fresh || left_at != 0 ? left_at : s;
  }
  EXPECT_GE(left_at, gap + ReceiveTracker::window_sequences - 64);
  EXPECT_LE(left_at, gap + ReceiveTracker::window_sequences);
}

}  // namespace
}  // namespace sluice::ftx
