// SPDX-License-Identifier: Apache-2.0
#pragma once

// How fast to send. Congestion is the interface; two controls implement it:
//
//   FixedRate      what --rate asks for, whatever the network does.
//   DeliveryRate   after BBR (draft-cardwell-iccrg-bbr-congestion-control): paces at the highest delivery rate seen in
//                  the last ten round trips, probing above it one round in eight, and keeps about two
//                  bandwidth-delay products under way. Loss does not steer it. It leaves out of BBR: PROBE_RTT (the
//                  least round trip never expires) and any yielding to loss, so it is made for links of one's own.
//
// Both are fed by reports, a few a round trip; neither sees a clock. Not thread-safe.

#include <array>
#include <cstdint>
#include <optional>

#include "apps/ftx/message.h"
#include "base/time.h"

namespace sluice::ftx {

/// What one report told about the path.
struct Delivery {
  Duration round_trip{};              // zero: not measured
  std::optional<std::uint64_t> rate;  // bytes a second that arrived
  bool application_limited = false;   // the sender had less to send than it might have sent
  bool round_ended = false;           // what was sent after the last round's end is now being reported
  std::uint64_t in_flight_bytes = 0;
};

class Congestion {
 public:
  virtual ~Congestion() = default;
  virtual void on_sent(TimePoint now, std::size_t bytes) = 0;
  virtual void on_report(TimePoint now, const Delivery& delivery) = 0;
  /// Bytes that may be under way at once.
  [[nodiscard]] virtual std::uint64_t window_bytes() const = 0;
  /// When the pace allows the next datagram.
  [[nodiscard]] virtual TimePoint next_send() const = 0;
  /// Whether the pace would have allowed more than was sent: the program got no processor in time, or had nothing to
  /// send. What then arrives says what the program did, not what the path can do.
  [[nodiscard]] virtual bool behind(TimePoint now) const = 0;
};

/// Spaces datagrams at a rate, in bursts of up to `burst` of sending time so that a coarse timer does not slow it.
class Pacer {
 public:
  static constexpr Duration burst = std::chrono::milliseconds(2);

  void set_rate(std::uint64_t bytes_per_second) { rate_ = bytes_per_second; }
  [[nodiscard]] std::uint64_t rate() const { return rate_; }
  void on_sent(TimePoint now, std::size_t bytes);
  [[nodiscard]] TimePoint next_send() const { return due_ - burst; }
  [[nodiscard]] bool behind(TimePoint now) const { return now > due_; }

 private:
  std::uint64_t rate_ = 1;
  TimePoint due_{};
};

class FixedRate final : public Congestion {
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

class DeliveryRate final : public Congestion {
 public:
  /// `datagram_bytes` is what a full ADU weighs. REQUIRES: datagram_bytes > 0.
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

  // The highest rate of each of the last rounds, round `round_` at round_ % filter_rounds.
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

/// Turns cumulative reports into delivery rates, over spans long enough to mean something.
class RateMeter {
 public:
  /// Null until a span of at least `span_min` of the receiver's clock has passed since the last rate.
  std::optional<std::uint64_t> on_report(const Report& report, Duration span_min);

 private:
  bool started_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ns_ = 0;
  std::uint64_t echo_ns_ = 0;
};

}  // namespace sluice::ftx
