// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/rtt_estimator.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using namespace std::chrono_literals;

// RFC 6298, 2.2: "SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max (G, K*RTTVAR)".
TEST(RttEstimator, FirstAndLaterSamplesFollowTheRfc) {
  RttEstimator estimator;
  EXPECT_FALSE(estimator.known());
  estimator.sample(80ms);
  EXPECT_EQ(estimator.smoothed(), 80ms);
  EXPECT_EQ(estimator.timeout(), 240ms);
  // 2.3: RTTVAR = 3/4 * 40 + 1/4 * |80 - 40| = 40; SRTT = 7/8 * 80 + 1/8 * 40 = 75.
  estimator.sample(40ms);
  EXPECT_EQ(estimator.smoothed(), 75ms);
  EXPECT_EQ(estimator.timeout(), 235ms);
}

}  // namespace
}  // namespace sluice::ftx
