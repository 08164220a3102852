// SPDX-License-Identifier: Apache-2.0
#pragma once

// Congestion control: how fast to send, and how many bytes may be in flight. CongestionControl is the interface. Two
// controls implement it:
//
//   FixedRate      (here) sends at the rate that --rate asks for and ignores what the network reports.
//   DeliveryRate   (delivery_rate.h) follows the delivery rate that the receiver reports.
//
// The sender feeds a control a few reports a round trip. A control reads no clock. Not thread-safe.

#include <cstdint>
#include <optional>

#include "apps/ftx/recovery/pacing.h"
#include "base/time.h"

namespace sluice::ftx {

/// What one report says about the network path.
struct Delivery {
  Duration round_trip{};              // zero: not measured
  std::optional<std::uint64_t> rate;  // bytes a second that arrived
  bool application_limited = false;   // the sender sent less than the control allowed
  bool round_ended = false;           // the report covers a datagram that was sent after the last round ended
  std::uint64_t in_flight_bytes = 0;
};

class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  virtual void on_sent(TimePoint now, std::size_t bytes) = 0;
  virtual void on_report(TimePoint now, const Delivery& delivery) = 0;
  /// Bytes that may be in flight.
  [[nodiscard]] virtual std::uint64_t window_bytes() const = 0;
  /// When the pacer allows the next datagram.
  [[nodiscard]] virtual TimePoint next_send() const = 0;
  /// True when the program sent less than the pacer allowed: it got no processor in time, or had nothing to send. The
  /// delivery rate then measures the program and not the network.
  [[nodiscard]] virtual bool behind(TimePoint now) const = 0;
};

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
