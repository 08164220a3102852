// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/delivery_rate.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t datagram_bytes = 1000;

/// A pipe that delivers what is sent at, but never faster than, `capacity`.
struct Pipe {
  explicit Pipe(std::uint64_t bytes_per_second) : capacity(bytes_per_second) {}

  void round(DeliveryRate& control) {
    const TimePoint before = now;
    std::uint64_t offered = 0;
    for (; now < before + 10ms; now += 100us) {
      for (; control.next_send() <= now; offered += datagram_bytes) {
        control.on_sent(now, datagram_bytes);
      }
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
  for (; rounds < 15 && control.state() != DeliveryRate::State::cruise; ++rounds) {
    pipe.round(control);
  }
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
  for (int i = 0; i < 30; ++i) {
    pipe.round(control);
  }
  pipe.capacity = 20'000'000;
  for (int i = 0; i < 12; ++i) {
    pipe.round(control);
  }
  EXPECT_EQ(control.bandwidth(), 20'000'000U);
  pipe.capacity = 60'000'000;
  for (int i = 0; i < 60; ++i) {
    pipe.round(control);
  }
  EXPECT_GT(control.bandwidth(), 55'000'000U);
}

TEST(DeliveryRate, HavingLittleToSendDoesNotLowerIt) {
  DeliveryRate control(datagram_bytes);
  Pipe pipe(100'000'000);
  for (int i = 0; i < 20; ++i) {
    pipe.round(control);
  }
  const std::uint64_t before = control.bandwidth();
  for (int i = 0; i < 30; ++i) {
    control.on_report(pipe.now += 10ms,
                      {.round_trip = 10ms, .rate = 1000, .application_limited = true, .round_ended = true});
  }
  EXPECT_EQ(control.bandwidth(), before);
}

}  // namespace
}  // namespace sluice::ftx
