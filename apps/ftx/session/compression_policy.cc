// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/compression_policy.h"

namespace sluice::ftx {
namespace {

// Parts of a new sample in what is believed.
constexpr double ratio_part = 1.0 / 8;
constexpr double cost_rise_part = 1.0 / 8;
constexpr double rate_fall_part = 1.0 / 16;
constexpr double smaller = 15.0 / 16;  // what is worth a second look

}  // namespace

void CompressionPolicy::on_delivery(std::uint64_t rate, bool application_limited) {
  if (rate == 0) {
    return;
  }
  reports_left_ = application_limited && reports_left_ > 0 ? reports_left_ - 1 : 0;
  const double byte_ns = 1e9 / static_cast<double>(rate);
  if (byte_ns_ == 0 || byte_ns < byte_ns_) {
    byte_ns_ = byte_ns;
  } else if (!application_limited) {
    byte_ns_ += (byte_ns - byte_ns_) * rate_fall_part;
  }
}

void CompressionPolicy::on_new_file() {
  interval_ = try_bytes_min;
  until_try_ = hopeful() ? 0 : until_try_;
}

bool CompressionPolicy::compresses() const {
  if (mode_ != Compress::when_it_pays) {
    return mode_ == Compress::always;
  }
  if (byte_ns_ == 0 || reports_left_ > 0) {
    return false;
  }
  return pays() ? !hurried_ || has_time() : until_try_ == 0;
}

/// A cost that rises is believed slowly, and not how far: the processor may have done something else meanwhile.
void CompressionPolicy::on_compressed(std::size_t content_bytes, std::size_t payload_bytes, Duration cost) {
  const auto content = static_cast<double>(content_bytes);
  const double cost_ns = static_cast<double>(cost.count()) / content;
  const double kept = static_cast<double>(payload_bytes) / content;
  cost_ns_ = !tried_ || cost_ns < cost_ns_ ? cost_ns
                                           : cost_ns_ + (std::min(cost_ns, 2 * cost_ns_) - cost_ns_) * cost_rise_part;
  kept_ = tried_ ? kept_ + (kept - kept_) * ratio_part : kept;
  tried_ = true;
  if (pays()) {
    interval_ = try_bytes_min;
    try_adus_left_ = try_adus;
    return;
  }
  if (kept < smaller && --try_adus_left_ > 0) {
    return;
  }
  try_adus_left_ = try_adus;
  until_try_ = hopeful() ? interval_ : try_bytes_hopeless;
  interval_ = std::min(interval_ * 2, try_bytes_max);
}

}  // namespace sluice::ftx
