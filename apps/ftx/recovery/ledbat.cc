// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/ledbat.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr double initial_window = 2;
constexpr double window_min = 2;
constexpr double window_max = 1U << 20;
constexpr Duration target_max = milliseconds(60);
constexpr Duration target_min = milliseconds(1);
constexpr double gain_divisor_max = 16;
constexpr double decrease_constant = 1;
constexpr double slow_start_exit = 0.75;  // of the target
constexpr double slowdown_share = 9;      // the next slowdown comes after nine times what this one took
constexpr double pacing_gain = 1.25;
constexpr Duration round_trip_unmeasured = milliseconds(10);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Ledbat::Ledbat(std::size_t datagram_bytes)
    : datagram_(static_cast<double>(datagram_bytes)),
      window_(initial_window),
      slow_start_threshold_(std::numeric_limits<double>::infinity()) {
  SLUICE_REQUIRE(datagram_bytes > 0);
  base_.fill(Duration::max());
  newest_.fill(Duration::max());
  set_pace(round_trip_unmeasured);
}

std::uint64_t Ledbat::window_bytes() const {
  const double interval = round_trip_ > Duration{} ? seconds(report_interval(round_trip_)) / seconds(round_trip_) : 0;
  return static_cast<std::uint64_t>(window_ * datagram_ * (1 + std::min(interval, 1.0)));
}

Duration Ledbat::base_delay() const { return *std::ranges::min_element(base_); }

Duration Ledbat::target() const { return std::clamp<Duration>(base_delay() / 2, target_min, target_max); }

/// Section 4.2: one over 2 * target / base delay, rounded up, and 16 at most.
double Ledbat::gain() const {
  return 1 / std::clamp(std::ceil(2 * seconds(target()) / seconds(base_delay())), 1.0, gain_divisor_max);
}

void Ledbat::note_base_delay(TimePoint now, Duration round_trip) {
  if (now >= minute_ends_) {
    minute_ends_ = now + minutes(1);
    base_[++base_count_ % base_minutes] = round_trip;
  }
  Duration& lowest = base_[base_count_ % base_minutes];
  lowest = std::min(lowest, round_trip);
  newest_[newest_count_++ % newest_.size()] = round_trip;
}

void Ledbat::on_report(TimePoint now, const Delivery& delivery) {
  if (delivery.round_trip > Duration{}) {
    round_trip_ = std::max<Duration>(delivery.smoothed_round_trip, Duration{1});
    note_base_delay(now, delivery.round_trip);
  }
  if (base_delay() == Duration::max()) {
    return;
  }
  check_slowdown(now);
  if (delivery.newest_lost && delivery.newest_lost->delivered_bytes >= recovery_until_) {
    // RFC 6817 section 2.4.2: loss halves the window, once a round trip, down to two datagrams.
    recovery_until_ = delivery.delivered_bytes;
    window_ = std::max(window_ / 2, window_min);
    if (state_ == State::slow_start) {
      end_slow_start(now);
    }
  } else if (delivery.newly_delivered_bytes > 0 && state_ != State::slowdown) {
    grow(now, delivery);
  }
  set_pace(round_trip_);
}

void Ledbat::end_slow_start(TimePoint now) {
  state_ = State::avoidance;
  slow_start_threshold_ = window_;
  if (slowdown_at_ == never) {
    // Section 4.4: the first comes two round trips after slow start.
    slowdown_at_ = now + 2 * round_trip_;
    slowdown_began_ = now;
  } else if (slowdown_until_ != TimePoint{}) {
    slowdown_at_ =
        now +
        Duration(static_cast<Duration::rep>(slowdown_share * static_cast<double>((now - slowdown_began_).count())));
    slowdown_until_ = {};
  }
}

/// Holds two datagrams for two round trips, then slow start to what the window was.
void Ledbat::check_slowdown(TimePoint now) {
  if (state_ == State::avoidance && now >= slowdown_at_) {
    slow_start_threshold_ = window_;
    window_ = window_min;
    state_ = State::slowdown;
    slowdown_began_ = now;
    slowdown_until_ = now + 2 * round_trip_;
  } else if (state_ == State::slowdown && now >= slowdown_until_) {
    state_ = State::slow_start;
  }
}

void Ledbat::grow(TimePoint now, const Delivery& delivery) {
  const double acked = static_cast<double>(delivery.newly_delivered_bytes) / datagram_;
  const Duration delay = *std::ranges::min_element(newest_) - base_delay();
  const double excess = seconds(delay) / seconds(target());
  if (state_ == State::slow_start) {
    if (delivery.window_limited) {
      window_ = std::min(window_ + acked * gain(), slow_start_threshold_);
    }
    if (excess > slow_start_exit || window_ >= slow_start_threshold_) {
      end_slow_start(now);
    }
    return;
  }
  const double increase = delivery.window_limited ? gain() * acked / window_ : 0;
  // Section 4.3, per round trip: the gain less the window times the excess over the target, down to half the window.
  const double decrease = excess > 1 ? std::min(decrease_constant * (excess - 1), 0.5) * acked : 0;
  window_ = std::clamp(window_ + (excess > 1 ? -decrease : increase), window_min, window_max);
}

void Ledbat::set_pace(Duration round_trip) {
  const Duration span = std::max<Duration>(round_trip, std::chrono::microseconds(100));
  pacer_.set_rate(
      static_cast<std::uint64_t>(std::max(pacing_gain * window_ * datagram_ / seconds(span), datagram_ * 10)));
}

}  // namespace sluice::ftx
