// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/receive_credit.h"

#include <gtest/gtest.h>

#include <optional>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

Report report_at(Duration clock, std::uint64_t received, std::uint64_t credit) {
  Report report;
  report.clock_ns = static_cast<std::uint64_t>(clock.count());
  report.received_bytes = received;
  report.credit_bytes = credit;
  return report;
}

/// The highest sequence was sent when the report was made, unless `sent_at` says otherwise.
void on_report(ReceiveCredit& credit, const Report& report, Duration round_trip, std::optional<Duration> sent_at = {}) {
  const Duration clock(static_cast<Duration::rep>(report.clock_ns));
  credit.on_report(report, TimePoint{sent_at.value_or(clock)}, round_trip);
}

TEST(ReceiveCredit, BeginsSmall) { EXPECT_EQ(ReceiveCredit().window_bytes(), 128U * 1024); }

TEST(ReceiveCredit, WithoutARateIsWhatTheReportSays) {
  ReceiveCredit credit;
  on_report(credit, report_at(0ms, 0, 1000), 10ms);
  EXPECT_EQ(credit.window_bytes(), 1000U);
  on_report(credit, report_at(0ms, 0, 0), {});
  EXPECT_EQ(credit.window_bytes(), 0U);
}

TEST(ReceiveCredit, AddsWhatTheNetworkHolds) {
  ReceiveCredit credit;
  on_report(credit, report_at(0ms, 0, 1000), 10ms);
  on_report(credit, report_at(20ms, 2'000'000, 1000), 30ms);  // 100 MB/s; the least round trip counts
  EXPECT_EQ(credit.window_bytes(), 1000U + 2'000'000U);
}

TEST(ReceiveCredit, FollowsAReceiverThatGetsSlowerAfterTwoRates) {
  ReceiveCredit credit;
  on_report(credit, report_at(0ms, 0, 0), 10ms);
  on_report(credit, report_at(20ms, 2'000'000, 0), 10ms);
  on_report(credit, report_at(40ms, 2'200'000, 0), 10ms);
  EXPECT_EQ(credit.window_bytes(), 2'000'000U) << "one slow rate may be a pause";
  on_report(credit, report_at(60ms, 2'400'000, 0), 10ms);
  EXPECT_EQ(credit.window_bytes(), 200'000U);
}

/// A sender that begins has the more to send the more has come, and not a round trip later.
TEST(ReceiveCredit, FollowsAReceiverThatGetsFasterWithinARoundTrip) {
  ReceiveCredit credit;
  on_report(credit, report_at(0ms, 0, 1000), 50ms);
  on_report(credit, report_at(2ms, 100'000, 1000), 50ms);
  EXPECT_EQ(credit.window_bytes(), 1000U + 2 * 100'000U);
  on_report(credit, report_at(50ms, 100'000, 1000), 50ms);
  EXPECT_EQ(credit.window_bytes(), 1000U + 2 * 100'000U) << "the rate of a round trip";
  on_report(credit, report_at(51ms, 150'000, 1000), 50ms);
  EXPECT_EQ(credit.window_bytes(), 1000U + 2 * 100'000U) << "not less than before, since the next has begun";
  on_report(credit, report_at(52ms, 300'000, 1000), 50ms);
  EXPECT_EQ(credit.window_bytes(), 1000U + 2 * 200'000U);
}

/// What a pause of the receiver has bunched was sent over a longer time.
TEST(ReceiveCredit, ABunchIsNoRate) {
  ReceiveCredit credit;
  on_report(credit, report_at(0ms, 0, 0), 10ms);
  on_report(credit, report_at(1ms, 1'000'000, 0), 10ms, 40ms);
  EXPECT_EQ(credit.window_bytes(), 2 * 250'000U);
}

// Over a tenth of a millisecond a rate is that of a bunch.
TEST(ReceiveCredit, ARateIsMeasuredOverAMillisecondAtLeast) {
  ReceiveCredit credit;
  on_report(credit, report_at(0us, 0, 0), 100us);
  on_report(credit, report_at(100us, 500'000, 0), 100us);
  on_report(credit, report_at(1000us, 1'000'000, 0), 100us);  // 1 GB/s
  EXPECT_EQ(credit.window_bytes(), 200'000U);
}

TEST(ReceiveCredit, IsBoundedWhateverTheReceiverSays) {
  ReceiveCredit credit;
  on_report(credit, report_at(0ms, 0, file_bytes_max - 1), 60s);
  on_report(credit, report_at(60s, UINT64_MAX, file_bytes_max - 1), 60s);
  EXPECT_GE(credit.window_bytes(), file_bytes_max - 1);
  EXPECT_LE(credit.window_bytes(), file_bytes_max + 1'000'000'000'000U);
}

}  // namespace
}  // namespace sluice::ftx
