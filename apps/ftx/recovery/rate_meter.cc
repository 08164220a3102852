// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/rate_meter.h"

#include <algorithm>

namespace sluice::ftx {
namespace {

constexpr double nanoseconds_per_second = 1e9;
constexpr double rate_max = 1e12;  // above any link: bounds what a receiver can claim

}  // namespace

std::optional<std::uint64_t> RateMeter::on_report(const Report& report, Duration span_min) {
  const bool forward = started_ && report.clock_ns > clock_ns_ && report.received_bytes >= bytes_;
  std::optional<std::uint64_t> rate;
  if (forward) {
    const std::uint64_t received_ns = report.clock_ns - clock_ns_;
    if (received_ns < static_cast<std::uint64_t>(span_min.count())) {
      return std::nullopt;
    }
    // A queue or an interrupt may deliver datagrams in a bunch, so the receiver's clock alone overstates the rate. They
    // did not arrive faster than they were sent.
    const std::uint64_t sent_ns = report.echo_ns > echo_ns_ ? report.echo_ns - echo_ns_ : 0;
    const auto span_ns = static_cast<double>(std::max(received_ns, sent_ns));
    const double bytes_per_second =
        static_cast<double>(report.received_bytes - bytes_) * nanoseconds_per_second / span_ns;
    rate = static_cast<std::uint64_t>(std::min(bytes_per_second, rate_max));
  } else if (started_) {
    return std::nullopt;
  }
  started_ = true;
  bytes_ = report.received_bytes;
  clock_ns_ = report.clock_ns;
  echo_ns_ = report.echo_ns;
  return rate;
}

}  // namespace sluice::ftx
