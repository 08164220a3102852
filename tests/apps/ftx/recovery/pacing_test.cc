// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/pacing.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice::ftx
