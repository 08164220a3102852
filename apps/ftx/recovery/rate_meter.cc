// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/rate_meter.h"

#include <algorithm>
#include <utility>

namespace sluice::ftx {
namespace {

constexpr double nanoseconds_per_second = 1e9;
constexpr double rate_max = 1e12;  // above any link: bounds what a receiver can claim

}  // namespace

std::optional<std::uint64_t> RateMeter::on_report(const Report& report, TimePoint sent_at, Duration span_min) {
  const bool forward = started_ && report.clock_ns > clock_ns_ && report.received_bytes >= bytes_;
  if (started_ && !forward) {
    return std::nullopt;
  }
  std::optional<std::uint64_t> measured;
  if (forward) {
    so_far_ = rate(report, sent_at, span_min);
    if (report.clock_ns - clock_ns_ < static_cast<std::uint64_t>(span_min.count())) {
      return std::nullopt;
    }
    measured = std::exchange(so_far_, 0);
  }
  started_ = true;
  bytes_ = report.received_bytes;
  clock_ns_ = report.clock_ns;
  sent_at_ = sent_at;
  return measured;
}

/// A queue or an interrupt may deliver datagrams in a bunch, so the receiver's clock alone overstates the rate. They
/// did not arrive faster than they were sent.
std::uint64_t RateMeter::rate(const Report& report, TimePoint sent_at, Duration span_min) const {
  const auto received_ns = static_cast<double>(report.clock_ns - clock_ns_);
  const auto sent_ns = static_cast<double>(std::max(sent_at - sent_at_, span_min).count());
  const double span_ns = std::max(received_ns, sent_ns);
  const double bytes_per_second =
      static_cast<double>(report.received_bytes - bytes_) * nanoseconds_per_second / span_ns;
  return static_cast<std::uint64_t>(std::min(bytes_per_second, rate_max));
}

}  // namespace sluice::ftx
