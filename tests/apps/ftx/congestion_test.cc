// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/congestion.h"

#include <gtest/gtest.h>

#include "apps/ftx/round_trip.h"

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t datagram_bytes = 1000;

TEST(Pacer, SpacesDatagramsAtItsRateWithOneBurst) {
  Pacer pacer;
  pacer.set_rate(1'000'000);  // a datagram a millisecond
  TimePoint now{1h};
  std::size_t sent = 0;
  for (; now < TimePoint(1h) + 1s; now += 100us) {
    for (; pacer.next_send() <= now; ++sent) pacer.on_sent(now, datagram_bytes);
  }
  EXPECT_NEAR(static_cast<double>(sent), 1000, 3);
  // Silence is not saved up: after it comes one burst, not all that was missed.
  now += 10s;
  std::size_t burst = 0;
  for (; pacer.next_send() <= now; ++burst) pacer.on_sent(now, datagram_bytes);
  EXPECT_LE(burst, 1U + static_cast<std::size_t>(Pacer::burst / 1ms));
}

Report report_at(std::uint64_t clock_ns, std::uint64_t bytes, std::uint64_t echo_ns) {
  Report report;
  report.clock_ns = clock_ns;
  report.received_bytes = bytes;
  report.echo_ns = echo_ns;
  return report;
}

TEST(RateMeter, MeasuresOverSpansLongEnough) {
  RateMeter meter;
  EXPECT_FALSE(meter.on_report(report_at(0, 0, 0), 2ms));
  EXPECT_FALSE(meter.on_report(report_at(1'000'000, 1000, 1'000'000), 2ms));
  const auto rate = meter.on_report(report_at(4'000'000, 4000, 4'000'000), 2ms);
  ASSERT_TRUE(rate);
  EXPECT_EQ(*rate, 1'000'000U);
}

TEST(RateMeter, BunchedArrivalsAreNoFasterThanTheyWereSent) {
  RateMeter meter;
  (void)meter.on_report(report_at(0, 0, 0), 2ms);
  EXPECT_EQ(*meter.on_report(report_at(2'000'000, 8000, 8'000'000), 2ms), 1'000'000U);
}

TEST(RateMeter, ImpossibleReportsMeasureNothing) {
  RateMeter meter;
  (void)meter.on_report(report_at(10'000'000, 5000, 1), 2ms);
  EXPECT_FALSE(meter.on_report(report_at(5'000'000, 6000, 2), 2ms));   // the clock went back
  EXPECT_FALSE(meter.on_report(report_at(20'000'000, 4000, 2), 2ms));  // bytes vanished
  EXPECT_LE(*meter.on_report(report_at(20'000'000, UINT64_MAX, 2), 2ms), 1'000'000'000'000U);
}

/// A pipe that delivers what is sent at, but never faster than, `capacity`.
struct Pipe {
  explicit Pipe(std::uint64_t bytes_per_second) : capacity(bytes_per_second) {}

  void round(DeliveryRate& control) {
    const TimePoint before = now;
    std::uint64_t offered = 0;
    for (; now < before + 10ms; now += 100us) {
      for (; control.next_send() <= now; offered += datagram_bytes) control.on_sent(now, datagram_bytes);
    }
    last_rate = offered * 100;
    control.on_report(now, {.round_trip = 10ms, .rate = std::min(last_rate, capacity), .round_ended = true});
  }

  std::uint64_t capacity;
  std::uint64_t last_rate = 0;
  TimePoint now{1h};
};

TEST(DeliveryRate, FindsTheCapacityWithinADozenRoundsAndStaysNearIt) {
  DeliveryRate control(datagram_bytes);
  Pipe pipe(100'000'000);
  int rounds = 0;
  for (; rounds < 15 && control.state() != DeliveryRate::State::cruise; ++rounds) pipe.round(control);
  EXPECT_EQ(control.state(), DeliveryRate::State::cruise);
  EXPECT_EQ(control.bandwidth(), pipe.capacity);
  std::uint64_t highest = 0, sum = 0;
  for (int i = 0; i < 80; ++i) {
    pipe.round(control);
    highest = std::max(highest, pipe.last_rate);
    sum += pipe.last_rate;
  }
  EXPECT_NEAR(static_cast<double>(sum) / 80, 100e6, 5e6);
  EXPECT_LE(highest, 130'000'000U);
  EXPECT_EQ(control.bandwidth(), pipe.capacity);
}

TEST(DeliveryRate, FollowsACapacityThatDropsOrRises) {
  DeliveryRate control(datagram_bytes);
  Pipe pipe(100'000'000);
  for (int i = 0; i < 30; ++i) pipe.round(control);
  pipe.capacity = 20'000'000;
  for (int i = 0; i < 12; ++i) pipe.round(control);
  EXPECT_EQ(control.bandwidth(), 20'000'000U);
  pipe.capacity = 60'000'000;
  for (int i = 0; i < 60; ++i) pipe.round(control);
  EXPECT_GT(control.bandwidth(), 55'000'000U);
}

TEST(DeliveryRate, HavingLittleToSendDoesNotLowerIt) {
  DeliveryRate control(datagram_bytes);
  Pipe pipe(100'000'000);
  for (int i = 0; i < 20; ++i) pipe.round(control);
  const std::uint64_t before = control.bandwidth();
  for (int i = 0; i < 30; ++i) {
    control.on_report(pipe.now += 10ms,
                      {.round_trip = 10ms, .rate = 1000, .application_limited = true, .round_ended = true});
  }
  EXPECT_EQ(control.bandwidth(), before);
}

// RFC 6298, 2.2: "SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max (G, K*RTTVAR)".
TEST(RoundTrip, FirstAndLaterSamplesFollowTheRfc) {
  RoundTrip round_trip;
  EXPECT_FALSE(round_trip.known());
  round_trip.sample(80ms);
  EXPECT_EQ(round_trip.smoothed(), 80ms);
  EXPECT_EQ(round_trip.patience(), 240ms);
  // 2.3: RTTVAR = 3/4 * 40 + 1/4 * |80 - 40| = 40; SRTT = 7/8 * 80 + 1/8 * 40 = 75.
  round_trip.sample(40ms);
  EXPECT_EQ(round_trip.smoothed(), 75ms);
  EXPECT_EQ(round_trip.patience(), 235ms);
}

}  // namespace
}  // namespace sluice::ftx
