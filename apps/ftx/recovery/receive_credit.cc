// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/receive_credit.h"

#include <algorithm>
#include <utility>

namespace sluice::ftx {
namespace {

constexpr Duration span_min = std::chrono::milliseconds(1);
// Bounds what a wrong clock at the other end can make of the product.
constexpr double network_bytes_max = 1e12;

}  // namespace

void ReceiveCredit::on_report(const Report& report, TimePoint sent_at, Duration round_trip) {
  credit_bytes_ = report.credit_bytes;
  if (round_trip > Duration{}) {
    round_trip_min_ = std::min(round_trip_min_, round_trip);
  }
  const Duration span = round_trip_min_ == Duration::max() ? span_min : std::max(round_trip_min_, span_min);
  if (const auto rate = meter_.on_report(report, sent_at, span)) {
    rate_before_ = std::exchange(rate_, *rate);
  }
}

std::uint64_t ReceiveCredit::window_bytes() const {
  if (round_trip_min_ == Duration::max()) {
    return credit_bytes_;
  }
  const double seconds = std::chrono::duration<double>(round_trip_min_).count();
  const double network = 2 * static_cast<double>(std::max({rate_, rate_before_, meter_.so_far()})) * seconds;
  return credit_bytes_ + static_cast<std::uint64_t>(std::min(network, network_bytes_max));
}

}  // namespace sluice::ftx
