// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/loss_detection.h"

#include <algorithm>
#include <utility>

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration threshold_min = milliseconds(1);
constexpr Duration threshold_initial_max = milliseconds(50);
constexpr Duration threshold_max = seconds(1);
constexpr Duration lateness_period = seconds(10);
// After as many datagrams the lateness of the path has been measured, if there is any.
constexpr std::uint64_t measured_after = 256;

}  // namespace

std::uint64_t LossDetector::checkpoints_kept() const {
  return std::min<std::uint64_t>(checkpoints_made_, checkpoint_count);
}

void LossDetector::on_highest(TimePoint now, std::uint64_t sequence) {
  highest_ = sequence;
  highest_at_ = now;
  if (checkpoints_made_ == 0 || now - checkpoint(1).at >= reorder_threshold() / 16) {
    checkpoints_[checkpoints_made_++ % checkpoint_count] = {now, sequence};
  }
}

void LossDetector::on_reordered(TimePoint now, std::uint64_t sequence) {
  TimePoint overtaken = highest_at_;
  for (std::uint64_t back = 1; back <= checkpoints_kept(); ++back) {
    if (checkpoint(back).highest < sequence) {
      break;
    }
    overtaken = checkpoint(back).at;
  }
  if (now >= period_end_) {
    lateness_before_ = std::exchange(lateness_, Duration{});
    period_end_ = now + lateness_period;
  }
  lateness_ = std::max(lateness_, now - overtaken);
}

Duration LossDetector::reorder_threshold() const {
  const bool known = data_ended_ && highest_ >= measured_after;
  const Duration initial = known ? Duration{} : std::min<Duration>(round_trip_ / 2, threshold_initial_max);
  const Duration measured = std::max(lateness_, lateness_before_) * 5 / 4;
  return std::clamp<Duration>(std::max(initial, measured), threshold_min, threshold_max);
}

std::uint64_t LossDetector::loss_horizon(TimePoint now) const {
  const TimePoint before = now - reorder_threshold();
  if (highest_at_ <= before) {
    return highest_;
  }
  for (std::uint64_t back = 1; back <= checkpoints_kept(); ++back) {
    if (checkpoint(back).at <= before) {
      return checkpoint(back).highest;
    }
  }
  return 0;
}

}  // namespace sluice::ftx
