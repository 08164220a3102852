// SPDX-License-Identifier: Apache-2.0
#pragma once

// The retransmission timeout (RFC 6298) and the least round-trip time.
//
// Plain values; thread-safe as such.

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace sluice::tcp {

class RoundTrip {
 public:
  static constexpr Duration granularity = std::chrono::milliseconds(1);
  /// (2.1): "the sender SHOULD set RTO <- 1 second".
  static constexpr Duration initial_timeout = std::chrono::seconds(1);
  /// (5.7): "If the timer expires awaiting the ACK of a SYN segment and the TCP implementation is using an RTO less
  /// than 3 seconds, the RTO MUST be re-initialized to 3 seconds when data transmission begins".
  static constexpr Duration timeout_after_lost_syn = std::chrono::seconds(3);
  /// (2.4): "Whenever RTO is computed, if it is less than 1 second, then the RTO SHOULD be rounded up to 1 second."
  /// Less here, as hosts have it today: what is delayed is acknowledged within far less (tcp_connection.h), and a
  /// timeout that comes too early costs little where the peer has selective acknowledgement.
  static constexpr Duration timeout_min = std::chrono::milliseconds(200);
  /// (2.5): "A maximum value MAY be placed on RTO provided it is at least 60 seconds."
  static constexpr Duration timeout_max = std::chrono::seconds(60);

  /// (2.2), (2.3). REQUIRES: of a segment that was sent once (Karn's algorithm).
  void measured(Duration round_trip) {
    if (smoothed_ == Duration::zero()) {
      smoothed_ = round_trip;
      variation_ = round_trip / 2;
    } else {
      const Duration deviation = smoothed_ > round_trip ? smoothed_ - round_trip : round_trip - smoothed_;
      variation_ += (deviation - variation_) / 4;
      smoothed_ += (round_trip - smoothed_) / 8;
    }
    least_ = std::min(least_, round_trip);
    backoff_ = 0;
  }
  /// The connection is open, and its SYN had timed out.
  void begin_unmeasured() {
    unmeasured_timeout_ = timeout_after_lost_syn;
    backoff_ = 0;
  }
  /// (5.5): "The host MUST set RTO <- RTO * 2 ("back off the timer")." It stays so until there is a measurement, as RFC
  /// 9293 section 3.8.2 has it: "keeping the backed-off value until a subsequent segment with new data has been sent
  /// and acknowledged without retransmission".
  void timed_out() { backoff_ = std::min(backoff_ + 1U, 16U); }

  [[nodiscard]] Duration timeout() const {
    const Duration measured = smoothed_ == Duration::zero()
                                  ? unmeasured_timeout_
                                  : std::max(smoothed_ + std::max(granularity, 4 * variation_), timeout_min);
    return std::min(Duration(measured * (1LL << backoff_)), timeout_max);
  }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }
  [[nodiscard]] Duration variation() const { return variation_; }
  [[nodiscard]] Duration least() const { return least_; }

 private:
  Duration smoothed_{};
  Duration variation_{};
  Duration least_ = Duration::max();
  Duration unmeasured_timeout_ = initial_timeout;
  unsigned backoff_ = 0;
};

}  // namespace sluice::tcp
