// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/pacing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

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
    for (; pacer.next_send() <= now; ++sent) {
      pacer.on_sent(now, datagram_bytes);
    }
  }
  EXPECT_NEAR(static_cast<double>(sent), 1000, 3);
  // Silence is not saved up: after it comes one burst, not all that was missed.
  now += 10s;
  std::size_t burst = 0;
  for (; pacer.next_send() <= now; ++burst) {
    pacer.on_sent(now, datagram_bytes);
  }
  EXPECT_LE(burst, 1U + static_cast<std::size_t>(Pacer::burst / 1ms));
}

/// Sends for a second, as soon as it may; answers how many datagrams went, and how often it waited.
std::pair<std::size_t, std::size_t> sent_and_waits(std::uint64_t bytes_per_second, Duration late) {
  Pacer pacer;
  pacer.set_rate(bytes_per_second);
  TimePoint now{1h};
  std::size_t sent = 0;
  std::size_t waits = 0;
  for (; now < TimePoint(1h) + 1s; ++waits) {
    for (; pacer.next_send() <= now; ++sent) {
      pacer.on_sent(now, datagram_bytes);
    }
    now = std::max(now, pacer.next_send()) + late;
  }
  return {sent, waits};
}

// A quantum leaves together, from 8 KBytes in 250 us on, and no rate is lost by it, nor by waits that end late.
TEST(Pacer, WaitsForAQuantum) {
  for (const Duration late : {0us, 50us, 1000us}) {
    SCOPED_TRACE(late.count());
    for (const unsigned speed : {50'000U, 1'000'000U, 32'000'000U, 33'000'000U, 125'000'000U, 1'250'000'000U}) {
      SCOPED_TRACE(speed);
      const auto [sent, waits] = sent_and_waits(speed, late);
      const double due = static_cast<double>(speed) / datagram_bytes;
      EXPECT_NEAR(static_cast<double>(sent), due, due * 0.003 + 1);
      const bool together = speed >= 33'000'000;
      EXPECT_LE(waits, together ? std::max(4001U, speed / (64 * 1024) + 1) : sent);
      const std::size_t first_burst = speed / 500 / datagram_bytes + 1;
      EXPECT_TRUE(together || late > 0us || sent <= waits + first_burst) << "no pairs";
    }
  }
}

}  // namespace
}  // namespace sluice::ftx
