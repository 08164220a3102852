// SPDX-License-Identifier: Apache-2.0
#pragma once

// LossDetector: when the receiver declares a missing sequence lost.
//
// A sender never uses a sequence twice (a retransmission has its own), so an arrival below the highest sequence is
// always reordering, and its lateness can be measured. From the lateness follows the reorder threshold: a sequence is
// lost when a higher one arrived longer than the threshold ago. A link that reorders therefore costs delay and not
// retransmissions.
//
//   reorder threshold = max(5/4 of the largest lateness of the last 10 to 20 s, half the round trip but 50 ms at most)
//                       and within 1 ms .. 1 s
//
// Half the round trip is for what has not been measured. A first flight comes before the sender knows the round trip:
// 20 ms stand for it. At the end of the data that is patience without a purpose: nothing but what is missing keeps the
// transfer, and the path is idle. So from then on only what was measured counts.
//
// Not thread-safe. Every call is O(1): at most checkpoint_count steps.

#include <array>
#include <cstdint>

#include "base/time.h"

namespace sluice::ftx {

class LossDetector {
 public:
  /// The round trip that the sender measured.
  void set_round_trip(Duration round_trip) { round_trip_ = round_trip; }

  /// All data has been sent once.
  void end_of_data() { data_ended_ = true; }

  /// `sequence` arrived and is the highest so far.
  void on_highest(TimePoint now, std::uint64_t sequence);
  /// `sequence` arrived after a higher one. REQUIRES: on_highest() was called before.
  void on_reordered(TimePoint now, std::uint64_t sequence);

  [[nodiscard]] Duration reorder_threshold() const;
  /// The highest sequence that arrived longer than the threshold ago: what is missing at or below it is lost.
  [[nodiscard]] std::uint64_t loss_horizon(TimePoint now) const;
  /// When the highest sequence arrived.
  [[nodiscard]] TimePoint highest_at() const { return highest_at_; }

 private:
  struct Checkpoint {
    TimePoint at{};
    std::uint64_t highest = 0;
  };
  [[nodiscard]] const Checkpoint& checkpoint(std::uint64_t back) const {
    return checkpoints_[(checkpoints_made_ - back) % checkpoint_count];
  }
  [[nodiscard]] std::uint64_t checkpoints_kept() const;

  // The highest sequence at the newest checkpoint_count moments, which are 1/16 of the threshold apart.
  static constexpr std::size_t checkpoint_count = 64;
  std::array<Checkpoint, checkpoint_count> checkpoints_{};
  std::uint64_t checkpoints_made_ = 0;
  std::uint64_t highest_ = 0;
  TimePoint highest_at_{};
  bool data_ended_ = false;

  // The largest lateness in this period and in the one before.
  Duration round_trip_ = std::chrono::milliseconds(20);  // until the sender says what it is
  Duration lateness_{};
  Duration lateness_before_{};
  TimePoint period_end_{};
};

}  // namespace sluice::ftx
