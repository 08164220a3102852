// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/present_ranges.h"

#include <algorithm>

namespace sluice::ftx {

bool PresentRanges::keep(const ByteRange& range) {
  if (!ranges_.empty() && ranges_.back().to == range.from) {
    ranges_.back().to = range.to;
    return true;
  }
  if (ranges_.size() == ranges_max_) {
    return false;
  }
  ranges_.push_back(range);
  return true;
}

std::uint64_t PresentRanges::end_at(std::uint64_t place) const {
  const auto behind = std::ranges::upper_bound(ranges_, place, {}, &ByteRange::from);
  return behind == ranges_.begin() ? place : std::max(place, (behind - 1)->to);
}

std::uint64_t PresentRanges::next_behind(std::uint64_t place) const {
  const auto behind = std::ranges::upper_bound(ranges_, place, {}, &ByteRange::from);
  return behind == ranges_.end() ? UINT64_MAX : behind->from;
}

}  // namespace sluice::ftx
