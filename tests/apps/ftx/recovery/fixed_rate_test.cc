// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/fixed_rate.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

/// Reports of `seconds` with so much of 1 MB lost in each.
void report(FixedRate& control, TimePoint& now, int seconds, std::uint64_t lost) {
  for (int i = 0; i < seconds * 10; ++i) {
    now += 100ms;
    Delivery delivery;
    delivery.newly_resolved_bytes = 100'000;
    delivery.newly_lost_bytes = lost / 10;
    control.on_report(now, delivery);
  }
}

TEST(FixedRate, TheCircuitBreakerTripsWhenLossStaysHigh) {
  FixedRate control(1'000'000);
  TimePoint now{1h};
  report(control, now, 9, 400'000);
  EXPECT_EQ(control.tripped(), nullptr) << "nine seconds";
  report(control, now, 2, 400'000);
  EXPECT_NE(control.tripped(), nullptr);
}

TEST(FixedRate, LossThatIsHighForAWhileOrLowForLongDoesNotTripIt) {
  FixedRate control(1'000'000);
  TimePoint now{1h};
  for (int i = 0; i < 5; ++i) {
    report(control, now, 8, 900'000);
    report(control, now, 2, 0);
  }
  report(control, now, 60, 300'000);
  EXPECT_EQ(control.tripped(), nullptr);
}

}  // namespace
}  // namespace sluice::ftx
