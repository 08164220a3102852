// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/have_announcer.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {

void HaveAnnouncer::add(const ByteRange& range) {
  SLUICE_REQUIRE(range.from < range.to && range.from >= end_);
  if (untold() && end_ == range.from) {
    ranges_.back().to = range.to;
  } else {
    SLUICE_REQUIRE(room() > 0);
    ranges_.push(range);
  }
  end_ = range.to;
}

bool HaveAnnouncer::on_taken(std::uint64_t to) {
  if (to > told_most_) {
    return false;
  }
  if (to <= taken_) {
    return true;
  }
  taken_ = to;
  told_ = std::max(told_, to);
  while (!ranges_.empty() && ranges_.front().to <= to) {
    ranges_.pop();
    told_ranges_ -= std::min<std::size_t>(told_ranges_, 1);
  }
  if (!ranges_.empty()) {
    ranges_.front().from = std::max(ranges_.front().from, to);
  }
  repeat_.acknowledged(told_ranges_ > 0);
  return true;
}

std::optional<Have> HaveAnnouncer::next(TimePoint now, Duration round_trip) {
  if (repeat_.take_due(now)) {
    told_ranges_ = 0;
    told_ = taken_;
  }
  if (!untold()) {
    return std::nullopt;
  }
  if (told_ranges_ == 0) {
    repeat_.lengthen(round_trip);
  }
  Have have;
  have.from = told_;
  while (untold() && have.range_count < Have::ranges_max) {
    have.ranges[have.range_count++] = ranges_[told_ranges_++];
  }
  have.to = told_ = have.ranges[have.range_count - 1].to;
  told_most_ = std::max(told_most_, told_);
  repeat_.start(now);
  return have;
}

}  // namespace sluice::ftx
