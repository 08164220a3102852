// SPDX-License-Identifier: Apache-2.0
// The states of Bbr by themselves: state x event. bbr_path_test.cc has it run on paths.
#include "apps/ftx/recovery/bbr.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;
using enum Bbr::State;

constexpr std::size_t bbr_datagram = 1000;
constexpr std::uint64_t bbr_rate = 10'000'000;
constexpr std::uint64_t bdp = 400'000;  // of `bbr_rate` over 40 ms

/// A Bbr, told what reports say. The pipe holds one bandwidth-delay product unless an event says otherwise.
struct Driver {
  struct Change {
    std::uint64_t rate = bbr_rate;
    Duration round_trip = 40ms;
    std::uint64_t in_flight = bdp;
    std::uint64_t lost = 0;  // bytes
    bool limited = false;
    Duration after = 40ms;
    bool window_limited = false;
    std::uint64_t runs = 10;  // of losses
    std::optional<std::uint64_t> arrival_rate{};
    bool as_sent = false;
    bool within = false;  // it begins no round
  };

  /// A report a whole round trip after the last.
  void round(const Change& change) {
    now += change.after;
    const std::uint64_t bytes = change.rate / 25;
    Delivery delivery;
    delivery.round_trip = delivery.smoothed_round_trip = change.round_trip;
    delivery.newest = Delivery::AtSend{};
    delivery.newest->delivered_bytes = change.within ? 0 : delivered;
    delivery.newest->in_flight_bytes = change.in_flight;
    delivery.newest->application_limited = change.limited;
    delivered += bytes;
    delivery.delivered_bytes = delivered;
    delivery.newly_delivered_bytes = bytes;
    delivery.newly_resolved_bytes = bytes + change.lost;
    delivery.in_flight_bytes = change.in_flight;
    delivery.window_limited = change.window_limited;
    delivery.rate = change.rate;
    delivery.arrival_rate = change.arrival_rate;
    delivery.as_sent = change.as_sent;
    delivery.newest->resolved_since_bytes = bytes + change.lost;
    if (change.lost > 0) {
      delivery.newly_lost_bytes = delivery.newest->lost_since_bytes = change.lost;
      delivery.newly_lost_runs = change.runs;
      delivery.newest_lost = delivery.newest;
      delivery.newest_lost->delivered_bytes = delivered - bytes;
    }
    bbr.on_sent(now, bbr_datagram);
    bbr.on_report(now, delivery);
  }

  /// Brings it to `state` the shortest way.
  void reach(Bbr::State state) {
    for (std::uint64_t slow = bbr_rate / 8; slow <= bbr_rate; slow *= 2) {
      round({.rate = slow, .in_flight = 2 * bdp});
    }
    const auto done = [&] { return bbr.state() == state; };
    for (int i = 0; i < 3 && state != startup; ++i) {
      round({.in_flight = 2 * bdp});
    }
    if (state == startup || state == drain) {
      return;
    }
    if (state == probe_rtt) {
      return round({.round_trip = 41ms, .after = 6s});
    }
    round({.in_flight = bdp});  // drain -> down -> cruise
    for (int i = 0; i < 200 && !done() && state != probe_bw_cruise; ++i) {
      round({.in_flight = state == probe_bw_down ? 2 * bdp : bdp});
    }
  }

  /// Rounds of one kind until it is in `state`, or while it is, and no more than `most`.
  void rounds_until(Bbr::State state, int most, const Change& change) {
    for (int i = 0; i < most && bbr.state() != state; ++i) {
      round(change);
    }
  }
  void rounds_in(Bbr::State state, int most, const Change& change) {
    for (int i = 0; i < most && bbr.state() == state; ++i) {
      round(change);
    }
  }

  /// Cruises beside somebody who does not yield, so that deviation 13 does not either.
  void reach_cruise_under_pressure() {
    reach(probe_bw_cruise);
    for (int i = 0; i < 18; ++i) {
      round({.round_trip = 60ms});
    }
    EXPECT_EQ(bbr.state(), probe_bw_cruise);
    EXPECT_EQ(bbr.bandwidth(), bbr_rate);
  }

  Bbr bbr{bbr_datagram, 1};
  TimePoint now{1h};
  std::uint64_t delivered = 1'000'000;
};

/// Deviation 5.
TEST(Bbr, StartupTakesTheLowerOfTwoArrivalRates) {
  Driver driver;
  const auto bandwidth_after = [&](std::uint64_t arrival_rate, bool limited = false) {
    driver.round({.rate = 100'000, .limited = limited, .arrival_rate = arrival_rate});
    return driver.bbr.bandwidth();
  };
  EXPECT_EQ(bandwidth_after(1'000'000), 1'000'000U);
  EXPECT_EQ(bandwidth_after(5'000'000), 1'000'000U) << "of one late and the next";
  EXPECT_EQ(bandwidth_after(4'000'000), 4'000'000U);
  EXPECT_EQ(bandwidth_after(200'000, true), 4'000'000U);
  EXPECT_EQ(bandwidth_after(9'000'000), 9'000'000U) << "what had little to send holds nothing down";
}

/// A first flight is a burst where nobody has measured a round trip before.
TEST(Bbr, OfAFirstFlightNoMoreCountsThanItPacesThen) {
  for (const bool first : {true, false}) {
    Driver driver;
    driver.delivered = first ? 0 : 1;
    driver.round({.rate = 100'000, .limited = true, .arrival_rate = 1'000'000'000});
    const double nominal = 256.0 * bbr_datagram / 0.04;
    EXPECT_EQ(driver.bbr.bandwidth(), first ? static_cast<std::uint64_t>(2.77 * nominal) : 1'000'000'000U);
  }
}

/// Of the first flight the end shows whether there is a queue: its beginning meets a receiver that sets itself up.
TEST(Bbr, AReceiverThatIsLateForTheBeginningIsNoQueue) {
  for (const bool queue : {false, true}) {
    Driver driver;
    driver.bbr.on_first_round_trip(40ms);
    driver.delivered = 0;
    for (const Duration early : {44ms, 45ms}) {
      driver.round({.round_trip = early, .limited = true, .within = true});
    }
    const Duration end = queue ? 46ms : 40ms;
    driver.round({.round_trip = end, .limited = true, .within = true});
    driver.round({.round_trip = end, .limited = true, .within = true});
    const double gain = static_cast<double>(driver.bbr.pacing_rate()) / static_cast<double>(driver.bbr.bandwidth());
    EXPECT_NEAR(gain, 0.99 * (queue ? 1.25 : 2.77), 0.01);
  }
}

/// Then it is the path that holds it down.
TEST(Bbr, WhileAQueueIsEvidentALimitedArrivalRateCountsAsAnyOther) {
  Driver driver;
  driver.round({.rate = 100'000, .arrival_rate = 2'000'000});
  for (int round = 0; round < 2; ++round) {
    driver.round({.rate = 100'000, .round_trip = 60ms, .limited = true, .arrival_rate = 1'000'000});
  }
  driver.round({.rate = 100'000, .round_trip = 60ms, .limited = true, .arrival_rate = 9'000'000});
  EXPECT_EQ(driver.bbr.bandwidth(), 2'000'000U);
}

TEST(Bbr, StartupKeepsTheWindowThatItBeganWith) {
  Driver driver;
  const std::uint64_t window = driver.bbr.window_bytes();
  driver.round({.rate = 1'000'000, .in_flight = 10'000});
  EXPECT_EQ(driver.bbr.window_bytes(), window);
}

/// Samples lag behind, and would seem to grow for some rounds more.
TEST(Bbr, StartupEndsWhenTheArrivalRateDoesNotGrow) {
  Driver driver;
  for (const std::uint64_t rate : {1U, 2U, 4U, 8U}) {
    EXPECT_EQ(driver.bbr.state(), startup);
    driver.round({.rate = rate * 1'000'000, .in_flight = 2 * bdp, .arrival_rate = bbr_rate});
  }
  EXPECT_EQ(driver.bbr.state(), drain);
}

TEST(Bbr, ArrivalRatesCountInStartupOnly) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  for (int round = 0; round < 3; ++round) {
    driver.round({.arrival_rate = 3 * bbr_rate});
  }
  EXPECT_EQ(driver.bbr.bandwidth(), bbr_rate);
}

/// The first datagrams make a queue of their own on a slow path, and no sample is without it.
TEST(Bbr, StartupBrakesForAQueueThatTheHandshakeDidNotMeet) {
  for (const bool handshake : {true, false}) {
    Driver driver;
    if (handshake) {
      driver.bbr.on_first_round_trip(30ms);
    }
    for (int round = 0; round < 3; ++round) {
      driver.round({.rate = 20'000'000});
    }
    const double gain =
        static_cast<double>(driver.bbr.pacing_rate()) / static_cast<double>(driver.bbr.bandwidth()) / 0.99;
    EXPECT_NEAR(gain, handshake ? 1.25 : 2.77, 0.01);
  }
}

/// The path may be another by then.
TEST(Bbr, AfterStartupTheHandshakesRoundTripIsForgotten) {
  Driver driver;
  driver.bbr.on_first_round_trip(20ms);
  driver.reach(probe_bw_cruise);
  EXPECT_EQ(driver.bbr.pacing_rate(), static_cast<std::uint64_t>(0.99 * bbr_rate));
}

/// A full pipe is one, even if it was filled more slowly than was allowed.
TEST(Bbr, WhileAQueueIsEvidentStartupEndsThoughItHadLittleToSend) {
  Driver driver;
  driver.round({});
  for (int round = 0; round < 5; ++round) {
    driver.round({.round_trip = 50ms, .in_flight = 2 * bdp, .limited = true});
  }
  EXPECT_EQ(driver.bbr.state(), drain);
}

struct BbrRow {
  const char* name;
  Bbr::State from;
  Driver::Change event;
  int times;
  Bbr::State to;
};

TEST(Bbr, TheStateAfterEachEvent) {
  const BbrRow rows[] = {
      {"grows", startup, {.rate = bbr_rate * 2, .in_flight = 2 * bdp}, 3, startup},
      {"two flat rounds", startup, {.in_flight = 2 * bdp}, 2, startup},
      {"three flat rounds", startup, {.in_flight = 2 * bdp}, 3, drain},
      {"flat, but it had little to send", startup, {.in_flight = 2 * bdp, .limited = true}, 9, startup},
      {"5 % loss without a queue", startup, {.rate = bbr_rate * 2, .in_flight = 2 * bdp, .lost = bdp / 20}, 2, startup},
      {"5 % loss with a queue",
       startup,
       {.rate = bbr_rate * 2, .round_trip = 60ms, .in_flight = 4 * bdp, .lost = bdp / 10},
       3,
       drain},
      {"one run of losses with a queue",
       startup,
       {.rate = bbr_rate * 2, .round_trip = 60ms, .in_flight = 4 * bdp, .lost = bdp / 10, .runs = 1},
       3,
       startup},
      {"30 % loss without a queue", startup, {.rate = bbr_rate * 2, .in_flight = 4 * bdp, .lost = bdp}, 2, drain},
      {"queue is still there", drain, {.in_flight = 2 * bdp}, 2, drain},
      {"queue is gone", drain, {.in_flight = bdp}, 1, probe_bw_cruise},
      {"three rounds are enough", drain, {.in_flight = 2 * bdp}, 4, probe_bw_down},
      {"time passes", probe_bw_cruise, {}, 10, probe_bw_cruise},
      {"two to three seconds", probe_bw_cruise, {.after = 3001ms}, 1, probe_bw_refill},
      {"63 round trips", probe_bw_cruise, {.round_trip = 40ms, .after = 10ms}, 63, probe_bw_up},
      {"loss while cruising", probe_bw_cruise, {.lost = bdp / 4}, 2, probe_bw_cruise},
      {"one round refills", probe_bw_refill, {}, 1, probe_bw_up},
      {"the rate grows", probe_bw_up, {.rate = bbr_rate * 5 / 4}, 1, probe_bw_up},
      {"three flat rounds of probing", probe_bw_up, {}, 4, probe_bw_cruise},
      {"5 % loss with a queue while probing",
       probe_bw_up,
       {.round_trip = 60ms, .in_flight = 2 * bdp, .lost = bdp / 10},
       2,
       probe_bw_down},
      {"5 % loss without a queue while probing", probe_bw_up, {.lost = bdp / 20}, 1, probe_bw_up},
      {"no new minimum for 5 s", probe_bw_cruise, {.round_trip = 41ms, .after = 5100ms}, 1, probe_rtt},
      {"a match within 5 s", probe_bw_cruise, {.round_trip = 40'600us, .after = 2600ms}, 2, probe_bw_refill},
      {"no match within 5 s", probe_bw_cruise, {.round_trip = 40'700us, .after = 2600ms}, 2, probe_rtt},
      {"no new minimum for 5 s in startup", startup, {.round_trip = 41ms, .after = 5100ms}, 1, probe_rtt},
      {"full pipe", probe_rtt, {.round_trip = 40ms, .in_flight = bdp}, 10, probe_rtt},
      {"200 ms with half of it", probe_rtt, {.round_trip = 40ms, .in_flight = bdp / 2}, 7, probe_bw_cruise},
      {"less than 200 ms", probe_rtt, {.round_trip = 40ms, .in_flight = bdp / 2}, 4, probe_rtt},
  };
  for (const BbrRow& row : rows) {
    SCOPED_TRACE(row.name);
    Driver driver;
    driver.reach(row.from);
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(row.from));
    for (int i = 0; i < row.times; ++i) {
      driver.round(row.event);
    }
    EXPECT_EQ(to_text(driver.bbr.state()), to_text(row.to));
  }
}

// Section 5.5.10.3: "bw_shortterm = max( bw_latest, BBR.Beta * BBR.bw_shortterm )".
TEST(Bbr, LossWithAQueueWhileCruisingSlowsToWhatIsDelivered) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  const std::uint64_t before = driver.bbr.bandwidth();
  for (int i = 0; i < 2; ++i) {
    driver.round({.rate = bbr_rate * 8 / 10, .round_trip = 60ms, .lost = bdp / 20});
  }
  EXPECT_LT(driver.bbr.bandwidth(), before * 9 / 10);
  EXPECT_GE(driver.bbr.bandwidth(), before * 7 / 10);
}

// A datagram or two get lost at random also where there is a queue.
TEST(Bbr, TwoLostDatagramsAreNoQueueThatOverflowsAndThreeAre) {
  for (const std::uint64_t lost : {2U, 3U}) {
    Driver driver;
    driver.reach(probe_bw_cruise);
    const std::uint64_t before = driver.bbr.bandwidth();
    for (int i = 0; i < 2; ++i) {
      driver.round({.rate = bbr_rate * 8 / 10, .round_trip = 60ms, .lost = lost * bbr_datagram});
    }
    EXPECT_EQ(driver.bbr.bandwidth() < before, lost == 3);
  }
}

// Deviation 12. It sent less because a queue was evident; then a few are lost at random.
TEST(Bbr, WhatArrivesAsItWasSentSlowsACruiseOnlyWhereAQueueIs) {
  for (const bool as_sent : {false, true}) {
    for (const Duration then : {40ms, 60ms}) {
      Driver driver;
      driver.reach_cruise_under_pressure();
      const std::uint64_t before = driver.bbr.bandwidth();
      const std::uint64_t slow = bbr_rate * 94 / 100;
      driver.round({.rate = slow, .round_trip = 60ms, .as_sent = as_sent});
      driver.round({.rate = slow, .round_trip = 60ms, .as_sent = as_sent});
      driver.round({.rate = slow, .round_trip = then, .as_sent = as_sent});
      driver.round({.rate = slow, .round_trip = then, .lost = 5 * bbr_datagram, .as_sent = as_sent, .within = true});
      driver.round({.rate = slow, .round_trip = then, .as_sent = as_sent});
      ASSERT_EQ(driver.bbr.state(), probe_bw_cruise);
      EXPECT_EQ(driver.bbr.bandwidth() < before, !as_sent || then == 60ms) << as_sent << ' ' << then.count();
    }
  }
}

// Deviation 12. In ProbeBW_DOWN it sends 0.9 of what the path delivers, and hears of the losses of the probe before.
TEST(Bbr, WhatArrivesAsItWasSentDoesNotSlowADown) {
  for (const bool as_sent : {false, true}) {
    Driver driver;
    driver.reach(probe_bw_cruise);
    driver.rounds_until(probe_bw_up, 300, {});
    driver.rounds_until(probe_bw_down, 300, {.round_trip = 60ms, .in_flight = 2 * bdp});
    ASSERT_EQ(driver.bbr.state(), probe_bw_down);
    const std::uint64_t before = driver.bbr.bandwidth();
    for (const std::uint64_t lost : {0U, 50U, 0U, 0U}) {
      driver.round({.rate = bbr_rate * 9 / 10,
                    .round_trip = 60ms,
                    .in_flight = 2 * bdp,
                    .lost = lost * bbr_datagram,
                    .as_sent = as_sent});
    }
    ASSERT_EQ(driver.bbr.state(), probe_bw_down);
    EXPECT_EQ(driver.bbr.bandwidth() < before, !as_sent) << as_sent;
  }
}

/// A cruise in which loss has slowed it.
void slow_down(Driver& driver) {
  driver.reach_cruise_under_pressure();
  for (int i = 0; i < 20 && driver.bbr.bandwidth() == bbr_rate; ++i) {
    driver.round({.rate = bbr_rate * 8 / 10, .round_trip = 60ms, .lost = bdp / 20});
  }
  ASSERT_LT(driver.bbr.bandwidth(), bbr_rate * 9 / 10);
}

// Section 5.3.4.4: "BBRResetShortTermModel()": what loss said before a ProbeRTT is over with it.
TEST(Bbr, AfterAProbeOfTheRoundTripTheShortTermModelIsGone) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  // Losses until it is time for the probe: a refill forgets them, too.
  for (int i = 0; i < 300 && driver.bbr.state() != probe_rtt; ++i) {
    const bool cruises = driver.bbr.state() == probe_bw_cruise;
    driver.round(cruises ? Driver::Change{.rate = bbr_rate * 8 / 10, .round_trip = 60ms, .lost = bdp / 20}
                         : Driver::Change{.round_trip = 41ms});
  }
  ASSERT_EQ(driver.bbr.state(), probe_rtt);
  ASSERT_LT(driver.bbr.bandwidth(), bbr_rate * 9 / 10);
  for (int i = 0; i < 10 && driver.bbr.state() == probe_rtt; ++i) {
    EXPECT_LT(driver.bbr.bandwidth(), bbr_rate * 9 / 10) << "not before";
    driver.round({.rate = bbr_rate / 2, .round_trip = 41ms, .in_flight = bdp / 8});
  }
  ASSERT_EQ(driver.bbr.state(), probe_bw_cruise);
  EXPECT_GE(driver.bbr.bandwidth(), bbr_rate * 95 / 100);
}

TEST(Bbr, ARefillForgetsTheShortTermModel) {
  Driver driver;
  slow_down(driver);
  for (int i = 0; i < 200 && driver.bbr.state() != probe_bw_refill; ++i) {
    EXPECT_LT(driver.bbr.bandwidth(), bbr_rate * 9 / 10) << "not before";
    driver.round({.rate = bbr_rate * 8 / 10});
  }
  ASSERT_EQ(driver.bbr.state(), probe_bw_refill);
  EXPECT_GE(driver.bbr.bandwidth(), bbr_rate * 98 / 100);
}

// Section 5.5.10.3: while it probes, losses do not lower the bounds of the moment.
TEST(Bbr, LossWhileItProbesDoesNotSlowItAtOnce) {
  Driver driver;
  driver.reach(probe_bw_refill);
  const std::uint64_t before = driver.bbr.bandwidth();
  driver.round({.rate = bbr_rate * 8 / 10, .round_trip = 60ms, .lost = bdp / 100});
  ASSERT_EQ(driver.bbr.state(), probe_bw_up);
  driver.round({.rate = bbr_rate * 8 / 10, .round_trip = 60ms, .lost = bdp / 100});
  EXPECT_EQ(driver.bbr.bandwidth(), before);
}

// Section 5.5.4: "By default, the estimator discards application-limited samples".
TEST(Bbr, ALimitedSampleCountsOnlyWhereItIsLarger) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  const std::uint64_t before = driver.bbr.bandwidth();
  driver.round({.rate = before * 12 / 10, .limited = true});
  EXPECT_EQ(driver.bbr.bandwidth(), before * 12 / 10);
  Driver low;
  low.round({.rate = bbr_rate / 10, .limited = true});
  low.round({.rate = bbr_rate / 20, .limited = true});
  EXPECT_EQ(low.bbr.bandwidth(), bbr_rate / 10);
  // Beyond the two cycles that a maximum lasts: what was limited all the time says nothing of the path.
  for (int i = 0; i < 500; ++i) {
    driver.round({.rate = before / 10, .limited = true});
  }
  EXPECT_EQ(driver.bbr.bandwidth(), before * 12 / 10);
}

// The same section; here the path has become slower, and a limited sample lies between what it was and what it is.
TEST(Bbr, ALimitedSampleDoesNotKeepABandwidthThatIsGone) {
  Driver driver;
  driver.reach(probe_bw_up);
  driver.rounds_in(probe_bw_up, 20, {});
  driver.round({});  // the cycle begins whose samples are looked at
  const std::uint64_t before = driver.bbr.bandwidth();
  for (int i = 0; i < 5; ++i) {
    driver.round({.rate = before * 8 / 10, .limited = true});
  }
  for (int i = 0; i < 500 && driver.bbr.bandwidth() == before; ++i) {
    driver.round({.rate = before / 2});
  }
  EXPECT_EQ(driver.bbr.bandwidth(), before / 2);
}

TEST(Bbr, LossWithoutAQueueDoesNotSlowIt) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  const std::uint64_t before = driver.bbr.bandwidth();
  for (int i = 0; i < 30; ++i) {
    driver.round({.rate = bbr_rate * 95 / 100, .lost = bdp / 20});
  }
  EXPECT_EQ(driver.bbr.bandwidth(), before);
  EXPECT_EQ(driver.bbr.inflight_longterm(), Bbr::unbounded);
}

// Section 5.5.10.2: "BBR.inflight_longterm = max(RS.tx_in_flight, TargetInflight() * BBR.Beta)"
TEST(Bbr, TooMuchLossWhileProbingBoundsWhatIsInFlight) {
  Driver driver;
  driver.reach(probe_bw_up);
  ASSERT_EQ(driver.bbr.inflight_longterm(), Bbr::unbounded);
  for (int i = 0; i < 2; ++i) {
    driver.round({.round_trip = 60ms, .in_flight = bdp * 3 / 2, .lost = bdp / 10});
  }
  EXPECT_EQ(driver.bbr.inflight_longterm(), bdp * 3 / 2);
}

// Deviation 8: what a probe lost is reported while what was sent after it arrives, and counts until a round later.
TEST(Bbr, TheLossesOfAProbeCountForTwoRoundsAfterIt) {
  for (const int clean : {1, 2}) {
    SCOPED_TRACE(clean);
    Driver driver;
    driver.reach(probe_bw_up);
    driver.rounds_in(probe_bw_up, 20, {});
    for (int i = 0; i < clean; ++i) {
      driver.round({.round_trip = 60ms});
    }
    driver.round({.round_trip = 60ms, .in_flight = bdp * 3 / 2, .lost = bdp / 10});
    EXPECT_EQ(driver.bbr.inflight_longterm(), clean == 1 ? bdp * 3 / 2 : Bbr::unbounded);
  }
}

// Section 5.3.3.5: "in each successive round trip, BBR.inflight_longterm grows (in units of C.SMSS) by 1, 2, 4, 8, 16".
TEST(Bbr, WhatMayBeInFlightGrowsFasterEachRoundOfProbing) {
  Driver driver;
  driver.reach(probe_bw_up);
  for (int i = 0; i < 2; ++i) {
    driver.round({.round_trip = 60ms, .in_flight = bdp * 3 / 2, .lost = bdp / 10});
  }
  driver.rounds_until(probe_bw_up, 400, {.in_flight = bdp / 2, .window_limited = true});
  const std::uint64_t before = driver.bbr.inflight_longterm();
  for (std::uint64_t i = 0; i < 5; ++i) {
    driver.round({.rate = bbr_rate * (5 + i) / 4, .in_flight = bdp / 2, .window_limited = true});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_up));
  }
  EXPECT_GE(driver.bbr.inflight_longterm() - before, 8 * bbr_datagram) << "one a round would be five at most";
}

// Section 5.3.3.5 again: each probe begins with a single datagram.
TEST(Bbr, WhatMayBeInFlightGrowsSlowlyAgainInTheNextProbe) {
  Driver driver;
  driver.reach(probe_bw_up);
  for (int i = 0; i < 2; ++i) {
    driver.round({.round_trip = 60ms, .in_flight = bdp * 3 / 2, .lost = bdp / 10});
  }
  for (int probe = 0; probe < 2; ++probe) {
    SCOPED_TRACE(probe);
    driver.rounds_until(probe_bw_up, 400, {.in_flight = bdp / 2, .window_limited = true});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_up));
    const std::uint64_t before = driver.bbr.inflight_longterm();
    driver.round({.rate = bbr_rate * 5 / 4, .in_flight = bdp / 2, .window_limited = true});
    EXPECT_LE(driver.bbr.inflight_longterm() - before, 4 * bbr_datagram);
    for (std::uint64_t i = 1; i < 5; ++i) {
      driver.round({.rate = bbr_rate * (5 + i) / 4, .in_flight = bdp / 2, .window_limited = true});
    }
    driver.rounds_in(probe_bw_up, 20, {.rate = bbr_rate / 2, .in_flight = bdp / 2});
  }
}

// In the sense of section 5.6.4.7, BoundCwndForModel: loss bounds what is in flight to what a round trip delivers,
// where the gain would allow two bandwidth-delay products.
TEST(Bbr, LossAfterAProbeBoundsWhatIsInFlight) {
  const auto window = [](std::uint64_t lost) {
    Driver driver;
    driver.reach(probe_bw_down);
    for (int i = 0; i < 3; ++i) {
      driver.round({.in_flight = 2 * bdp});  // what the probe lost would have been told by now
    }
    EXPECT_GE(driver.bbr.window_bytes(), 2 * bdp);
    for (int i = 0; i < 10; ++i) {
      driver.round({.round_trip = 50ms, .in_flight = 2 * bdp, .lost = lost});
    }
    EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down));
    EXPECT_EQ(driver.bbr.inflight_longterm(), Bbr::unbounded);
    return driver.bbr.window_bytes();
  };
  EXPECT_LT(window(bdp / 10), window(0));
}

// Under pressure it drains for longer (deviation 13), so that loss counts twice (deviation 10).
TEST(Bbr, LossAfterAProbeBoundsWhatIsInFlightToLessThanTheGainDoes) {
  Driver driver;
  driver.reach_cruise_under_pressure();
  driver.rounds_until(probe_bw_up, 200, {.round_trip = 60ms});
  driver.rounds_in(probe_bw_up, 9, {.round_trip = 60ms, .in_flight = 2 * bdp});
  for (int i = 0; i < 3; ++i) {
    driver.round({.in_flight = 2 * bdp});
  }
  EXPECT_GE(driver.bbr.window_bytes(), 2 * bdp);
  for (int i = 0; i < 30; ++i) {
    driver.round({.round_trip = 50ms, .in_flight = 2 * bdp, .lost = bdp / 10});
  }
  ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down));
  EXPECT_EQ(driver.bbr.inflight_longterm(), Bbr::unbounded);
  EXPECT_LT(driver.bbr.window_bytes(), 2 * bdp);
}

/// Bounded by the losses of a probe, and out of it.
Driver bounded(std::uint64_t in_flight) {
  Driver driver;
  driver.reach(probe_bw_up);
  for (int i = 0; i < 2; ++i) {
    driver.round({.round_trip = 60ms, .in_flight = in_flight, .lost = bdp / 10});
  }
  EXPECT_EQ(driver.bbr.inflight_longterm(), in_flight);
  EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down));
  return driver;
}

// Section 5.3.3.9, IsTimeToCruise: "if (C.inflight > InflightWithHeadroom()) return false /* not enough headroom */".
TEST(Bbr, ItLeavesHeadroomBeforeItCruises) {
  Driver driver = bounded(bdp);
  driver.round({.in_flight = bdp * 95 / 100});
  EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down));
  driver.round({.in_flight = bdp * 80 / 100});
  EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_cruise));
}

// Deviation 11, and section 5.3.3.8.2 for the others: 2 to 3 s.
TEST(Bbr, AfterAProbeThatOverflowedItWaitsTwiceAsLong) {
  for (const bool overflowed : {false, true}) {
    SCOPED_TRACE(overflowed);
    Driver driver;
    driver.reach(probe_bw_up);
    driver.rounds_in(probe_bw_up, 6,
                     {.round_trip = overflowed ? 60ms : 40ms, .in_flight = bdp, .lost = overflowed ? bdp / 10 : 0});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down));
    driver.round({.in_flight = bdp / 2});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_cruise));
    driver.round({.in_flight = bdp / 2, .after = 3001ms});
    EXPECT_EQ(to_text(driver.bbr.state()), to_text(overflowed ? probe_bw_cruise : probe_bw_refill));
    driver.round({.in_flight = bdp / 2, .after = 3001ms});
    EXPECT_EQ(to_text(driver.bbr.state()), to_text(overflowed ? probe_bw_refill : probe_bw_up));
  }
}

// Deviation 10.
TEST(Bbr, LossLowersTheShortTermModelEverySixteenRoundsUnlessLittleIsDelivered) {
  Driver driver;
  driver.reach_cruise_under_pressure();
  const auto lossy = [&](std::uint64_t delivered_rate) {
    driver.round({.rate = delivered_rate, .round_trip = 60ms, .in_flight = bdp, .lost = bdp / 10});
    return driver.bbr.bandwidth();
  };
  while (driver.bbr.bandwidth() == bbr_rate) {
    static_cast<void>(lossy(bbr_rate * 9 / 10));
  }
  const std::uint64_t lowered = driver.bbr.bandwidth();
  EXPECT_EQ(lowered, bbr_rate * 9 / 10);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(lossy(bbr_rate * 8 / 10), lowered) << i;
  }
  int rounds = 12;
  while (lossy(bbr_rate * 8 / 10) == lowered && rounds < 40) {
    ++rounds;
  }
  EXPECT_LE(rounds, 18);
  EXPECT_EQ(driver.bbr.bandwidth(), bbr_rate * 8 / 10);
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(lossy(bbr_rate / 4));
  }
  EXPECT_LT(driver.bbr.bandwidth(), bbr_rate / 2) << "the path has become slower";
}

/// The bandwidth in 1/1000 of what it was, after so many rounds like that.
std::uint64_t per_mille_after(Driver& driver, int rounds, const Driver::Change& change) {
  for (int i = 0; i < rounds; ++i) {
    driver.round(change);
  }
  return driver.bbr.bandwidth() * 1000 / bbr_rate;
}

// Deviation 13; what a round was like is known when the next one begins.
TEST(Bbr, YieldsToAQueueThatStandsAndTakesAsMuchAgainAsOthers) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  EXPECT_EQ(per_mille_after(driver, 2, {.round_trip = 60ms}), 1000U) << "its own";
  EXPECT_EQ(driver.bbr.pacing_rate(), bbr_rate * 95 / 100 * 99 / 100) << "deviation 6";
  EXPECT_EQ(per_mille_after(driver, 1, {.round_trip = 60ms}), 970U);
  EXPECT_EQ(driver.bbr.pacing_rate(), bbr_rate * 97 / 100 * 99 / 100) << "and no deviation 6";
  EXPECT_EQ(per_mille_after(driver, 1, {.round_trip = 40ms}), 940U);
  std::uint64_t before = driver.bbr.bandwidth();
  driver.round({});
  EXPECT_EQ(driver.bbr.bandwidth() - before, before / 128);
  for (int i = 0; i < 16; ++i) {
    before = driver.bbr.bandwidth();
    driver.round({});
  }
  EXPECT_EQ(driver.bbr.bandwidth() - before, bbr_datagram * 25 * 17 / 4) << "datagrams a round trip";
}

TEST(Bbr, YieldsToNoQueueThatIsNotThereAllTheTime) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  for (int i = 0; i < 10; ++i) {
    driver.round({.round_trip = 60ms});
    driver.round({.round_trip = 60ms, .within = true});
    driver.round({.round_trip = 44ms, .within = true});
  }
  EXPECT_EQ(driver.bbr.bandwidth(), bbr_rate);
}

/// A queue of 1.9 ms is an eighth of a short round trip, and what the pacer itself may send at once.
TEST(Bbr, YieldsToNoQueueThatIsAsShortAsABurst) {
  for (const auto& [queue, yields] : {std::pair{1900us, false}, {2100us, true}}) {
    Driver driver;
    driver.reach(probe_bw_cruise);
    driver.round({.round_trip = 10ms, .after = 10ms});
    EXPECT_EQ(per_mille_after(driver, 6, {.round_trip = 10ms + queue, .after = 10ms}) < 1000, yields);
  }
}

TEST(Bbr, WhatItYieldedIsWhatTheNextProbeBeginsWith) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  EXPECT_EQ(per_mille_after(driver, 9, {.round_trip = 60ms}), 807U) << "seven rounds";
  const std::uint64_t yielded = driver.bbr.bandwidth() * 97 / 100;  // the last round
  for (int i = 0; i < 200 && driver.bbr.state() == probe_bw_cruise; ++i) {
    driver.round({.rate = bbr_rate / 2});  // which uses too little for it to grow
  }
  ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_refill));
  EXPECT_EQ(driver.bbr.bandwidth(), yielded);
}

TEST(Bbr, LossTakesFromWhatItSendsWhereItHasYielded) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  EXPECT_EQ(per_mille_after(driver, 9, {.round_trip = 60ms}), 807U);
  const std::uint64_t yielded = per_mille_after(driver, 2, {.rate = bbr_rate / 2});
  driver.round({.rate = bbr_rate / 2, .round_trip = 60ms, .lost = bdp / 10});
  driver.round({.rate = bbr_rate / 2, .round_trip = 60ms, .lost = bdp / 10});
  EXPECT_LE(driver.bbr.bandwidth() * 1000 / bbr_rate, yielded * 7 / 10);
}

/// A queue shrinks where an eighth of it is gone within a round.
TEST(Bbr, YieldsNoMoreOnceTheQueueShrinks) {
  for (const auto& [step, yields] : {std::pair{2ms, true}, {4ms, false}}) {
    Driver driver;
    driver.reach(probe_bw_cruise);
    EXPECT_EQ(per_mille_after(driver, 3, {.round_trip = 70ms}), 970U);
    Duration round_trip = 70ms;
    for (int i = 0; i < 5; ++i) {
      round_trip -= step;
      driver.round({.round_trip = round_trip});
    }
    EXPECT_EQ(driver.bbr.bandwidth() * 1000 / bbr_rate < 900, yields) << step.count();
  }
}

TEST(Bbr, DoesNotProbeWhileItFindsOthers) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  for (int i = 0; i < 204; ++i) {  // 8 s; a round trip that matches the least one now and then, so no ProbeRTT
    driver.round({.round_trip = i % 10 < 4 ? 60ms : 40ms});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_cruise)) << i;
  }
  EXPECT_LT(per_mille_after(driver, 20, {.rate = bbr_rate / 2}), 1000U);
  EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_cruise));
  driver.round({.rate = bbr_rate / 2});
  driver.round({.rate = bbr_rate / 2});
  EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_refill));
}

TEST(Bbr, BesideSomebodyWhoDoesNotYieldItDoesNotEither) {
  Driver driver;
  driver.reach_cruise_under_pressure();
  EXPECT_EQ(driver.bbr.pacing_rate(), bbr_rate * 95 / 100 * 99 / 100) << "deviation 6";
}

/// ProbeRTT comes every 5 s there, and the wait after a probe that overflowed takes 4 to 6 s.
TEST(Bbr, UnderPressureTheWaitForAProbeGoesOnThroughProbeRtt) {
  int in_between[2] = {};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool pressed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << (pressed ? ", pressed" : ""));
      Driver driver;
      driver.bbr = Bbr(bbr_datagram, seed);
      driver.reach(probe_bw_up);
      driver.rounds_in(probe_bw_up, 6, {.round_trip = 60ms, .lost = bdp / 10});
      driver.round({.in_flight = bdp / 2});
      ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_cruise));
      const TimePoint begin = driver.now;
      bool probed_round_trip = false;
      while (driver.bbr.state() != probe_bw_refill && driver.now - begin < 20s) {
        const bool drained = driver.bbr.state() == probe_rtt;
        probed_round_trip |= drained;
        driver.round({.round_trip = drained || !pressed ? 41ms : 60ms,
                      .in_flight = drained ? bdp / 8 : bdp,
                      .after = 100ms});  // or Reno's 63 rounds would be over first
      }
      in_between[pressed] += probed_round_trip ? 1 : 0;
      if (probed_round_trip) {
        EXPECT_TRUE(pressed ? driver.now - begin < 6500ms : driver.now - begin > 8900ms);
      }
    }
  }
  EXPECT_GT(in_between[false], 0);
  EXPECT_GT(in_between[true], 0);
}

/// What several have measured adds up to more than the path delivers: 0.9 of it leaves their queue where it is.
TEST(Bbr, AQueueThatStaysWhileItShouldDrainIsYieldedTo) {
  Driver driver;
  driver.reach(probe_bw_down);
  int rounds = 0;
  while (driver.bbr.state() == probe_bw_down && rounds < 40) {
    driver.round({.round_trip = 60ms, .in_flight = 2 * bdp});
    ++rounds;
  }
  EXPECT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_cruise));
  EXPECT_GE(rounds, 16);
  EXPECT_LE(rounds, 18);
}

/// Beside somebody who does not yield nothing would be gained.
TEST(Bbr, UnderPressureItWaitsUntilItHasDrainedWhatItAdded) {
  Driver driver;
  driver.reach_cruise_under_pressure();
  driver.rounds_until(probe_bw_up, 200, {.round_trip = 60ms});
  driver.rounds_in(probe_bw_up, 9, {.round_trip = 60ms, .in_flight = 2 * bdp, .lost = bdp / 10});
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down)) << i;
    driver.round({.round_trip = 60ms, .in_flight = 2 * bdp});
  }
}

// Section 5.3.3.6: "then the flow immediately returns to ProbeBW_REFILL to probe for bandwidth again".
TEST(Bbr, AProbeThatStopsInTimeAndDoesNoHarmIsFollowedByAnother) {
  for (const bool harm : {false, true}) {
    SCOPED_TRACE(harm);
    Driver driver = bounded(bdp);
    // Round trips that match the least one: no ProbeRTT in between.
    driver.round({.round_trip = 39ms, .in_flight = bdp});
    driver.round({.round_trip = 39ms, .in_flight = bdp / 2, .after = 3001ms});
    driver.round({.round_trip = 39ms, .in_flight = bdp / 2, .after = 3001ms});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_refill));
    driver.round({.in_flight = bdp / 2});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_up));
    driver.round({.in_flight = bdp});
    ASSERT_EQ(to_text(driver.bbr.state()), to_text(probe_bw_down)) << "as far as it was harmful before";
    driver.round({.round_trip = 60ms, .in_flight = 2 * bdp});
    driver.round({.round_trip = 60ms, .in_flight = 2 * bdp, .lost = harm ? bdp / 10 : 0});
    EXPECT_EQ(to_text(driver.bbr.state()), to_text(harm ? probe_bw_down : probe_bw_refill));
  }
}

// Section 5.5.10.2: "if (!RS.is_app_limited)".
TEST(Bbr, LossesOfAProbeThatHadLittleToSendBoundNothing) {
  Driver driver;
  driver.reach(probe_bw_up);
  driver.round({.in_flight = bdp / 10, .lost = bdp / 4, .limited = true});
  EXPECT_NE(to_text(driver.bbr.state()), to_text(probe_bw_up));
  EXPECT_EQ(driver.bbr.inflight_longterm(), Bbr::unbounded);
}

TEST(Bbr, ARoundOfLossSlowsItToSevenTenthsAtMost) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  const std::uint64_t before = driver.bbr.bandwidth();
  for (int i = 0; i < 2; ++i) {
    driver.round({.rate = bbr_rate / 10, .round_trip = 60ms, .lost = bdp / 20});
  }
  EXPECT_LT(driver.bbr.bandwidth(), before);
  EXPECT_GE(driver.bbr.bandwidth(), before * 48 / 100) << "two rounds";
}

// Section 5.6.2: "to cause BBR to pace at 1% below the bw, on average"; section 5.4.1: "BBR sets C.pacing_rate to
// exactly BBR.bw" after idleness, whatever it was about to do.
TEST(Bbr, TheRateIsOnePercentBelowTheBandwidth) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  EXPECT_EQ(driver.bbr.pacing_rate(), driver.bbr.bandwidth() * 99 / 100);
  driver.reach(probe_bw_up);
  EXPECT_GT(driver.bbr.pacing_rate(), driver.bbr.bandwidth());
  driver.round({.rate = bbr_rate * 5 / 4, .in_flight = 0});
  driver.bbr.on_sent(driver.now, bbr_datagram);
  EXPECT_EQ(driver.bbr.pacing_rate(), driver.bbr.bandwidth() * 99 / 100);
}

}  // namespace
}  // namespace sluice::ftx
