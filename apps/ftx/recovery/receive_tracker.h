// SPDX-License-Identifier: Apache-2.0
#pragma once

// ReceiveTracker: which sequence numbers the receiver has seen, and which of them a report declares missing. Its
// LossDetector decides from when on a missing sequence counts as lost.
//
// Invariants: loss_horizon() <= highest(); bits exist for (highest - window_sequences, highest].
// Every call is O(1), except fill_missing(), which is linear in the sequences it covers / 64 plus the gaps it names,
// and record(), which is linear in the sequences that it records / 64. Not thread-safe.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/loss_detection.h"
#include "base/time.h"

namespace sluice::ftx {

class ReceiveTracker {
 public:
  static constexpr std::uint64_t window_sequences = 1U << 18;

  ReceiveTracker();

  enum class Arrival { fresh, duplicate, too_old };
  [[nodiscard]] Arrival classify(std::uint64_t sequence) const;

  /// Records that `count` datagrams arrived: that of `stamp`, and those behind it that carry the sequences behind its
  /// and are otherwise stamped alike. REQUIRES: classify() answers fresh; of several the first is above highest().
  void record(TimePoint now, const Stamp& stamp, std::uint64_t count = 1);
  /// A datagram came that classify() calls too old. If it has not been here before, it was declared lost too early: the
  /// reorder threshold learns from it. Otherwise a path whose reordering is longer than the threshold would have
  /// everything late sent again for ever, since the sender moves the floor past what a report declared lost.
  void note_too_old(TimePoint now, std::uint64_t sequence);

  /// All data has been sent once: what is missing is declared lost sooner (LossDetector).
  void end_of_data() { loss_detector_.end_of_data(); }

  [[nodiscard]] std::uint64_t highest() const { return highest_; }
  [[nodiscard]] TimePoint highest_at() const { return loss_detector_.highest_at(); }
  [[nodiscard]] std::uint64_t out_of_order() const { return out_of_order_; }
  [[nodiscard]] Duration reorder_threshold() const { return loss_detector_.reorder_threshold(); }
  /// The last sequence that a report may cover: what is missing at or below it is lost.
  [[nodiscard]] std::uint64_t loss_horizon(TimePoint now) const { return loss_detector_.loss_horizon(now); }

  /// The oldest sequence that the sender still needs reported.
  [[nodiscard]] std::uint64_t floor() const { return floor_; }
  /// The first sequence that a report can cover.
  [[nodiscard]] std::uint64_t first_known() const { return std::max(floor_, oldest_remembered()); }

  /// Fills from, to, missing and range_count of `report` for from..horizon, as far as the ranges fit. True when all
  /// did. REQUIRES: from >= first_known().
  bool fill_missing(std::uint64_t from, std::uint64_t horizon, Report& report) const;

 private:
  [[nodiscard]] std::uint64_t oldest_remembered() const;
  [[nodiscard]] std::uint64_t arrived_word(std::uint64_t sequence) const;
  [[nodiscard]] bool arrived(std::uint64_t sequence) const {
    return (arrived_word(sequence) >> (sequence % 64) & 1) != 0;
  }
  void mark(std::uint64_t first, std::uint64_t last);
  void advance(TimePoint now, const Stamp& stamp, std::uint64_t last);

  std::vector<std::uint64_t> bits_;
  std::uint64_t highest_ = 0;
  std::uint64_t floor_ = 1;
  std::uint64_t out_of_order_ = 0;
  LossDetector loss_detector_;
};

}  // namespace sluice::ftx
