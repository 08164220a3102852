// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/tcp_scoreboard.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::tcp {

void Scoreboard::sent(Range range, TimePoint now) {
  SLUICE_REQUIRE(sent_.empty() || sent_.back().range.end == range.begin);
  sent_.push_back({.range = range, .at = now});
  under_way_ += range.size();
}

std::optional<Range> Scoreboard::first_lost() const {
  if (lost_count_ == 0) {
    return std::nullopt;
  }
  return std::ranges::find(sent_, Sent::State::lost, &Sent::state)->range;
}

std::deque<Scoreboard::Sent>::iterator Scoreboard::first_from(Position position) {
  return std::ranges::lower_bound(sent_, position, {}, [](const Sent& one) { return one.range.begin; });
}

void Scoreboard::sent_again(Range range, TimePoint now) {
  const auto segment = first_from(range.begin);
  SLUICE_REQUIRE(segment != sent_.end() && segment->range.begin == range.begin && segment->state == Sent::State::lost);
  if (range.end < segment->range.end) {
    Sent rest = *segment;
    rest.range.begin = range.end;
    segment->range.end = range.end;
    ++lost_count_;
    again_count_ += rest.again ? 1U : 0U;
    sent_.insert(segment + 1, rest);
    return sent_again(range, now);
  }
  --lost_count_;
  again_count_ += segment->again ? 0U : 1U;
  under_way_ += segment->range.size();
  *segment = {.range = segment->range, .at = now, .state = Sent::State::under_way, .again = true};
}

void Scoreboard::front_sent_again(Range range, TimePoint now) {
  mark_lost(sent_.front());
  if (sent_.front().state == Sent::State::lost) {
    sent_again(range, now);
  }
}

void Scoreboard::mark_lost(Sent& segment) {
  if (segment.state == Sent::State::under_way) {
    segment.state = Sent::State::lost;
    under_way_ -= segment.range.size();
    ++lost_count_;
  }
}

/// RFC 8985 section 6.2, step 2: a segment that was sent again and is acknowledged sooner than the least round trip
/// allows was acknowledged as it was sent first; step 3: what arrives behind something that had left later shows that
/// the path reorders.
void Scoreboard::arrived(Sent& segment, TimePoint now, Progress& progress) {
  if (segment.state == Sent::State::arrived) {
    return;
  }
  under_way_ -= segment.state == Sent::State::under_way ? segment.range.size() : 0;
  lost_count_ -= segment.state == Sent::State::lost ? 1U : 0U;
  progress.bytes += segment.range.size();
  const Duration round_trip = now - segment.at;
  if (!segment.again) {
    progress.round_trip = round_trip;
    reordering_seen_ = reordering_seen_ || segment.range.end < highest_arrived_;
  }
  highest_arrived_ = std::max(highest_arrived_, segment.range.end);
  if (later(segment.at, segment.range.end, {.range = {0, newest_end_}, .at = newest_at_}) &&
      (!segment.again || round_trip >= newest_round_trip_)) {
    newest_at_ = segment.at;
    newest_end_ = segment.range.end;
    newest_round_trip_ = round_trip;
  }
  segment.state = Sent::State::arrived;
}

Scoreboard::Progress Scoreboard::acknowledged(Position position, std::span<const Range> runs, TimePoint now) {
  Progress progress;
  bool ambiguous = false;
  while (!sent_.empty() && sent_.front().range.end <= position) {
    Sent& first = sent_.front();
    ambiguous = ambiguous || first.again;
    arrived_count_ -= first.state == Sent::State::arrived ? 1U : 0U;
    again_count_ -= first.again ? 1U : 0U;
    arrived(first, now, progress);
    sent_.pop_front();
  }
  if (!sent_.empty() && sent_.front().range.begin < position) {
    Sent& first = sent_.front();
    const std::uint64_t part = position - first.range.begin;
    progress.bytes += first.state == Sent::State::arrived ? 0 : part;
    under_way_ -= first.state == Sent::State::under_way ? part : 0;
    first.range.begin = position;
  }
  if (ambiguous) {
    progress.round_trip.reset();  // what lies behind a gap arrived when nobody knows
  }
  duplicates_ = progress.bytes > 0 ? 0 : duplicates_;
  for (const Range& run : runs) {
    for (auto segment = first_from(run.begin); segment != sent_.end() && segment->range.end <= run.end; ++segment) {
      arrived_count_ += segment->state == Sent::State::arrived ? 0U : 1U;
      arrived(*segment, now, progress);
    }
  }
  return progress;
}

bool Scoreboard::duplicate() {
  if (sent_.empty() || ++duplicates_ != duplicates_max) {
    return false;
  }
  mark_lost(sent_.front());
  return true;
}

/// RFC 8985 section 6.2, steps 4 and 5. While nothing has been seen out of order, and three segments have arrived
/// behind a gap or the gap is being repaired, there is no time to wait; else a quarter of the least round trip. What
/// left in this very instant nobody has missed yet: where a round trip takes no time, each acknowledgement would else
/// send all of it once more.
std::optional<TimePoint> Scoreboard::detect_losses(TimePoint now, Duration least_round_trip,
                                                   Duration smoothed_round_trip, bool recovering, bool& lost) {
  if (arrived_count_ == 0 && again_count_ == 0) {
    return std::nullopt;
  }
  const bool at_once = !reordering_seen_ && (recovering || arrived_count_ >= duplicates_max);
  const Duration patience = at_once || least_round_trip == Duration::max()
                                ? Duration::zero()
                                : std::min(least_round_trip / 4, smoothed_round_trip);
  std::optional<TimePoint> next;
  for (Sent& segment : sent_) {
    if (segment.state != Sent::State::under_way || !later(newest_at_, newest_end_, segment)) {
      continue;
    }
    const TimePoint lost_at = segment.at + std::max(newest_round_trip_ + patience, Duration(1));
    if (lost_at <= now) {
      mark_lost(segment);
      lost = true;
    } else {
      next = std::max(next.value_or(lost_at), lost_at);
    }
  }
  return next;
}

void Scoreboard::lost_above(std::uint64_t bytes) {
  for (Sent& segment : sent_) {
    if (segment.range.size() > bytes) {
      mark_lost(segment);
    }
  }
}

void Scoreboard::all_lost() {
  const bool reneged = !sent_.empty() && sent_.front().state == Sent::State::arrived;
  for (Sent& segment : sent_) {
    if (reneged && segment.state == Sent::State::arrived) {
      segment.state = Sent::State::under_way;
      under_way_ += segment.range.size();
      --arrived_count_;
    }
    mark_lost(segment);
  }
  duplicates_ = 0;
}

}  // namespace sluice::tcp
