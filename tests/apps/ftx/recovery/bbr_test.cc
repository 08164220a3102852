// SPDX-License-Identifier: Apache-2.0
// The states of Bbr by themselves: state x event. bbr_path_test.cc has it run on paths.
#include "apps/ftx/recovery/bbr.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;
using enum Bbr::State;

constexpr std::size_t datagram = 1000;
constexpr std::uint64_t rate = 10'000'000;
constexpr std::uint64_t bdp = 400'000;  // of `rate` over 40 ms

/// A Bbr, told what reports say. The pipe holds one bandwidth-delay product unless an event says otherwise.
struct Driver {
  struct Change {
    std::uint64_t rate = ftx::rate;
    Duration round_trip = 40ms;
    std::uint64_t in_flight = bdp;
    std::uint64_t lost = 0;  // bytes
    bool limited = false;
    Duration after = 40ms;
  };

  /// A report a whole round trip after the last.
  void round(const Change& change) {
    now += change.after;
    const std::uint64_t bytes = change.rate / 25;
    Delivery delivery;
    delivery.round_trip = delivery.smoothed_round_trip = change.round_trip;
    delivery.newest = Delivery::AtSend{};
    delivery.newest->delivered_bytes = delivered;
    delivery.newest->in_flight_bytes = change.in_flight;
    delivery.newest->application_limited = change.limited;
    delivered += bytes;
    delivery.delivered_bytes = delivered;
    delivery.newly_delivered_bytes = bytes;
    delivery.newly_resolved_bytes = bytes + change.lost;
    delivery.in_flight_bytes = change.in_flight;
    delivery.rate = change.rate;
    delivery.newest->resolved_since_bytes = bytes + change.lost;
    if (change.lost > 0) {
      delivery.newly_lost_bytes = delivery.newest->lost_since_bytes = change.lost;
      delivery.newly_lost_runs = 10;
      delivery.newest_lost = delivery.newest;
    }
    bbr.on_sent(now, datagram);
    bbr.on_report(now, delivery);
  }

  /// Brings it to `state` the shortest way.
  void reach(Bbr::State state) {
    for (std::uint64_t slow = rate / 8; slow <= rate; slow *= 2) {
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

  Bbr bbr{datagram, 1};
  TimePoint now{1h};
  std::uint64_t delivered = 1'000'000;
};

struct Row {
  const char* name;
  Bbr::State from;
  Driver::Change event;
  int times;
  Bbr::State to;
};

TEST(Bbr, TheStateAfterEachEvent) {
  const Row rows[] = {
      {"grows", startup, {.rate = rate * 2, .in_flight = 2 * bdp}, 3, startup},
      {"two flat rounds", startup, {.in_flight = 2 * bdp}, 2, startup},
      {"three flat rounds", startup, {.in_flight = 2 * bdp}, 3, drain},
      {"flat, but it had little to send", startup, {.in_flight = 2 * bdp, .limited = true}, 9, startup},
      {"5 % loss without a queue", startup, {.rate = rate * 2, .in_flight = 2 * bdp, .lost = bdp / 20}, 2, startup},
      {"5 % loss with a queue",
       startup,
       {.rate = rate * 2, .round_trip = 60ms, .in_flight = 4 * bdp, .lost = bdp / 10},
       3,
       drain},
      {"30 % loss without a queue", startup, {.rate = rate * 2, .in_flight = 4 * bdp, .lost = bdp}, 2, drain},
      {"queue is still there", drain, {.in_flight = 2 * bdp}, 2, drain},
      {"queue is gone", drain, {.in_flight = bdp}, 1, probe_bw_cruise},
      {"three rounds are enough", drain, {.in_flight = 2 * bdp}, 4, probe_bw_down},
      {"time passes", probe_bw_cruise, {}, 10, probe_bw_cruise},
      {"two to three seconds", probe_bw_cruise, {.after = 3001ms}, 1, probe_bw_refill},
      {"63 round trips", probe_bw_cruise, {.round_trip = 40ms, .after = 10ms}, 63, probe_bw_up},
      {"loss while cruising", probe_bw_cruise, {.lost = bdp / 4}, 2, probe_bw_cruise},
      {"one round refills", probe_bw_refill, {}, 1, probe_bw_up},
      {"the rate grows", probe_bw_up, {.rate = rate * 5 / 4}, 1, probe_bw_up},
      {"three flat rounds of probing", probe_bw_up, {}, 4, probe_bw_cruise},
      {"5 % loss with a queue while probing",
       probe_bw_up,
       {.round_trip = 60ms, .in_flight = 2 * bdp, .lost = bdp / 10},
       2,
       probe_bw_down},
      {"5 % loss without a queue while probing", probe_bw_up, {.lost = bdp / 20}, 1, probe_bw_up},
      {"no new minimum for 5 s", probe_bw_cruise, {.round_trip = 41ms, .after = 5100ms}, 1, probe_rtt},
      {"no new minimum for 5 s in startup", startup, {.round_trip = 41ms, .after = 5100ms}, 1, probe_rtt},
      {"full pipe", probe_rtt, {.round_trip = 40ms, .in_flight = bdp}, 10, probe_rtt},
      {"200 ms with half of it", probe_rtt, {.round_trip = 40ms, .in_flight = bdp / 2}, 7, probe_bw_cruise},
      {"less than 200 ms", probe_rtt, {.round_trip = 40ms, .in_flight = bdp / 2}, 4, probe_rtt},
  };
  for (const Row& row : rows) {
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
    driver.round({.rate = rate * 8 / 10, .round_trip = 60ms, .lost = bdp / 20});
  }
  EXPECT_LT(driver.bbr.bandwidth(), before * 9 / 10);
  EXPECT_GE(driver.bbr.bandwidth(), before * 7 / 10);
}

TEST(Bbr, LossWithoutAQueueDoesNotSlowIt) {
  Driver driver;
  driver.reach(probe_bw_cruise);
  const std::uint64_t before = driver.bbr.bandwidth();
  for (int i = 0; i < 30; ++i) {
    driver.round({.rate = rate * 95 / 100, .lost = bdp / 20});
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

}  // namespace
}  // namespace sluice::ftx
