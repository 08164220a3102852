// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much may be under way: slow start and congestion avoidance of RFC 5681, counted in bytes (RFC 3465), from the
// initial window of RFC 6928. What is lost the scoreboard says.
//
// Plain values; thread-safe as such.

#include <algorithm>
#include <cstdint>

namespace sluice::tcp {

class Congestion {
 public:
  explicit Congestion(std::uint64_t segment_bytes) { set_segment_bytes(segment_bytes); }

  [[nodiscard]] std::uint64_t window() const { return window_; }
  [[nodiscard]] bool in_slow_start() const { return window_ < threshold_; }

  /// RFC 6928 section 2: the initial window is "min (10*MSS, max (2*MSS, 14600))", and one segment where more than one
  /// SYN was lost. REQUIRES: nothing is under way.
  void begin(std::uint64_t segment_bytes, std::uint64_t syns_lost) {
    set_segment_bytes(segment_bytes);
    window_ = syns_lost > 1 ? segment_bytes_ : initial_window();
  }
  /// The path takes less than it did.
  void set_segment_bytes(std::uint64_t segment_bytes) { segment_bytes_ = segment_bytes; }

  /// So many bytes came to be acknowledged, outside of loss recovery. `limited`: the window was what kept more from
  /// leaving; one that is not used does not grow (RFC 7661). `after_timeout`: they are of those that timed out.
  void acknowledged(std::uint64_t bytes, bool limited, bool after_timeout = false) {
    if (!limited) {
      return;
    }
    if (in_slow_start()) {
      // RFC 3465 section 2.2: no more than L segments for one acknowledgment; RFC 9406 section 4.3: "L = infinity if
      // paced, L = 8 if non-paced". After a timeout most of what is acknowledged had arrived long before.
      window_ += std::min(bytes, (after_timeout ? 2 : 8) * segment_bytes_);
      return;
    }
    credit_ += bytes;  // RFC 3465 section 2.1: a segment more for each window acknowledged
    if (credit_ >= window_) {
      credit_ -= window_;
      window_ += segment_bytes_;
    }
  }
  /// Loss recovery begins. RFC 5681 (4): "ssthresh = max (FlightSize / 2, 2*SMSS)".
  void lost(std::uint64_t flight_bytes) {
    threshold_ = std::max(flight_bytes / 2, 2 * segment_bytes_);
    window_ = threshold_;
    credit_ = 0;
  }
  /// RFC 5681 section 3.1: "upon a timeout [...] cwnd MUST be set to no more than the loss window, LW, which equals 1
  /// full-sized segment"; the threshold as above, but "ssthresh is held constant" where that segment had timed out
  /// before.
  void timed_out(std::uint64_t flight_bytes, bool again) {
    if (!again) {
      threshold_ = std::max(flight_bytes / 2, 2 * segment_bytes_);
    }
    window_ = segment_bytes_;
    credit_ = 0;
  }
  /// RFC 5681 section 4.1: "TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not
  /// sent data in the interval exceeding the retransmission timeout"; "RW = min(IW,cwnd)".
  void restarted() { window_ = std::min(window_, initial_window()); }

 private:
  [[nodiscard]] std::uint64_t initial_window() const {
    return std::min(10 * segment_bytes_, std::max<std::uint64_t>(2 * segment_bytes_, 14600));
  }

  std::uint64_t segment_bytes_ = 0;
  std::uint64_t window_ = 0;
  std::uint64_t threshold_ = UINT64_MAX;
  std::uint64_t credit_ = 0;
};

}  // namespace sluice::tcp
