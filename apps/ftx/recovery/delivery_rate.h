// SPDX-License-Identifier: Apache-2.0
#pragma once

// DeliveryRate: congestion control after BBR (draft-cardwell-iccrg-bbr-congestion-control).
//
// It paces at the highest delivery rate of the last ten round trips, probes above that rate one round in eight, and
// keeps about two bandwidth-delay products in flight. Loss does not change its rate. It leaves out two parts of BBR:
// PROBE_RTT (the minimum round trip never expires) and every reaction to loss. So it suits links of one's own.
//
// rate_meter.h measures the delivery rate. Reads no clock. Not thread-safe.

#include <array>
#include <cstdint>

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx {

class DeliveryRate final : public CongestionControl {
 public:
  /// `datagram_bytes` is the size of a full DATA datagram. REQUIRES: datagram_bytes > 0.
  explicit DeliveryRate(std::size_t datagram_bytes);

  void on_sent(TimePoint now, std::size_t bytes) override { pacer_.on_sent(now, bytes); }
  void on_report(TimePoint now, const Delivery& delivery) override;
  [[nodiscard]] std::uint64_t window_bytes() const override;
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }

  [[nodiscard]] std::uint64_t bandwidth() const;
  enum class State { startup, drain, cruise };
  [[nodiscard]] State state() const { return state_; }

 private:
  static constexpr std::size_t filter_rounds = 10;

  [[nodiscard]] std::uint64_t bandwidth_delay_bytes() const;
  void note_rate(const Delivery& delivery);
  void check_full_pipe();
  void advance_state(TimePoint now, const Delivery& delivery);
  [[nodiscard]] double gain() const;
  void set_pace();

  Pacer pacer_;
  std::size_t datagram_bytes_;
  State state_ = State::startup;
  Duration round_trip_min_ = Duration::max();

  // The highest rate of each of the last rounds; round `n` is at n % filter_rounds.
  std::array<std::uint64_t, filter_rounds> rates_{};
  std::uint64_t round_ = 0;
  bool round_has_rate_ = false;
  bool round_limited_ = false;

  std::uint64_t full_bandwidth_ = 0;
  int rounds_without_growth_ = 0;

  std::size_t cycle_ = 0;
  TimePoint cycle_since_{};
  TimePoint round_since_{};
};

}  // namespace sluice::ftx
