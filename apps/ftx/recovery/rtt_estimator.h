// SPDX-License-Identifier: Apache-2.0
#pragma once

// RttEstimator: the sender's estimate of the round-trip time, after RFC 6298 section 2. The caller subtracts the
// receiver's holding time from each sample.

#include <algorithm>

#include "base/time.h"

namespace sluice::ftx {

class RttEstimator {
 public:
  /// REQUIRES: sample >= 0.
  void sample(Duration sample) {
    if (!known_) {
      // "SRTT <- R, RTTVAR <- R/2"
      smoothed_ = sample;
      variation_ = sample / 2;
      known_ = true;
      return;
    }
    // "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|; SRTT <- (1 - alpha) * SRTT + alpha * R'", 1/4 and 1/8
    variation_ = (variation_ * 3 + std::chrono::abs(smoothed_ - sample)) / 4;
    smoothed_ = (smoothed_ * 7 + sample) / 8;
  }

  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }

  /// How long to wait for an answer that the peer sends at once: "RTO <- SRTT + max (G, K*RTTVAR)" with K = 4.
  [[nodiscard]] Duration timeout() const {
    if (!known_) {
      return std::chrono::milliseconds(250);
    }
    return smoothed_ + std::max<Duration>(variation_ * 4, std::chrono::milliseconds(1));
  }

 private:
  bool known_ = false;
  Duration smoothed_{};
  Duration variation_{};
};

}  // namespace sluice::ftx
