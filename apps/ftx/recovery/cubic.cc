// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/cubic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;

constexpr double initial_window = 10;  // RFC 6928
constexpr double window_min = 2;
constexpr double window_max = 1U << 20;  // eight times what may be open
constexpr Duration round_trip_unmeasured = milliseconds(10);

// RFC 9438
constexpr double beta_cubic = 0.7;
constexpr double c_cubic = 0.4;
constexpr double alpha_cubic = 3.0 * (1.0 - beta_cubic) / (1.0 + beta_cubic);

// RFC 9406, section 4.3
constexpr Duration rtt_threshold_min = milliseconds(4);
constexpr Duration rtt_threshold_max = milliseconds(16);
constexpr int rtt_divisor = 8;
constexpr int rtt_samples = 2;  // N_RTT_SAMPLE: see the header
constexpr double css_growth_divisor = 4;
constexpr int css_rounds = 5;

// As Linux paces TCP: twice the window a round trip in slow start, 1.2 times after it.
constexpr double slow_start_pacing_gain = 2;
constexpr double avoidance_pacing_gain = 1.2;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Cubic::Cubic(std::size_t datagram_bytes)
    : datagram_(static_cast<double>(datagram_bytes)),
      window_(initial_window),
      slow_start_threshold_(std::numeric_limits<double>::infinity()) {
  SLUICE_REQUIRE(datagram_bytes > 0);
  set_pace(round_trip_unmeasured);
}

void Cubic::on_first_round_trip(Duration round_trip) { set_pace(round_trip); }

std::uint64_t Cubic::window_bytes() const {
  const double interval = round_trip_ > Duration{} ? seconds(report_interval(round_trip_)) / seconds(round_trip_) : 0;
  return static_cast<std::uint64_t>(window_ * datagram_ * (1 + std::min(interval, 1.0)));
}

void Cubic::on_report(TimePoint now, const Delivery& delivery) {
  if (delivery.round_trip > Duration{}) {
    round_trip_ = std::max<Duration>(delivery.smoothed_round_trip, Duration{1});
    round_rtt_ = std::min(round_rtt_, delivery.round_trip);
    ++round_samples_;
  }
  if (delivery.newest && delivery.newest->delivered_bytes >= next_round_delivered_) {
    next_round_delivered_ = delivery.delivered_bytes;
    end_round();
  }
  if (delivery.newest_lost && delivery.newest_lost->delivered_bytes >= recovery_until_) {
    on_loss(now, delivery);
  } else if (delivery.newly_delivered_bytes > 0 && delivery.newest &&
             delivery.newest->delivered_bytes >= recovery_until_) {
    grow(now, delivery);
  }
  set_pace(round_trip_);
}

/// RFC 9438 section 4.6: "When a congestion event is detected by the mechanisms described in Section 3.1, CUBIC updates
/// W_max and reduces cwnd and ssthresh immediately".
void Cubic::on_loss(TimePoint, const Delivery& delivery) {
  recovery_until_ = delivery.delivered_bytes;
  window_prior_ = window_;
  // Section 4.7, fast convergence: a flow that did not get back to where it was leaves more to the others.
  window_max_ = window_ < window_max_ ? window_ * (1 + beta_cubic) / 2 : window_;
  slow_start_threshold_ = std::max(window_ * beta_cubic, window_min);
  window_ = slow_start_threshold_;
  state_ = State::avoidance;
  in_epoch_ = false;
}

void Cubic::grow(TimePoint now, const Delivery& delivery) {
  const double acked = static_cast<double>(delivery.newly_delivered_bytes) / datagram_;
  // RFC 9438 section 5.8: a window that the sender does not use says nothing, so it does not grow.
  if (!delivery.window_limited) {
    in_epoch_ &= state_ == State::avoidance;
    return;
  }
  if (state_ == State::avoidance) {
    avoid(now, round_trip_, acked);
  } else {
    slow_start(delivery, acked);
  }
  window_ = std::min(window_, window_max);
}

void Cubic::slow_start(const Delivery& delivery, double acked) {
  const bool conservative = state_ == State::conservative_slow_start;
  window_ += conservative ? acked / css_growth_divisor : acked;
  if (round_samples_ < rtt_samples || delivery.round_trip == Duration{}) {
    return;
  }
  if (conservative) {
    // RFC 9406 section 4.2: the round trip is below that which ended slow start, so that was jitter: slow start again.
    if (round_rtt_ < baseline_rtt_) {
      baseline_rtt_ = Duration::max();
      state_ = State::slow_start;
    }
    return;
  }
  if (last_round_rtt_ == Duration::max()) {
    return;
  }
  const Duration threshold = std::clamp<Duration>(last_round_rtt_ / rtt_divisor, rtt_threshold_min, rtt_threshold_max);
  if (round_rtt_ >= last_round_rtt_ + threshold) {
    baseline_rtt_ = round_rtt_;
    conservative_rounds_ = 0;
    state_ = State::conservative_slow_start;
  }
}

void Cubic::end_round() {
  last_round_rtt_ = std::exchange(round_rtt_, Duration::max());
  round_samples_ = 0;
  // RFC 9406 section 4.2: "CSS lasts at most CSS_ROUNDS rounds. If the transition into CSS happens in the middle of a
  // round, that partial round counts towards the limit."
  if (state_ == State::conservative_slow_start && ++conservative_rounds_ >= css_rounds) {
    slow_start_threshold_ = window_;
    state_ = State::avoidance;
    in_epoch_ = false;
  }
}

void Cubic::begin_epoch(TimePoint now) {
  in_epoch_ = true;
  epoch_at_ = now;
  window_epoch_ = window_;
  window_reno_ = window_;
  // Section 4.2: without a loss before (HyStart++ ended slow start) the curve begins at its inflection: K is 0.
  if (window_max_ < window_) {
    window_max_ = window_;
  }
  k_seconds_ = std::cbrt((window_max_ - window_epoch_) / c_cubic);
}

void Cubic::avoid(TimePoint now, Duration round_trip, double acked) {
  if (!in_epoch_) {
    begin_epoch(now);
  }
  // Section 4.2: "W_cubic(t) = C * (t - K)^3 + W_max"; the target is where the curve will be a round trip from now.
  const double t = seconds(now - epoch_at_) - k_seconds_;
  const auto curve = [&](double at) { return c_cubic * at * at * at + window_max_; };
  const double target = std::clamp(curve(t + seconds(round_trip)), window_, window_ * 1.5);
  // Section 4.3, the Reno-friendly region: "W_est = W_est + alpha_cubic * segments_acked / cwnd".
  window_reno_ += (window_reno_ >= window_prior_ ? 1.0 : alpha_cubic) * acked / window_;
  if (curve(t) < window_reno_) {
    window_ = std::max(window_, window_reno_);
    return;
  }
  // Sections 4.4 and 4.5: "(target - cwnd) / cwnd" for each segment acknowledged.
  window_ += std::min((target - window_) * acked / window_, target - window_);
}

void Cubic::set_pace(Duration round_trip) {
  const Duration span = std::max<Duration>(round_trip, std::chrono::microseconds(100));
  const double gain = state_ == State::avoidance ? avoidance_pacing_gain : slow_start_pacing_gain;
  pacer_.set_rate(static_cast<std::uint64_t>(std::max(gain * window_ * datagram_ / seconds(span), datagram_ * 10)));
}

}  // namespace sluice::ftx
