// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cubic: congestion control after RFC 9438 (CUBIC), with the slow start of RFC 9406 (HyStart++), paced.
//
// A loss makes the window 0.7 of what it was, once a round trip; then it grows along a cubic curve back to where the
// loss was, and beyond. On a path that loses at random it is slow, as TCP is; --congestion cubic is for links where all
// others are TCP and loss means congestion.
//
// Reports come a few times a round trip, so HyStart++ takes two round-trip samples a round for enough (RFC 9406 has
// N_RTT_SAMPLE = 8, of as many acknowledgements as packets), and the window is one report interval larger than CUBIC's:
// that is how old what is known to be in flight may be.
//
// Reads no clock. Not thread-safe.

#include <cstdint>

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx {

class Cubic final : public CongestionControl {
 public:
  /// `datagram_bytes` is the size of a full DATA datagram. REQUIRES: datagram_bytes > 0.
  explicit Cubic(std::size_t datagram_bytes);

  void on_first_round_trip(Duration round_trip) override;
  [[nodiscard]] std::string_view name() const override { return "cubic"; }
  void on_sent(TimePoint now, std::size_t bytes) override { pacer_.on_sent(now, bytes); }
  void on_report(TimePoint now, const Delivery& delivery) override;
  [[nodiscard]] std::uint64_t window_bytes() const override;
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }

  enum class State { slow_start, conservative_slow_start, avoidance };
  [[nodiscard]] State state() const { return state_; }
  /// The congestion window in datagrams.
  [[nodiscard]] double window() const { return window_; }

 private:
  void on_loss(TimePoint now, const Delivery& delivery);
  void grow(TimePoint now, const Delivery& delivery);
  void slow_start(const Delivery& delivery, double acked);
  void avoid(TimePoint now, Duration round_trip, double acked);
  void begin_epoch(TimePoint now);
  void end_round();
  void set_pace(Duration round_trip);

  const double datagram_;
  Pacer pacer_;
  State state_ = State::slow_start;
  double window_;  // (cwnd), in segments, that is in datagrams
  double slow_start_threshold_;
  Duration round_trip_{};  // smoothed

  std::uint64_t next_round_delivered_ = 0;
  std::uint64_t recovery_until_ = 0;  // losses of what was sent before this much was delivered are of one event

  // RFC 9438
  double window_max_ = 0;    // (W_max)
  double window_prior_ = 0;  // (cwnd_prior)
  double window_epoch_ = 0;  // (cwnd_epoch)
  double window_reno_ = 0;   // (W_est)
  double k_seconds_ = 0;
  TimePoint epoch_at_{};
  bool in_epoch_ = false;

  // RFC 9406
  Duration last_round_rtt_ = Duration::max();
  Duration round_rtt_ = Duration::max();
  Duration baseline_rtt_ = Duration::max();
  int round_samples_ = 0;
  int conservative_rounds_ = 0;
};

}  // namespace sluice::ftx
