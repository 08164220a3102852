// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/sent_adus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::ftx {
namespace {

AduName adu(std::uint64_t slot) { return {0, 100, slot * 100}; }

Report report_of(std::uint64_t from, std::uint64_t to, std::uint64_t highest, std::vector<SequenceRange> missing = {}) {
  Report report;
  report.from = from;
  report.to = to;
  report.highest = highest;
  report.range_count = missing.size();
  std::copy(missing.begin(), missing.end(), report.missing.begin());
  return report;
}

TEST(SentAdus, ALostAduIsRetransmittedOnceHoweverReportsRepeat) {
  SentAdus sent_adus;
  for (std::uint64_t slot = 0; slot < 10; ++slot) {
    sent_adus.on_sent(adu(slot));
  }
  const Report first = report_of(1, 6, 10, {{3, 2}});
  EXPECT_EQ(sent_adus.on_report(first)->lost, 2U);
  EXPECT_EQ(sent_adus.oldest(), 7U);
  EXPECT_EQ(sent_adus.on_report(first)->lost, 0U);
  EXPECT_EQ(sent_adus.retransmit_queue().pop(), adu(2));
  EXPECT_EQ(sent_adus.retransmit_queue().pop(), adu(3));
  EXPECT_TRUE(sent_adus.retransmit_queue().empty());
  sent_adus.on_sent(adu(2));  // sequence 11
  sent_adus.on_sent(adu(3));  // sequence 12
  // The old report again, late: the retransmissions are in flight and cause no others.
  EXPECT_EQ(sent_adus.on_report(first)->lost, 0U);
  // A later one says that the retransmission with sequence 11 was lost too.
  EXPECT_EQ(sent_adus.on_report(report_of(7, 12, 12, {{11, 1}}))->lost, 1U);
  EXPECT_EQ(sent_adus.retransmit_queue().pop(), adu(2));
  EXPECT_EQ(sent_adus.span(), 0U);
}

TEST(SentAdus, AReportWhoseFirstPartWasLostResolvesTheRest) {
  SentAdus sent_adus;
  for (std::uint64_t slot = 0; slot < 10; ++slot) {
    sent_adus.on_sent(adu(slot));
  }
  EXPECT_EQ(sent_adus.on_report(report_of(6, 10, 10, {{9, 1}}))->lost, 1U);
  EXPECT_EQ(sent_adus.oldest(), 1U);
  const auto resolved = sent_adus.on_report(report_of(1, 10, 10, {{2, 1}, {9, 1}}));
  EXPECT_EQ(resolved->lost, 1U);
  EXPECT_EQ(resolved->arrived, 4U);
  EXPECT_EQ(sent_adus.span(), 0U);
}

TEST(SentAdus, AProbeIsNeverRetransmittedAndTheFutureIsRefused) {
  SentAdus sent_adus;
  sent_adus.on_probe_sent();
  EXPECT_FALSE(sent_adus.on_report(report_of(1, 2, 2)));
  EXPECT_EQ(sent_adus.on_report(report_of(1, 1, 1, {{1, 1}}))->lost, 0U);
  EXPECT_TRUE(sent_adus.retransmit_queue().empty());
}

TEST(SentAdus, InFlightIsWhatWasSentAfterTheHighestArrival) {
  SentAdus sent_adus;
  for (std::uint64_t slot = 0; slot < 10; ++slot) {
    sent_adus.on_sent(adu(slot));
  }
  EXPECT_EQ(sent_adus.in_flight_bytes(), 1000U);
  EXPECT_TRUE(sent_adus.on_report(report_of(1, 0, 7)));
  EXPECT_EQ(sent_adus.in_flight_bytes(), 300U);
  EXPECT_EQ(sent_adus.span(), 10U);
}

TEST(SentAdus, CountsDatagramsWithTheirHeaders) {
  SentAdus sent_adus;
  for (std::uint64_t slot = 0; slot < 10; ++slot) {
    sent_adus.on_sent(adu(slot));
  }
  constexpr std::uint64_t size = 100 + data_header_bytes;
  EXPECT_EQ(sent_adus.in_flight_datagram_bytes(), 10 * size);
  EXPECT_TRUE(sent_adus.on_report(report_of(1, 6, 8, {{2, 1}, {4, 2}})));
  EXPECT_EQ(sent_adus.in_flight_datagram_bytes(), 2 * size);
  EXPECT_EQ(sent_adus.passed_datagram_bytes(), 8 * size);
  EXPECT_EQ(sent_adus.resolved_datagram_bytes(), 6 * size);
  EXPECT_EQ(sent_adus.lost_datagram_bytes(), 3 * size);
  EXPECT_EQ(sent_adus.lost_runs(), 2U);
}

// A sealed datagram has a tag, too.
TEST(SentAdus, CountsWhatADatagramHasBesideItsPayload) {
  SentAdus sent_adus(72);
  sent_adus.on_sent(adu(0));
  sent_adus.on_sent(adu(1));
  sent_adus.on_sent(adu(2));
  EXPECT_EQ(sent_adus.in_flight_datagram_bytes(), 3 * 172U);
  EXPECT_TRUE(sent_adus.on_report(report_of(1, 2, 2, {{1, 1}})));
  EXPECT_EQ(sent_adus.in_flight_datagram_bytes(), 172U);
  EXPECT_EQ(sent_adus.passed_datagram_bytes(), 2 * 172U);
  EXPECT_EQ(sent_adus.resolved_datagram_bytes(), 2 * 172U);
  EXPECT_EQ(sent_adus.lost_datagram_bytes(), 172U);
}

/// Sequences 1 to 3 carry ADU 0, 4 another.
SentAdus with_copies() {
  SentAdus sent_adus;
  sent_adus.on_sent(adu(0));
  sent_adus.on_copy_sent(1);
  sent_adus.on_copy_sent(2);
  sent_adus.on_sent(adu(1));
  return sent_adus;
}

TEST(SentAdus, AnAduWithCopiesIsLostWhenAllOfThemAre) {
  SentAdus sent_adus = with_copies();
  EXPECT_EQ(sent_adus.on_report(report_of(1, 1, 4, {{1, 1}}))->lost, 1U);
  EXPECT_TRUE(sent_adus.retransmit_queue().empty());
  EXPECT_FALSE(sent_adus.unproven(1));
  EXPECT_EQ(sent_adus.unproven(2), adu(0));
  EXPECT_EQ(sent_adus.on_report(report_of(1, 4, 4, {{1, 3}}))->lost, 2U);
  EXPECT_EQ(sent_adus.retransmit_queue().pop(), adu(0));
  EXPECT_TRUE(sent_adus.retransmit_queue().empty()) << "once";
  EXPECT_EQ(sent_adus.lost_datagram_bytes(), 3 * (100 + data_header_bytes)) << "the network has lost three";
}

TEST(SentAdus, AnAduOfWhichOneCopyArrivedIsNotLost) {
  for (const std::uint64_t arrived : {1U, 2U, 3U}) {
    SCOPED_TRACE(arrived);
    SentAdus sent_adus = with_copies();
    std::vector<SequenceRange> missing;
    for (const std::uint64_t sequence : {1U, 2U, 3U}) {
      if (sequence != arrived) {
        missing.push_back({sequence, 1});
      }
    }
    EXPECT_EQ(sent_adus.on_report(report_of(1, 4, 4, missing))->lost, 2U);
    EXPECT_TRUE(sent_adus.retransmit_queue().empty());
  }
  SentAdus sent_adus = with_copies();
  ASSERT_TRUE(sent_adus.on_report(report_of(1, 1, 4)));
  EXPECT_FALSE(sent_adus.unproven(2)) << "no more of them";
  EXPECT_FALSE(sent_adus.unproven(3));
  EXPECT_EQ(sent_adus.unproven(4), adu(1));
  EXPECT_FALSE(sent_adus.unproven(5)) << "never sent";
  sent_adus.on_probe_sent();
  EXPECT_FALSE(sent_adus.unproven(5)) << "carries none";
}

// draft-ietf-ccwg-bbr-06 section 4.1.1.3: "it marks all bandwidth samples for the next round trip as
// application-limited".
TEST(SentAdus, AGapMarksWhatIsSentInTheNextRoundTrip) {
  SentAdus sent_adus;
  const auto limited = [&](std::uint64_t sequence) {
    return sent_adus.on_report(report_of(1, 0, sequence))->newest->application_limited;
  };
  sent_adus.on_sent(adu(0));
  sent_adus.on_sent(adu(1));
  sent_adus.on_sent(adu(2), {}, true);  // 3 follows a gap
  sent_adus.on_sent(adu(3));
  EXPECT_FALSE(limited(2));   // all that was before the gap has arrived, but 3 is not known to have
  sent_adus.on_sent(adu(4));  // 5
  EXPECT_TRUE(limited(3));
  sent_adus.on_sent(adu(5));  // 6
  EXPECT_TRUE(limited(4));
  EXPECT_TRUE(limited(5));
  EXPECT_FALSE(limited(6));
}

TEST(SentAdus, CountsLargeLossesSinceTheLastLargeArrival) {
  SentAdus sent;
  const auto report = [](std::uint64_t highest, std::vector<std::uint64_t> missing) {
    Report one;
    one.highest = one.to = highest;
    for (const std::uint64_t sequence : missing) {
      one.missing[one.range_count++] = {sequence, 1};
    }
    return one;
  };
  sent.on_sent({0, 1400, 0});
  sent.set_large_above(1000);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    sent.on_sent({0, 1400, i * 1400});  // 2 to 5
  }
  sent.on_sent({0, 900, 7000});  // 6
  ASSERT_TRUE(sent.on_report(report(6, {1, 3, 4, 5})));
  EXPECT_EQ(sent.large_lost(), 3U) << "1 was sent before, 2 arrived";
  EXPECT_TRUE(sent.small_arrived());
  sent.on_sent({0, 900, 8000});   // 7
  sent.on_sent({0, 1400, 9000});  // 8
  ASSERT_TRUE(sent.on_report(report(8, {7})));
  EXPECT_EQ(sent.large_lost(), 0U) << "8 arrived; 7 is not large";
  EXPECT_FALSE(sent.small_arrived());
}

// What the network holds, and what is large, goes by what travels; what is sent again goes by its name.
TEST(SentAdus, ACompressedAduCountsAsWhatTravels) {
  SentAdus sent_adus;
  sent_adus.set_large_above(90);
  const AduName longer{0, 4000, 0};
  sent_adus.on_sent(longer, {}, false, 80);
  sent_adus.on_sent(adu(50), {}, false);
  EXPECT_EQ(sent_adus.sent_bytes(), 180U);
  EXPECT_EQ(sent_adus.in_flight_datagram_bytes(), 180U + 2 * data_header_bytes);
  const auto resolved = sent_adus.on_report(report_of(1, 2, 2, {{1, 1}}));
  EXPECT_EQ(resolved->arrived_bytes, 100U);
  EXPECT_EQ(sent_adus.passed_bytes(), 180U);
  EXPECT_EQ(sent_adus.lost_datagram_bytes(), 80U + data_header_bytes);
  EXPECT_EQ(sent_adus.large_lost(), 0U);
  EXPECT_EQ(sent_adus.retransmit_queue().front(), longer);
  sent_adus.on_sent(longer, {}, false, 80);
  sent_adus.on_copy_sent(3, {}, false, 70);
  EXPECT_EQ(sent_adus.sent_bytes(), 330U);
  EXPECT_EQ(sent_adus.on_report(report_of(3, 4, 4))->arrived_bytes, 150U);
}

TEST(RetransmitQueue, GivesWhatBecameTooLongInParts) {
  RetransmitQueue queue;
  queue.push({3, 1000, 64});
  queue.push({4, 10, 0});
  EXPECT_EQ(queue.pop(480), (AduName{3, 480, 64}));
  EXPECT_EQ(queue.pop(480), (AduName{3, 480, 544}));
  EXPECT_EQ(queue.pop(480), (AduName{3, 40, 1024}));
  EXPECT_EQ(queue.pop(480), (AduName{4, 10, 0}));
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace sluice::ftx
