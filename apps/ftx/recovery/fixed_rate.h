// SPDX-License-Identifier: Apache-2.0
#pragma once

// FixedRate: sends at the rate that --rate asks for. Not thread-safe.

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx {

class FixedRate final : public CongestionControl {
 public:
  /// REQUIRES: bytes_per_second > 0.
  explicit FixedRate(std::uint64_t bytes_per_second) { pacer_.set_rate(bytes_per_second); }

  void on_sent(TimePoint now, std::size_t bytes) override { pacer_.on_sent(now, bytes); }
  void on_report(TimePoint, const Delivery&) override {}
  [[nodiscard]] std::uint64_t window_bytes() const override { return UINT64_MAX; }
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }

 private:
  Pacer pacer_;
};

}  // namespace sluice::ftx
