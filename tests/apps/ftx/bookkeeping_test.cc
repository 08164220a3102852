// SPDX-License-Identifier: Apache-2.0
// Slots, sequence numbers and flights against plain models of themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "apps/ftx/arrivals.h"
#include "apps/ftx/flight.h"
#include "apps/ftx/ring.h"
#include "apps/ftx/slots.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

TEST(Slots, AgreeWithASet) {
  for (const std::uint64_t count : {1U, 2U, 63U, 64U, 65U, 127U, 128U, 129U, 1000U}) {
    SCOPED_TRACE(count);
    Slots slots(count);
    std::set<std::uint64_t> model;
    Prng prng(count);
    while (model.size() < count) {
      const std::uint64_t slot = prng.below(count);
      EXPECT_EQ(slots.marked(slot), model.contains(slot));
      slots.mark(slot);
      model.insert(slot);
      std::uint64_t prefix = 0;
      while (model.contains(prefix)) ++prefix;
      ASSERT_EQ(slots.prefix(), prefix);
      ASSERT_EQ(slots.received(), model.size());
      ASSERT_EQ(slots.whole(), model.size() == count);
    }
  }
  EXPECT_TRUE(Slots(0).whole());
}

TEST(Ring, KeepsItsOrderWhileItGrowsAndWraps) {
  Ring<int> ring;
  int pushed = 0, popped = 0;
  Prng prng(3);
  for (int i = 0; i < 10000; ++i) {
    if (prng.chance(0.55) || ring.empty()) {
      ring.push(pushed++);
    } else {
      ASSERT_EQ(ring.front(), popped++);
      ring.pop();
    }
    ASSERT_EQ(ring.size(), static_cast<std::size_t>(pushed - popped));
    if (!ring.empty()) {
      ASSERT_EQ(ring.back(), pushed - 1);
    }
  }
}

std::set<std::uint64_t> lacking_set(const Report& report) {
  std::set<std::uint64_t> set;
  for (std::size_t i = 0; i < report.range_count; ++i) {
    for (std::uint32_t k = 0; k < report.lacking[i].count; ++k) set.insert(report.lacking[i].first + k);
  }
  return set;
}

TEST(Arrivals, LackingAgreesWithASetAcrossTheWindow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Arrivals arrivals;
    std::set<std::uint64_t> model;
    TimePoint now{1h};
    // Starts near a multiple of the window every other time, so that it wraps.
    std::uint64_t base = 1 + (seed % 2) * (Arrivals::window_sequences * 3 - 150);
    for (int i = 0; i < 400; ++i) {
      const std::uint64_t sequence = base + prng.below(300);
      const bool known = model.contains(sequence);
      ASSERT_EQ(arrivals.look(sequence), known ? Arrivals::Verdict::duplicate : Arrivals::Verdict::fresh);
      if (known) continue;
      arrivals.record(now, {sequence, 0, 0, static_cast<std::uint32_t>(sequence - base)});
      model.insert(sequence);
    }
    now += 2s;
    EXPECT_EQ(arrivals.settled(now), *model.rbegin());
    std::set<std::uint64_t> expected;
    for (std::uint64_t s = base; s < *model.rbegin(); ++s) {
      if (!model.contains(s)) expected.insert(s);
    }
    std::set<std::uint64_t> told;
    std::uint64_t from = arrivals.first_known();
    for (bool all = false; !all;) {
      Report report;
      all = arrivals.lacking(from, arrivals.settled(now), report);
      ASSERT_EQ(report.from, from);
      ASSERT_GE(report.to + 1, from);
      told.merge(lacking_set(report));
      from = report.to + 1;
    }
    EXPECT_EQ(told, expected);
  }
}

TEST(Arrivals, NothingIsLackingBeforeTheToleranceHasPassed) {
  Arrivals arrivals;
  const TimePoint now{1h};
  arrivals.record(now, {1, 0, 20'000, 0});
  arrivals.record(now + 1ms, {5, 0, 20'000, 4});
  EXPECT_EQ(arrivals.tolerance(), 10ms);  // half the round trip
  EXPECT_LT(arrivals.settled(now + 10ms), 5U);
  EXPECT_EQ(arrivals.settled(now + 11ms), 5U);
  EXPECT_EQ(arrivals.out_of_order(), 0U);
}

TEST(Arrivals, LatenessRaisesTheToleranceAndIsForgottenAgain) {
  Arrivals arrivals;
  TimePoint now{1h};
  arrivals.record(now, {1, 0, 2000, 0});
  arrivals.record(now += 1ms, {10, 0, 2000, 9});
  EXPECT_EQ(arrivals.tolerance(), 1ms);
  arrivals.record(now += 40ms, {5, 0, 2000, 4});
  EXPECT_EQ(arrivals.out_of_order(), 1U);
  EXPECT_GE(arrivals.tolerance(), 40ms);
  EXPECT_LE(arrivals.tolerance(), 60ms);
  // Two periods later only small lateness remains.
  for (std::uint64_t s = 20; s < 60; s += 2) {
    arrivals.record(now += 1s, {s + 1, 0, 2000, 10});
    arrivals.record(now += 1ms, {s, 0, 2000, 10});
  }
  EXPECT_LT(arrivals.tolerance(), 10ms);
}

TEST(Arrivals, ALeapClearsTheWholeWindow) {
  Arrivals arrivals;
  const TimePoint now{1h};
  for (std::uint64_t s = 1; s <= 1000; ++s) arrivals.record(now, {s, 0, 0, 0});
  const std::uint64_t leap = (1ULL << 40) + Arrivals::window_sequences;
  arrivals.record(now, {leap, 0, 0, 1000});
  EXPECT_EQ(arrivals.look(1000), Arrivals::Verdict::too_old);
  Report report;
  EXPECT_TRUE(arrivals.lacking(arrivals.first_known(), leap, report));
  ASSERT_EQ(report.range_count, 1U);
  EXPECT_EQ(report.lacking[0].count, 1000U);
}

AduName adu(std::uint64_t slot) { return {0, 100, slot * 100}; }

Report report_of(std::uint64_t from, std::uint64_t to, std::uint64_t highest, std::vector<SequenceRange> lacking = {}) {
  Report report;
  report.from = from;
  report.to = to;
  report.highest = highest;
  report.range_count = lacking.size();
  std::copy(lacking.begin(), lacking.end(), report.lacking.begin());
  return report;
}

TEST(Flight, WhatIsLackingIsRepairedOnceWhateverIsRepeated) {
  Flight flight;
  for (std::uint64_t slot = 0; slot < 10; ++slot) flight.enter(adu(slot));
  const Report first = report_of(1, 6, 10, {{3, 2}});
  EXPECT_EQ(flight.apply(first)->lacking, 2U);
  EXPECT_EQ(flight.oldest(), 7U);
  EXPECT_EQ(flight.apply(first)->lacking, 0U);
  EXPECT_EQ(flight.take_repair(), adu(2));
  EXPECT_EQ(flight.take_repair(), adu(3));
  EXPECT_FALSE(flight.repair_waiting());
  flight.enter(adu(2));  // sequence 11
  flight.enter(adu(3));  // sequence 12
  // The old report again, late: the repairs are under way and stay so.
  EXPECT_EQ(flight.apply(first)->lacking, 0U);
  // A later one says that the repair under sequence 11 was lost too.
  EXPECT_EQ(flight.apply(report_of(7, 12, 12, {{11, 1}}))->lacking, 1U);
  EXPECT_EQ(flight.take_repair(), adu(2));
  EXPECT_EQ(flight.span(), 0U);
}

TEST(Flight, AReportWhoseFirstPartWasLostSettlesTheRest) {
  Flight flight;
  for (std::uint64_t slot = 0; slot < 10; ++slot) flight.enter(adu(slot));
  EXPECT_EQ(flight.apply(report_of(6, 10, 10, {{9, 1}}))->lacking, 1U);
  EXPECT_EQ(flight.oldest(), 1U);
  const auto settled = flight.apply(report_of(1, 10, 10, {{2, 1}, {9, 1}}));
  EXPECT_EQ(settled->lacking, 1U);
  EXPECT_EQ(settled->arrived, 4U);
  EXPECT_EQ(flight.span(), 0U);
}

TEST(Flight, AProbeIsNeverRepairedAndTheFutureIsRefused) {
  Flight flight;
  flight.enter_probe();
  EXPECT_FALSE(flight.apply(report_of(1, 2, 2)));
  EXPECT_EQ(flight.apply(report_of(1, 1, 1, {{1, 1}}))->lacking, 0U);
  EXPECT_FALSE(flight.repair_waiting());
}

TEST(Flight, InFlightIsWhatWasSentAfterTheHighestArrival) {
  Flight flight;
  for (std::uint64_t slot = 0; slot < 10; ++slot) flight.enter(adu(slot));
  EXPECT_EQ(flight.in_flight_bytes(), 1000U);
  EXPECT_TRUE(flight.apply(report_of(1, 0, 7)));
  EXPECT_EQ(flight.in_flight_bytes(), 300U);
  EXPECT_EQ(flight.span(), 10U);
}

}  // namespace
}  // namespace sluice::ftx
