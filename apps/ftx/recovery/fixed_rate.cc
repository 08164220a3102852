// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/fixed_rate.h"

namespace sluice::ftx {
namespace {

constexpr Duration interval = std::chrono::seconds(1);
constexpr int bad_intervals_max = 10;
constexpr std::uint64_t loss_divisor = 3;
constexpr std::uint64_t resolved_bytes_min = 64 << 10;  // less is no rate

}  // namespace

void FixedRate::on_report(TimePoint now, const Delivery& delivery) {
  lost_ += delivery.newly_lost_bytes;
  resolved_ += delivery.newly_resolved_bytes;
  if (now < second_ends_ || resolved_ < resolved_bytes_min) {
    return;
  }
  bad_seconds_ = lost_ * loss_divisor > resolved_ ? bad_seconds_ + 1 : 0;
  second_ends_ = now + interval;
  lost_ = 0;
  resolved_ = 0;
}

const char* FixedRate::tripped() const {
  return bad_seconds_ >= bad_intervals_max
             ? "more than a third is lost at this rate, ten seconds in a row: choose a lower --rate"
             : nullptr;
}

}  // namespace sluice::ftx
