// SPDX-License-Identifier: Apache-2.0
// What a TCP connection knows of its path: round trip, congestion window, and what is under way.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/modules/tcp_congestion.h"
#include "stack/modules/tcp_round_trip.h"
#include "stack/modules/tcp_scoreboard.h"

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using tcp::Congestion;
using tcp::Position;
using tcp::Range;
using tcp::RoundTrip;
using tcp::Scoreboard;

// ---- Round trip: RFC 6298 ----

TEST(TcpRoundTrip, ASecondUntilItIsKnown) {  // (2.1)
  RoundTrip round_trip;
  EXPECT_EQ(round_trip.timeout(), 1s);
}

TEST(TcpRoundTrip, FirstMeasurement) {  // (2.2): SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max (G, K*RTTVAR)
  RoundTrip round_trip;
  round_trip.measured(400ms);
  EXPECT_EQ(round_trip.smoothed(), 400ms);
  EXPECT_EQ(round_trip.timeout(), 1200ms);
}

TEST(TcpRoundTrip, NextMeasurements) {  // (2.3): beta is 1/4, alpha is 1/8, RTTVAR first
  RoundTrip round_trip;
  round_trip.measured(400ms);
  round_trip.measured(800ms);  // RTTVAR 200 + (400 - 200) / 4 = 250, SRTT 400 + 400 / 8 = 450
  EXPECT_EQ(round_trip.smoothed(), 450ms);
  EXPECT_EQ(round_trip.timeout(), 1450ms);
  round_trip.measured(50ms);  // RTTVAR 250 + (400 - 250) / 4 = 287.5, SRTT 450 - 50 = 400
  EXPECT_EQ(round_trip.smoothed(), 400ms);
  EXPECT_EQ(round_trip.timeout(), 1550ms);
  EXPECT_EQ(round_trip.least(), 50ms);
}

TEST(TcpRoundTrip, Bounds) {  // (2.3): G; (2.4), (2.5)
  RoundTrip round_trip;
  for (int times = 0; times < 200; ++times) {
    round_trip.measured(1s);
  }
  EXPECT_EQ(round_trip.timeout(), 1s + RoundTrip::granularity);
  for (int times = 0; times < 200; ++times) {
    round_trip.measured(1ms);
  }
  EXPECT_EQ(round_trip.timeout(), RoundTrip::timeout_min);
  round_trip.measured(1000s);
  EXPECT_EQ(round_trip.timeout(), RoundTrip::timeout_max);
}

TEST(TcpRoundTrip, BacksOffUntilItIsMeasured) {  // (5.5)
  RoundTrip round_trip;
  round_trip.measured(100ms);
  round_trip.timed_out();
  round_trip.timed_out();
  EXPECT_EQ(round_trip.timeout(), 1200ms);
  for (int times = 0; times < 100; ++times) {
    round_trip.timed_out();
  }
  EXPECT_EQ(round_trip.timeout(), 60s);
  round_trip.measured(100ms);
  EXPECT_EQ(round_trip.timeout(), 250ms);
}

TEST(TcpRoundTrip, ThreeSecondsAfterALostSyn) {  // (5.7)
  RoundTrip round_trip;
  round_trip.timed_out();
  round_trip.begin_unmeasured();
  EXPECT_EQ(round_trip.timeout(), 3s);
  round_trip.measured(100ms);
  EXPECT_EQ(round_trip.timeout(), 300ms);
}

// ---- Congestion: RFC 5681 ----

TEST(TcpCongestionWindow, Initial) {  // RFC 6928 section 2
  for (const auto& [segment, window] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{500, 5000}, {1460, 14600}, {3000, 14600}, {9000, 18000}}) {
    Congestion congestion(1);
    congestion.begin(segment, 1);
    EXPECT_EQ(congestion.window(), window);
    congestion.begin(segment, 2);
    EXPECT_EQ(congestion.window(), segment);
  }
}

TEST(TcpCongestionWindow, SlowStartAndAvoidance) {
  Congestion congestion(1000);
  congestion.begin(1000, 0);
  EXPECT_TRUE(congestion.in_slow_start());
  congestion.acknowledged(1000, true);
  EXPECT_EQ(congestion.window(), 11'000U);
  congestion.acknowledged(2000, true);
  EXPECT_EQ(congestion.window(), 13'000U);
  congestion.acknowledged(9000, true);
  EXPECT_EQ(congestion.window(), 21'000U) << "RFC 9406 section 4.3: \"L = 8 if non-paced\"";
  congestion.acknowledged(9000, true, /*after_timeout=*/true);
  EXPECT_EQ(congestion.window(), 23'000U) << "RFC 3465 section 2.2: two";
  congestion.acknowledged(5000, false);
  EXPECT_EQ(congestion.window(), 23'000U) << "it was not used";
  congestion.lost(13'000);
  EXPECT_EQ(congestion.window(), 6'500U);
  EXPECT_FALSE(congestion.in_slow_start());
  congestion.acknowledged(6'499, true);
  EXPECT_EQ(congestion.window(), 6'500U);
  congestion.acknowledged(1, true);
  EXPECT_EQ(congestion.window(), 7'500U) << "a segment more for each window";
}

TEST(TcpCongestionWindow, Losses) {
  Congestion congestion(1000);
  congestion.begin(1000, 0);
  congestion.lost(3000);
  EXPECT_EQ(congestion.window(), 2000U) << "(4): max (FlightSize / 2, 2*SMSS)";
  congestion.timed_out(10'000, false);
  EXPECT_EQ(congestion.window(), 1000U);
  congestion.timed_out(2'000, true);
  while (congestion.in_slow_start()) {
    congestion.acknowledged(1000, true);
  }
  EXPECT_EQ(congestion.window(), 5000U) << "ssthresh is held where it had timed out before";
  congestion.restarted();
  EXPECT_EQ(congestion.window(), 5000U) << "RW = min(IW,cwnd)";
  congestion.begin(1000, 0);
  for (int times = 0; times < 100; ++times) {
    congestion.acknowledged(100'000, true);
  }
  EXPECT_GT(congestion.window(), 10'000U);
  congestion.restarted();
  EXPECT_EQ(congestion.window(), 10'000U);
}

// ---- Scoreboard ----

constexpr TimePoint board_start{1s};

std::uint64_t detected(Scoreboard& board, TimePoint now, bool recovering = false) {
  bool lost = false;
  const std::uint64_t before = board.bytes_under_way();
  static_cast<void>(board.detect_losses(now, 100ms, 100ms, recovering, lost));
  EXPECT_EQ(lost, board.bytes_under_way() < before);
  return before - board.bytes_under_way();
}

/// The segments as a plain list, each looked at each time.
struct BoardModel {
  struct Piece {
    Range range;
    Scoreboard::Sent::State state = Scoreboard::Sent::State::under_way;
  };
  std::vector<Piece> pieces;

  [[nodiscard]] std::uint64_t bytes(Scoreboard::Sent::State state) const {
    std::uint64_t sum = 0;
    for (const Piece& piece : pieces) {
      sum += piece.state == state ? piece.range.size() : 0;
    }
    return sum;
  }
  [[nodiscard]] auto first_lost() { return std::ranges::find(pieces, Scoreboard::Sent::State::lost, &Piece::state); }
  /// What was not known to have arrived.
  std::uint64_t acknowledged(Position position, const std::vector<Range>& runs) {
    const auto unknown = [&] {
      return bytes(Scoreboard::Sent::State::under_way) + bytes(Scoreboard::Sent::State::lost);
    };
    const std::uint64_t before = unknown();
    std::erase_if(pieces, [&](const Piece& piece) { return piece.range.end <= position; });
    if (!pieces.empty()) {
      pieces.front().range.begin = std::max(pieces.front().range.begin, position);
    }
    for (Piece& piece : pieces) {
      for (const Range& run : runs) {
        const bool inside = run.begin <= piece.range.begin && piece.range.end <= run.end;
        piece.state = inside ? Scoreboard::Sent::State::arrived : piece.state;
      }
    }
    return before - unknown();
  }
};

TEST(TcpScoreboard, IsAsThePlainModelOfIt) {
  using enum Scoreboard::Sent::State;
  for (std::uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Scoreboard board;
    BoardModel model;
    Position una = 1000;
    Position next = una;
    TimePoint now = board_start;
    for (int step = 0; step < 300; ++step) {
      now += 1ms;
      const auto choice = prng.below(10);
      if (choice < 4) {
        const Range range{next, next + 1 + prng.below(20)};
        board.sent(range, now);
        model.pieces.push_back({range});
        next = range.end;
      } else if (choice < 7) {
        una += prng.chance(0.5) ? 0 : prng.below(next - una + 1);
        std::vector<Range> runs;
        for (Position from = una + 1 + prng.below(30); runs.size() < 3 && from + 1 < next; from += prng.below(90)) {
          runs.push_back({from, std::min(next, from + 1 + prng.below(60))});
          from = runs.back().end + 1;
        }
        ASSERT_EQ(board.acknowledged(una, runs, now).bytes, model.acknowledged(una, runs));
      } else if (choice == 7) {
        board.all_lost();
        const bool reneged = !model.pieces.empty() && model.pieces.front().state == arrived;
        for (BoardModel::Piece& piece : model.pieces) {
          piece.state = piece.state == arrived && !reneged ? arrived : lost;
        }
      } else if (const auto first = model.first_lost(); first != model.pieces.end()) {
        const Range range = first->range;
        ASSERT_EQ(board.first_lost(), range);
        const Position to = range.begin + 1 + prng.below(range.size());
        board.sent_again({range.begin, to}, now);
        *first = {{range.begin, to}};
        if (to < range.end) {
          model.pieces.insert(first + 1, {{to, range.end}, lost});
        }
      }
      ASSERT_EQ(board.bytes_under_way(), model.bytes(under_way));
      ASSERT_EQ(board.flight_bytes(), next - una);
      ASSERT_EQ(board.empty(), next == una);
      ASSERT_EQ(board.first_lost().has_value(), model.first_lost() != model.pieces.end());
    }
  }
}

TEST(TcpScoreboard, MeasuresWhatLeftOnce) {
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start + 10ms);
  board.sent({20, 30}, board_start + 20ms);
  EXPECT_EQ(board.acknowledged(20, {}, board_start + 50ms).round_trip, 40ms);
  board.all_lost();
  board.sent_again({20, 30}, board_start + 60ms);
  const auto progress = board.acknowledged(30, {}, board_start + 100ms);
  EXPECT_EQ(progress.bytes, 10U);
  EXPECT_FALSE(progress.round_trip) << "RFC 6298 section 3: Karn's algorithm";
}

TEST(TcpScoreboard, MeasuresNothingBehindARepairedGap) {
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start);
  board.front_lost();
  board.sent_again({0, 10}, board_start + 50ms);
  EXPECT_FALSE(board.acknowledged(20, {}, board_start + 100ms).round_trip) << "when did the second arrive?";
}

TEST(TcpScoreboard, PartOfASegment) {
  Scoreboard board;
  board.sent({0, 10}, board_start);
  EXPECT_EQ(board.acknowledged(4, {}, board_start).bytes, 4U);
  EXPECT_EQ(board.bytes_under_way(), 6U);
  EXPECT_EQ(board.front().range, (Range{4, 10}));
}

TEST(TcpScoreboard, LaterOnesTellOfLosses) {  // RFC 8985 section 6.2
  Scoreboard board;
  for (Position at = 0; at < 50; at += 10) {
    board.sent({at, at + 10}, board_start + at * 100us);
  }
  const Range run{10, 20};
  static_cast<void>(board.acknowledged(0, std::span(&run, 1), board_start + 100ms));
  EXPECT_EQ(detected(board, board_start + 123ms), 0U) << "99 ms and a quarter of 100 ms";
  EXPECT_EQ(detected(board, board_start + 124ms), 10U) << "and none of those that left later";
  EXPECT_EQ(board.first_lost(), (Range{0, 10}));
}

TEST(TcpScoreboard, ThreeAreEnough) {  // RFC 8985 section 6.2, step 4
  Scoreboard board;
  for (Position at = 0; at < 50; at += 10) {
    board.sent({at, at + 10}, board_start);
  }
  const Range two{10, 30};
  static_cast<void>(board.acknowledged(0, std::span(&two, 1), board_start + 100ms));
  EXPECT_EQ(detected(board, board_start + 100ms), 0U);
  const Range three{10, 40};
  static_cast<void>(board.acknowledged(0, std::span(&three, 1), board_start + 100ms));
  EXPECT_EQ(detected(board, board_start + 100ms), 10U);
}

TEST(TcpScoreboard, ThreeAreCountedAnew) {  // those that are acknowledged are behind no gap any more
  Scoreboard board;
  for (Position at = 0; at < 40; at += 10) {
    board.sent({at, at + 10}, board_start);
  }
  const Range three{10, 40};
  static_cast<void>(board.acknowledged(0, std::span(&three, 1), board_start + 100ms));
  board.front_sent_again({0, 10}, board_start + 100ms);
  static_cast<void>(board.acknowledged(40, {}, board_start + 200ms));
  board.sent({40, 50}, board_start + 200ms);
  board.sent({50, 60}, board_start + 200ms);
  const Range one{50, 60};
  static_cast<void>(board.acknowledged(40, std::span(&one, 1), board_start + 300ms));
  EXPECT_EQ(detected(board, board_start + 300ms), 0U);
}

TEST(TcpScoreboard, WaitsForTheLast) {  // RFC 8985 section 6.2, step 5: one timer for all, the longest
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start + 5ms);
  board.sent({20, 30}, board_start + 5ms);
  const Range run{20, 30};
  static_cast<void>(board.acknowledged(0, std::span(&run, 1), board_start + 105ms));
  bool lost = false;
  EXPECT_EQ(board.detect_losses(board_start + 105ms, 100ms, 100ms, false, lost), board_start + 130ms);
  EXPECT_FALSE(lost);
}

TEST(TcpScoreboard, WhileRepairingThereIsNoTimeToWait) {  // RFC 8985 section 6.2, step 4
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start);
  const Range run{10, 20};
  static_cast<void>(board.acknowledged(0, std::span(&run, 1), board_start + 100ms));
  EXPECT_EQ(detected(board, board_start + 100ms, true), 10U);
}

/// RFC 8985 section 6.2, step 2: what was sent again and is acknowledged sooner than a round trip takes was
/// acknowledged as it was sent first, and says nothing of those that left before it.
TEST(TcpScoreboard, AnAcknowledgmentThatIsTooSoonTellsNothing) {
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start);
  static_cast<void>(board.acknowledged(10, {}, board_start + 100ms));
  board.sent({20, 30}, board_start + 110ms);
  board.sent({30, 40}, board_start + 115ms);
  board.front_sent_again({10, 20}, board_start + 120ms);
  static_cast<void>(board.acknowledged(20, {}, board_start + 121ms));
  board.front_sent_again({20, 30}, board_start + 122ms);
  EXPECT_EQ(detected(board, board_start + 200ms), 0U);
  EXPECT_EQ(board.bytes_under_way(), 20U);
}

TEST(TcpScoreboard, ThirdDuplicate) {  // RFC 5681 section 3.2
  Scoreboard board;
  EXPECT_FALSE(board.duplicate());
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start);
  EXPECT_FALSE(board.duplicate());
  EXPECT_FALSE(board.duplicate());
  EXPECT_TRUE(board.duplicate());
  EXPECT_EQ(board.first_lost(), (Range{0, 10}));
  EXPECT_FALSE(board.duplicate());
}

TEST(TcpScoreboard, WhatIsTooLargeForThePathIsLost) {
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 25}, board_start);
  board.lost_above(10);
  EXPECT_EQ(board.first_lost(), (Range{10, 25}));
  EXPECT_EQ(board.bytes_under_way(), 10U);
}

TEST(TcpScoreboard, ATimeoutLeavesWhatHasArrivedUnlessItIsFirst) {  // RFC 2018 section 8
  Scoreboard board;
  board.sent({0, 10}, board_start);
  board.sent({10, 20}, board_start);
  const Range run{10, 20};
  static_cast<void>(board.acknowledged(0, std::span(&run, 1), board_start));
  board.all_lost();
  EXPECT_EQ(board.first_lost(), (Range{0, 10}));
  board.sent_again({0, 10}, board_start);
  EXPECT_FALSE(board.first_lost());
  EXPECT_EQ(board.acknowledged(10, {}, board_start).bytes, 10U);
  board.all_lost();
  EXPECT_EQ(board.first_lost(), (Range{10, 20})) << "its peer has dropped it";
  board.sent_again({10, 20}, board_start);
  EXPECT_EQ(board.bytes_under_way(), 10U);
  EXPECT_EQ(board.acknowledged(20, {}, board_start).bytes, 10U);
}

}  // namespace
}  // namespace sluice::test
