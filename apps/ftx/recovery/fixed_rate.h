// SPDX-License-Identifier: Apache-2.0
#pragma once

// FixedRate: sends at the rate that --rate asks for, whatever the network does, with a circuit breaker (RFC 8084, RFC
// 8085 section 3.1.10): when more than a third of what it sends is lost, ten seconds in a row, it trips, and the sender
// must give up. A rate that a path loses so much of is not the path's, and takes from all others there.
//
// Reads no clock. Not thread-safe.

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx {

class FixedRate final : public CongestionControl {
 public:
  /// REQUIRES: bytes_per_second > 0.
  explicit FixedRate(std::uint64_t bytes_per_second) { pacer_.set_rate(bytes_per_second); }

  [[nodiscard]] std::string_view name() const override { return "fixed rate"; }
  void on_sent(TimePoint now, std::size_t bytes) override { pacer_.on_sent(now, bytes); }
  void on_report(TimePoint now, const Delivery& delivery) override;
  [[nodiscard]] std::uint64_t window_bytes() const override { return UINT64_MAX; }
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }
  [[nodiscard]] const char* tripped() const override;

 private:
  Pacer pacer_;
  TimePoint second_ends_{};
  std::uint64_t lost_ = 0;  // in this second
  std::uint64_t resolved_ = 0;
  int bad_seconds_ = 0;
};

}  // namespace sluice::ftx
