// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/receive_tracker.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::uint64_t word_mask = ReceiveTracker::window_sequences / 64 - 1;

}  // namespace

ReceiveTracker::ReceiveTracker() : bits_(window_sequences / 64) {}

std::uint64_t ReceiveTracker::oldest_remembered() const {
  // Entering a word clears all of it, so the oldest whole window starts one word later.
  return highest_ >= window_sequences ? highest_ - window_sequences + 64 : 1;
}

std::uint64_t ReceiveTracker::arrived_word(std::uint64_t sequence) const { return bits_[(sequence / 64) & word_mask]; }

ReceiveTracker::Arrival ReceiveTracker::classify(std::uint64_t sequence) const {
  if (sequence > highest_) {
    return Arrival::fresh;
  }
  if (sequence < first_known()) {
    return Arrival::too_old;
  }
  return arrived(sequence) ? Arrival::duplicate : Arrival::fresh;
}

void ReceiveTracker::mark(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t at = first; at <= last; at = (at / 64 + 1) * 64) {
    const std::uint64_t behind = last / 64 > at / 64 ? 0 : 63 - last % 64;
    bits_[(at / 64) & word_mask] |= ~std::uint64_t{0} << (at % 64) & ~std::uint64_t{0} >> behind;
  }
}

void ReceiveTracker::note_too_old(TimePoint now, std::uint64_t sequence) {
  if (sequence < oldest_remembered() || sequence >= floor_ || sequence > highest_ || arrived(sequence)) {
    return;
  }
  mark(sequence, sequence);
  ++out_of_order_;
  loss_detector_.on_reordered(now, sequence);
}

void ReceiveTracker::record(TimePoint now, const Stamp& stamp, std::uint64_t count) {
  SLUICE_REQUIRE(classify(stamp.sequence) == Arrival::fresh && count > 0 && (count == 1 || stamp.sequence > highest_));
  const std::uint64_t last = stamp.sequence + count - 1;
  if (stamp.round_trip_us != 0) {
    loss_detector_.set_round_trip(std::chrono::microseconds(stamp.round_trip_us));
  }
  if (stamp.sequence > highest_) {
    advance(now, stamp, last);
  } else {
    ++out_of_order_;
    loss_detector_.on_reordered(now, stamp.sequence);
  }
  mark(stamp.sequence, last);
  floor_ = std::max(floor_, stamp.sequence - stamp.behind);
}

/// From `stamp.sequence` to `last` at once. Of those the first decides whether the LossDetector remembers this moment.
void ReceiveTracker::advance(TimePoint now, const Stamp& stamp, std::uint64_t last) {
  const std::uint64_t last_word = last / 64;
  std::uint64_t word = highest_ / 64 + 1;
  // A jump past the whole window clears each word once; that bounds this loop.
  if (last_word > word + word_mask) {
    word = last_word - word_mask;
  }
  for (; word <= last_word; ++word) {
    bits_[word & word_mask] = 0;
  }
  highest_ = last;
  loss_detector_.on_highest(now, stamp.sequence);
  loss_detector_.on_highest(now, last);
}

bool ReceiveTracker::fill_missing(std::uint64_t from, std::uint64_t horizon, Report& report) const {
  SLUICE_REQUIRE(from >= first_known());
  report.from = from;
  report.range_count = 0;
  std::uint64_t sequence = from;
  while (sequence <= horizon) {
    const std::uint64_t absent = ~arrived_word(sequence) >> (sequence % 64);
    if ((absent & 1) == 0) {  // skips what arrived; the zero bits that the shift brought in end the word
      sequence += std::min<std::uint64_t>(static_cast<std::uint64_t>(std::countr_zero(absent)), 64 - sequence % 64);
      continue;
    }
    const auto run =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(std::countr_one(absent)), horizon - sequence + 1);
    SequenceRange* last = report.range_count > 0 ? &report.missing[report.range_count - 1] : nullptr;
    if (last != nullptr && last->first + last->count == sequence) {
      last->count += static_cast<std::uint32_t>(run);
    } else if (report.range_count == Report::ranges_max) {
      break;
    } else {
      report.missing[report.range_count++] = {sequence, static_cast<std::uint32_t>(run)};
    }
    sequence += run;
  }
  report.to = std::max(std::min(sequence - 1, horizon), from - 1);
  return sequence > horizon;
}

}  // namespace sluice::ftx
