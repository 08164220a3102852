// SPDX-License-Identifier: Apache-2.0
#pragma once

// The receiver's memory of sequence numbers: what arrived, what is late, and what has been missing for so long that it
// is called lacking.
//
// A sequence is never used twice (a repair has its own), so an arrival below the highest is reordering and nothing
// else, and how late it is can be measured. That measurement is the tolerance: a sequence is lacking when a higher one
// arrived longer ago than `tolerance`. So a link that reorders costs patience, not repairs.
//
// Invariants: settled() <= highest(); bits exist for (highest - window_sequences, highest].
// Every call is O(1), except lacking(), which is linear in the sequences it covers / 64 plus the gaps it names.
// Not thread-safe.

#include <array>
#include <cstdint>
#include <vector>

#include "apps/ftx/message.h"
#include "base/time.h"

namespace sluice::ftx {

class Arrivals {
 public:
  static constexpr std::uint64_t window_sequences = 1U << 18;

  Arrivals();

  enum class Verdict { fresh, duplicate, too_old };
  [[nodiscard]] Verdict look(std::uint64_t sequence) const;

  /// Notes that `stamp.sequence` arrived. REQUIRES: look() says fresh.
  void record(TimePoint now, const Stamp& stamp);

  [[nodiscard]] std::uint64_t highest() const { return highest_; }
  [[nodiscard]] TimePoint highest_at() const { return highest_at_; }
  [[nodiscard]] std::uint64_t highest_sent_at_ns() const { return highest_sent_at_ns_; }
  [[nodiscard]] std::uint64_t out_of_order() const { return out_of_order_; }
  [[nodiscard]] Duration tolerance() const;

  /// The lowest sequence that the sender still asks about.
  [[nodiscard]] std::uint64_t floor() const { return floor_; }

  /// The last sequence about which everything is known: below or at it, what did not arrive is lacking.
  [[nodiscard]] std::uint64_t settled(TimePoint now) const;

  /// Fills from, to, lacking and range_count for from..settled, as far as the ranges fit. True when they all did.
  /// REQUIRES: from >= first_known().
  bool lacking(std::uint64_t from, std::uint64_t settled, Report& report) const;

  /// The first sequence a report can speak of.
  [[nodiscard]] std::uint64_t first_known() const;

 private:
  struct Checkpoint {
    TimePoint at{};
    std::uint64_t highest = 0;
  };

  [[nodiscard]] std::uint64_t arrived_word(std::uint64_t sequence) const;
  void advance_to(TimePoint now, const Stamp& stamp);
  void note_lateness(TimePoint now, std::uint64_t sequence);

  std::vector<std::uint64_t> bits_;
  std::uint64_t highest_ = 0;
  std::uint64_t floor_ = 1;
  std::uint64_t highest_sent_at_ns_ = 0;
  TimePoint highest_at_{};
  std::uint64_t out_of_order_ = 0;

  // When the highest sequence was what: the newest checkpoint_count moments, a fraction of the tolerance apart.
  static constexpr std::size_t checkpoint_count = 64;
  std::array<Checkpoint, checkpoint_count> checkpoints_{};
  std::uint64_t checkpoints_made_ = 0;

  // The largest lateness seen in this period and in the one before.
  Duration round_trip_{};
  Duration lateness_{};
  Duration lateness_before_{};
  TimePoint period_end_{};
};

}  // namespace sluice::ftx
