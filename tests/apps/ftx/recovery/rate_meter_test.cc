// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/rate_meter.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

Report report_at(std::uint64_t clock_ns, std::uint64_t bytes) {
  Report report;
  report.clock_ns = clock_ns;
  report.received_bytes = bytes;
  return report;
}

TEST(RateMeter, MeasuresOverSpansLongEnough) {
  RateMeter meter;
  EXPECT_FALSE(meter.on_report(report_at(0, 0), TimePoint{}, 2ms));
  EXPECT_FALSE(meter.on_report(report_at(1'000'000, 1000), TimePoint{1ms}, 2ms));
  const auto rate = meter.on_report(report_at(4'000'000, 4000), TimePoint{4ms}, 2ms);
  ASSERT_TRUE(rate);
  EXPECT_EQ(*rate, 1'000'000U);
}

TEST(RateMeter, BunchedArrivalsAreNoFasterThanTheyWereSent) {
  RateMeter meter;
  (void)meter.on_report(report_at(0, 0), TimePoint{}, 2ms);
  EXPECT_EQ(*meter.on_report(report_at(2'000'000, 8000), TimePoint{8ms}, 2ms), 1'000'000U);
}

TEST(RateMeter, ImpossibleReportsMeasureNothing) {
  RateMeter meter;
  (void)meter.on_report(report_at(10'000'000, 5000), TimePoint{1ns}, 2ms);
  EXPECT_FALSE(meter.on_report(report_at(5'000'000, 6000), TimePoint{2ns}, 2ms));   // the clock went back
  EXPECT_FALSE(meter.on_report(report_at(20'000'000, 4000), TimePoint{2ns}, 2ms));  // bytes vanished
  EXPECT_LE(*meter.on_report(report_at(20'000'000, UINT64_MAX), TimePoint{2ns}, 2ms), 1'000'000'000'000U);
}

}  // namespace
}  // namespace sluice::ftx
