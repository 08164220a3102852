// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/delivery_rate.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

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

// Startup ends when three rounds in a row, no fewer, have not raised the rate by a quarter.
TEST(DeliveryRate, TheStateAfterEachFlatRound) {
  DeliveryRate control(datagram_bytes);
  TimePoint now{1h};
  const auto round = [&](std::uint64_t rate, bool limited = false) {
    control.on_report(now += 10ms, {.round_trip = 10ms,
                                    .rate = rate,
                                    .application_limited = limited,
                                    .round_ended = true,
                                    .in_flight_bytes = 100'000'000});
    return control.state();
  };
  using enum DeliveryRate::State;
  for (const std::uint64_t rate : {1'000'000U, 2'000'000U, 4'000'000U}) {
    EXPECT_EQ(round(rate), startup);
  }
  EXPECT_EQ(round(4'900'000), startup);  // a quarter of 4 MB is missing: flat, once
  EXPECT_EQ(round(4'900'000), startup);  // twice
  EXPECT_EQ(round(6'125'000), startup);  // grew: counts from the beginning
  EXPECT_EQ(round(6'125'000), startup);
  EXPECT_EQ(round(6'125'000), startup);
  EXPECT_EQ(round(6'125'000, true), startup) << "a round that had too little to send says nothing";
  EXPECT_EQ(round(6'125'000), drain);
  EXPECT_EQ(control.bandwidth(), 6'125'000U);
}

/// What `control` sends in ten milliseconds, and the pacer's burst of two.
std::uint64_t paced(DeliveryRate& control, TimePoint now) {
  std::uint64_t sent = 0;
  for (const TimePoint end = now + 10ms; now < end; now += 10us) {
    for (; control.next_send() <= now; sent += 1000) {
      control.on_sent(now, 1000);
    }
  }
  return sent;
}

TEST(DeliveryRate, DrainSendsAsMuchLessAsStartupSentMore) {
  DeliveryRate control(datagram_bytes);
  TimePoint now{1h};
  const auto round = [&](std::uint64_t in_flight) {
    control.on_report(now += 20ms,
                      {.round_trip = 10ms, .rate = 100'000'000, .round_ended = true, .in_flight_bytes = in_flight});
  };
  round(10'000'000);
  (void)paced(control, now);
  EXPECT_NEAR(static_cast<double>(paced(control, now += 20ms)), 1.2 * 2.77e6, 0.1e6);
  EXPECT_EQ(control.window_bytes(), 2'770'000U + 32 * datagram_bytes);
  for (int i = 0; i < 3; ++i) {
    round(10'000'000);
  }
  ASSERT_EQ(control.state(), DeliveryRate::State::drain);
  (void)paced(control, now);
  EXPECT_NEAR(static_cast<double>(paced(control, now += 20ms)), 1.2e6 / 2.77, 0.1e6 / 2.77);
  EXPECT_EQ(control.window_bytes(), 2'000'000U + 32 * datagram_bytes);
  round(1'000'001);
  EXPECT_EQ(control.state(), DeliveryRate::State::drain) << "more than what the pipe holds is in flight";
  round(1'000'000);
  EXPECT_EQ(control.state(), DeliveryRate::State::cruise);
}

/// A link with a queue before it, and reports every quarter of a round trip.
struct Queue {
  static constexpr std::uint64_t capacity = 50'000'000;
  static constexpr Duration delay = 20ms;
  static constexpr Duration step = 100us;

  void run(DeliveryRate& control, Duration time) {
    for (const TimePoint end = now + time; now < end; now += step) {
      for (; control.next_send() <= now && sent - acknowledged < control.window_bytes(); sent += datagram_bytes) {
        control.on_sent(now, datagram_bytes);
        queued += datagram_bytes;
      }
      const std::uint64_t served = std::min<std::uint64_t>(queued, capacity / 10'000);
      queued -= served;
      under_way.push_back(served);
      if (under_way.size() > static_cast<std::size_t>(delay / step)) {
        acknowledged += under_way.front();
        under_way.pop_front();
      }
      history.push_back(acknowledged);
      if (now >= report_at) {
        report_at = now + 5ms;
        report(control);
      }
    }
  }
  void report(DeliveryRate& control) {
    const std::size_t span = std::min<std::size_t>(history.size() - 1, 100);
    Delivery delivery;
    delivery.round_trip = delay + Duration(static_cast<Duration::rep>(queued * 1'000'000'000 / capacity));
    delivery.rate = (history.back() - history[history.size() - 1 - span]) * 10'000 / std::max<std::size_t>(span, 1);
    delivery.in_flight_bytes = sent - acknowledged;
    delivery.round_ended = acknowledged >= round_ends;
    round_ends = delivery.round_ended ? sent : round_ends;
    control.on_report(now, delivery);
  }

  std::uint64_t sent = 0, acknowledged = 0, queued = 0, round_ends = 0;
  std::deque<std::uint64_t> under_way;
  std::vector<std::uint64_t> history;
  TimePoint now{1h}, report_at{};
};

TEST(DeliveryRate, WhatStartupLeftInTheQueueIsGoneBeforeCruise) {
  DeliveryRate control(datagram_bytes);
  Queue link;
  std::uint64_t highest = 0;
  int steps = 0;
  for (; steps < 5000 && control.state() != DeliveryRate::State::cruise; ++steps) {
    link.run(control, 1ms);
    highest = std::max(highest, link.queued);
  }
  EXPECT_LT(steps, 600);
  EXPECT_GT(highest, 500'000U) << "startup fills the queue";
  EXPECT_LT(link.queued, 100'000U) << "a tenth of what the link holds";
  EXPECT_NEAR(static_cast<double>(control.bandwidth()), Queue::capacity, Queue::capacity * 0.02);
  // And cruise keeps it low: probing fills it for one round in eight.
  std::uint64_t sum = 0;
  for (int i = 0; i < 2000; ++i) {
    link.run(control, 1ms);
    sum += link.queued;
  }
  EXPECT_LT(sum / 2000, 250'000U);
  EXPECT_GT(static_cast<double>(link.acknowledged) / 2.0, Queue::capacity * 0.95);
}

}  // namespace
}  // namespace sluice::ftx
