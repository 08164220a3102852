// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ledbat: congestion control that yields, after LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01; base: RFC 6817).
//
// It keeps the delay that it adds to the path below a target of 60 ms, or half the round trip where that is less: a
// queue that TCP fills is above that, so that it gives way. Where nobody else sends it fills the link. `--background`
// uses it.
//
//   - It measures the queue by the round trip, not by the delay one way (section 4.5), so it needs no clocks in step.
//   - Its gain is that of a Reno flow divided by up to 16 (section 4.2), so a short base delay does not favour it.
//   - Above the target it decreases in proportion to the excess, by half at most (section 4.3).
//   - Slow start ends at three quarters of the target (section 4.1).
//   - After slow start, and then so that it costs a tenth of the time, it holds two datagrams for two round trips
//     (section 4.4): the queue of its own drains and the base delay is measured, so several do not add up.
//
// The target differs from the draft's 60 ms where the round trip is short: in a queue that holds less than 60 ms such a
// flow would never yield.
//
// Reads no clock. Not thread-safe.

#include <array>
#include <cstdint>

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx {

class Ledbat final : public CongestionControl {
 public:
  /// `datagram_bytes` is the size of a full DATA datagram. REQUIRES: datagram_bytes > 0.
  explicit Ledbat(std::size_t datagram_bytes);

  void on_first_round_trip(Duration round_trip) override { set_pace(round_trip); }
  [[nodiscard]] std::string_view name() const override { return "background"; }
  void on_sent(TimePoint now, std::size_t bytes) override { pacer_.on_sent(now, bytes); }
  void on_report(TimePoint now, const Delivery& delivery) override;
  [[nodiscard]] std::uint64_t window_bytes() const override;
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }

  enum class State { slow_start, avoidance, slowdown };
  [[nodiscard]] State state() const { return state_; }
  /// The congestion window in datagrams.
  [[nodiscard]] double window() const { return window_; }

 private:
  void note_base_delay(TimePoint now, Duration round_trip);
  [[nodiscard]] Duration base_delay() const;
  [[nodiscard]] Duration target() const;
  [[nodiscard]] double gain() const;
  void end_slow_start(TimePoint now);
  void grow(TimePoint now, const Delivery& delivery);
  void check_slowdown(TimePoint now);
  void set_pace(Duration round_trip);

  const double datagram_;
  Pacer pacer_;
  State state_ = State::slow_start;
  double window_;  // in datagrams
  double slow_start_threshold_;
  Duration round_trip_{};  // smoothed
  std::uint64_t recovery_until_ = 0;

  // The lowest delay of each of the last minutes.
  static constexpr std::size_t base_minutes = 10;
  std::array<Duration, base_minutes> base_{};
  std::size_t base_count_ = 0;
  TimePoint minute_ends_{};
  // The lowest of the newest samples: one late report is no queue.
  std::array<Duration, 4> newest_{};
  std::size_t newest_count_ = 0;

  TimePoint slowdown_at_ = never;  // when the next begins
  TimePoint slowdown_until_{};     // when this one ends
  TimePoint slowdown_began_{};
};

}  // namespace sluice::ftx
