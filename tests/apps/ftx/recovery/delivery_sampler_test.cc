// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/delivery_sampler.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t sampled_adu_bytes = 968;
constexpr std::uint64_t sampled_datagram = sampled_adu_bytes + data_header_bytes;  // 1000
static_assert(sampled_datagram == 1000);

/// Sends a datagram a millisecond; the round trip is 10 ms and the receiver reports at once.
struct Link {
  void send(int datagrams) {
    for (; datagrams > 0; --datagrams) {
      sampler.on_sent(now, sent);
      sent.on_sent({0, sampled_adu_bytes, 0}, now);
      now += 1ms;
    }
  }
  /// The report that `highest` has arrived, `held` before it was made.
  Delivery report(std::uint64_t highest, std::uint64_t arrived, Duration held = 0ns, std::uint64_t to = 0,
                  std::vector<SequenceRange> missing = {}) {
    Report report;
    report.highest = highest;
    report.received_bytes = arrived * sampled_adu_bytes;
    report.held_ns = static_cast<std::uint64_t>(held.count());
    report.clock_ns = static_cast<std::uint64_t>((now - began - 5ms).count());
    report.to = to;
    report.range_count = missing.size();
    std::copy(missing.begin(), missing.end(), report.missing.begin());
    const auto resolved = sent.on_report(report);
    return sampler.on_report(now, report, sent, *resolved);
  }

  SentAdus sent;
  DeliverySampler sampler;
  TimePoint now{1h};
  TimePoint began{};  // where 5 ms after it the receiver's clock begins
};

TEST(DeliverySampler, TheRateIsThatOfArrivalHoweverReportsAreSpaced) {
  Link link;
  link.send(10);
  EXPECT_EQ(link.report(1, 1).rate, 100'000U);  // 1000 bytes in a round trip: all that was known then
  link.send(7);
  (void)link.report(8, 8);
  link.send(13);
  // 21 was sent after the report about 8 and arrives 13 ms after 8 did.
  const Delivery delivery = link.report(21, 21);
  EXPECT_EQ(delivery.rate, 1'000'000U);
  EXPECT_EQ(delivery.newest->delivered_bytes, 8 * sampled_datagram);
  EXPECT_EQ(delivery.newly_delivered_bytes, 13 * sampled_datagram);
  EXPECT_EQ(delivery.in_flight_bytes, 9 * sampled_datagram);
}

TEST(DeliverySampler, SaysWhetherAllArrivedAsFastAsItWasSent) {
  const auto as_sent = [](std::uint64_t arrived, Duration later) {
    Link link;
    link.send(10);
    (void)link.report(1, 1);
    link.send(7);
    (void)link.report(8, 8);
    link.send(13);
    link.now += later;
    return link.report(21, arrived).as_sent;
  };
  EXPECT_TRUE(as_sent(21, 0ms));
  EXPECT_FALSE(as_sent(20, 0ms)) << "one of 13 did not";
  EXPECT_FALSE(as_sent(21, 1ms)) << "13 ms of sending took 14 ms to arrive";
}

TEST(DeliverySampler, TheTimeThatTheReceiverHeldAReportDoesNotLowerTheRate) {
  Link link;
  link.send(10);
  (void)link.report(1, 1);
  link.send(12);
  (void)link.report(11, 11, 2ms);
  link.send(14);
  EXPECT_EQ(link.report(24, 24, 3ms).rate, 1'000'000U);
}

TEST(DeliverySampler, LossIsThatOfWhatWasResolvedSinceTheDatagramWasSent) {
  Link link;
  link.send(20);
  const Delivery delivery = link.report(10, 8, 0ns, 8, {{3, 2}});
  ASSERT_TRUE(delivery.newest_lost);
  EXPECT_EQ(delivery.newly_lost_bytes, 2 * sampled_datagram);
  EXPECT_EQ(delivery.newly_lost_runs, 1U);
  EXPECT_EQ(delivery.newly_resolved_bytes, 8 * sampled_datagram);
  EXPECT_EQ(delivery.newest_lost->lost_since_bytes, 2 * sampled_datagram);
  EXPECT_EQ(delivery.newest_lost->resolved_since_bytes, 8 * sampled_datagram);
  EXPECT_EQ(delivery.delivered_bytes, 8 * sampled_datagram);
}

// A receiver that wants to be sent more: it claims more than was sent, and that its clock hardly moved.
TEST(DeliverySampler, ALyingReceiverGetsNoHigherRateThanWasSent) {
  Link link;
  link.send(10);
  (void)link.report(1, 1);
  link.send(13);
  Report report;
  report.highest = 14;
  report.received_bytes = UINT64_MAX / 2;
  report.clock_ns = static_cast<std::uint64_t>((1h + 6ms).count());
  const auto resolved = link.sent.on_report(report);
  const Delivery delivery = link.sampler.on_report(link.now, report, link.sent, *resolved);
  EXPECT_LE(delivery.delivered_bytes, 14 * sampled_datagram);
  EXPECT_LE(*delivery.rate, 1'000'000U);
  EXPECT_LE(*delivery.arrival_rate, 1'000'000U);
}

TEST(DeliverySampler, TheArrivalRateIsThatOfTheLastHalfIntervalOrMore) {
  Link link;
  link.send(10);
  EXPECT_EQ(link.report(1, 1).arrival_rate, 400'000U) << "in the interval that the receiver waited from the first on";
  link.send(7);
  EXPECT_EQ(link.report(8, 8).arrival_rate, 1'000'000U);
  link.send(1);
  EXPECT_EQ(link.report(9, 9).arrival_rate, std::nullopt) << "1 ms, of an interval of 2.5";
  link.send(3);
  EXPECT_EQ(link.report(12, 11).arrival_rate, 750'000U) << "of what came since 8";
  link.send(10);
  EXPECT_EQ(link.report(22, 21, 4ms).arrival_rate, 1'000'000U) << "at most at what they were sent";
}

TEST(DeliverySampler, WhatTheReceiverHeldTheFirstReportIsNoArrival) {
  Link link;
  link.send(10);
  EXPECT_EQ(link.report(1, 1, 1ms).arrival_rate, 800'000U) << "the round trip is 9 ms, the interval 2.25";
}

TEST(DeliverySampler, TheArrivalRateBeginsAnewWhenNothingIsInFlight) {
  Link link;
  link.send(10);
  (void)link.report(10, 10);
  link.now += 1s;
  link.send(5);
  EXPECT_EQ(link.report(15, 15).arrival_rate, 5 * sampled_datagram * 1000 / 4) << "sent in 4 ms";
}

/// The copies of a list that has not been accepted yet are in flight when the first data is sent.
TEST(DeliverySampler, TheArrivalRateBeginsAnewWhenLittleIsInFlightAfterAPause) {
  for (const bool little : {true, false}) {
    Link link;
    link.send(10);
    (void)link.report(10, 10);
    link.now += 20ms;  // the first pause is another matter
    link.send(little ? 4 : 6);
    (void)link.report(11, 11);  // at most 4,000 bytes are under way
    link.now += 20ms;
    link.send(8);
    const std::uint64_t all = little ? 22 : 24;
    EXPECT_EQ(link.report(all, all).arrival_rate,
              little ? 8 * sampled_datagram * 1000 / 7 : 13 * sampled_datagram * 1000 / 33)
        << "sent in 7 ms, else since the first, in 33";
  }
}

/// The receiver's clock begins with the first of it.
TEST(DeliverySampler, AFirstFlightHasAnArrivalRateAsSoonAsEnoughOfItHasCome) {
  Link link;
  link.began = link.now;
  const auto send_at_once = [&](int datagrams) {
    for (; datagrams > 0; --datagrams) {
      link.send(1);
      link.now -= 1ms;
    }
  };
  send_at_once(40);
  link.now += 6ms;
  EXPECT_LT(link.report(20, 20).arrival_rate, 20 * sampled_datagram * 1000) << "in an interval, as anywhere";
  link.now += 1ms;
  EXPECT_EQ(link.report(36, 36).arrival_rate, 36 * sampled_datagram * 1000 / 2);
  send_at_once(20);
  link.now += 200us;
  EXPECT_EQ(link.report(40, 40).arrival_rate, std::nullopt) << "once";
}

/// What waits for the answer to a first flight is measured for itself, though little of that is known to have arrived.
TEST(DeliverySampler, TheArrivalRateBeginsAnewBehindAFirstFlight) {
  Link link;
  link.send(100);
  (void)link.report(1, 1);
  link.now += 20ms;
  link.send(8);
  EXPECT_EQ(link.report(108, 108).arrival_rate, 8 * sampled_datagram * 1000 / 7) << "sent in 7 ms";
}

TEST(DeliverySampler, InLessThanAMillisecondThereIsNoArrivalRate) {
  Link link;
  for (int report = 1; report < 9; ++report) {
    link.sampler.on_sent(link.now, link.sent);
    link.sent.on_sent({0, sampled_adu_bytes, 0}, link.now);
    link.now += 300us;
    const auto sequence = static_cast<std::uint64_t>(report);
    EXPECT_EQ(link.report(sequence, sequence).arrival_rate, std::nullopt);
  }
}

// Section 4.1.2.2: the interval starts anew when nothing is in flight, on the receiver's clock, too.
TEST(DeliverySampler, AnIdleTimeDoesNotLowerTheRate) {
  Link link;
  link.send(10);
  (void)link.report(10, 10);
  link.now += 1s;
  link.send(14);
  EXPECT_EQ(link.report(14, 14).rate, 4 * sampled_datagram * 1000 / 14) << "4 in the 14 ms since it began again";
}

// What was delivered since the report that is known has left the network.
TEST(DeliverySampler, WhatIsInFlightIsNotAsOldAsTheReport) {
  Link link;
  link.send(10);
  (void)link.report(1, 1);
  link.send(12);
  // 16 was sent 6 ms after that report, and 15 after 1; its round trip is 6 ms.
  EXPECT_EQ(link.report(17, 17).newest->in_flight_bytes, 16 * sampled_datagram * 6 / 12);
}

TEST(DeliverySampler, WhatWasDeliveredNeverBecomesLess) {
  Link link;
  link.send(20);
  EXPECT_EQ(link.report(8, 8).delivered_bytes, 8 * sampled_datagram);
  const Delivery delivery = link.report(10, 5);
  EXPECT_EQ(delivery.delivered_bytes, 8 * sampled_datagram);
  EXPECT_EQ(delivery.newly_delivered_bytes, 0U);
}

TEST(DeliverySampler, NothingNewIsNoSample) {
  Link link;
  link.send(2);
  EXPECT_TRUE(link.report(1, 1).newest);
  const Delivery delivery = link.report(1, 1);
  EXPECT_FALSE(delivery.newest);
  EXPECT_FALSE(delivery.rate);
  EXPECT_EQ(delivery.newly_delivered_bytes, 0U);
}

}  // namespace
}  // namespace sluice::ftx
