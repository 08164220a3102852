// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/arrivals.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t word_mask = Arrivals::window_sequences / 64 - 1;
constexpr Duration tolerance_min = milliseconds(1);
constexpr Duration tolerance_first_max = milliseconds(50);
constexpr Duration tolerance_max = seconds(1);
constexpr Duration lateness_period = seconds(10);

}  // namespace

Arrivals::Arrivals() : bits_(window_sequences / 64) {}

std::uint64_t Arrivals::first_known() const {
  // The word that holds `highest` was cleared when it was entered, so the oldest whole window starts one word later.
  const std::uint64_t oldest = highest_ >= window_sequences ? highest_ - window_sequences + 64 : 1;
  return std::max(floor_, oldest);
}

std::uint64_t Arrivals::arrived_word(std::uint64_t sequence) const { return bits_[(sequence / 64) & word_mask]; }

Arrivals::Verdict Arrivals::look(std::uint64_t sequence) const {
  if (sequence > highest_) return Verdict::fresh;
  if (sequence < first_known()) return Verdict::too_old;
  return (arrived_word(sequence) >> (sequence % 64) & 1) != 0 ? Verdict::duplicate : Verdict::fresh;
}

void Arrivals::record(TimePoint now, const Stamp& stamp) {
  SLUICE_REQUIRE(look(stamp.sequence) == Verdict::fresh);
  if (stamp.round_trip_us != 0) round_trip_ = microseconds(stamp.round_trip_us);
  if (stamp.sequence > highest_) {
    advance_to(now, stamp);
  } else {
    ++out_of_order_;
    note_lateness(now, stamp.sequence);
  }
  bits_[(stamp.sequence / 64) & word_mask] |= std::uint64_t{1} << (stamp.sequence % 64);
  floor_ = std::max(floor_, stamp.sequence - stamp.behind);
}

void Arrivals::advance_to(TimePoint now, const Stamp& stamp) {
  const std::uint64_t last_word = stamp.sequence / 64;
  std::uint64_t word = highest_ / 64 + 1;
  // A jump past the whole window clears each word once, not more: the bound of this loop.
  if (last_word > word + word_mask) word = last_word - word_mask;
  for (; word <= last_word; ++word) bits_[word & word_mask] = 0;
  highest_ = stamp.sequence;
  highest_at_ = now;
  highest_sent_at_ns_ = stamp.sent_at_ns;
  const Checkpoint& newest = checkpoints_[(checkpoints_made_ + checkpoint_count - 1) % checkpoint_count];
  if (checkpoints_made_ == 0 || now - newest.at >= tolerance() / 16) {
    checkpoints_[checkpoints_made_++ % checkpoint_count] = {now, highest_};
  }
}

void Arrivals::note_lateness(TimePoint now, std::uint64_t sequence) {
  TimePoint overtaken = highest_at_;
  const std::uint64_t kept = std::min<std::uint64_t>(checkpoints_made_, checkpoint_count);
  for (std::uint64_t back = 1; back <= kept; ++back) {
    const Checkpoint& checkpoint = checkpoints_[(checkpoints_made_ - back) % checkpoint_count];
    if (checkpoint.highest < sequence) break;
    overtaken = checkpoint.at;
  }
  if (now >= period_end_) {
    lateness_before_ = std::exchange(lateness_, Duration{});
    period_end_ = now + lateness_period;
  }
  lateness_ = std::max(lateness_, now - overtaken);
}

Duration Arrivals::tolerance() const {
  const Duration first = std::min<Duration>(round_trip_ / 2, tolerance_first_max);
  const Duration measured = std::max(lateness_, lateness_before_) * 5 / 4;
  return std::clamp<Duration>(std::max(first, measured), tolerance_min, tolerance_max);
}

std::uint64_t Arrivals::settled(TimePoint now) const {
  const TimePoint horizon = now - tolerance();
  if (highest_at_ <= horizon) return highest_;
  const std::uint64_t kept = std::min<std::uint64_t>(checkpoints_made_, checkpoint_count);
  for (std::uint64_t back = 1; back <= kept; ++back) {
    const Checkpoint& checkpoint = checkpoints_[(checkpoints_made_ - back) % checkpoint_count];
    if (checkpoint.at <= horizon) return checkpoint.highest;
  }
  return 0;
}

bool Arrivals::lacking(std::uint64_t from, std::uint64_t settled, Report& report) const {
  SLUICE_REQUIRE(from >= first_known());
  report.from = from;
  report.range_count = 0;
  std::uint64_t sequence = from;
  while (sequence <= settled) {
    const std::uint64_t absent = ~arrived_word(sequence) >> (sequence % 64);
    if ((absent & 1) == 0) {  // skip what arrived; zero bits shifted in from above end the word
      sequence += std::min<std::uint64_t>(static_cast<std::uint64_t>(std::countr_zero(absent)), 64 - sequence % 64);
      continue;
    }
    const auto run =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(std::countr_one(absent)), settled - sequence + 1);
    SequenceRange* last = report.range_count > 0 ? &report.lacking[report.range_count - 1] : nullptr;
    if (last != nullptr && last->first + last->count == sequence) {
      last->count += static_cast<std::uint32_t>(run);
    } else if (report.range_count == Report::ranges_max) {
      break;
    } else {
      report.lacking[report.range_count++] = {sequence, static_cast<std::uint32_t>(run)};
    }
    sequence += run;
  }
  report.to = std::max(std::min(sequence - 1, settled), from - 1);
  return sequence > settled;
}

}  // namespace sluice::ftx
