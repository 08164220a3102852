// SPDX-License-Identifier: Apache-2.0
// What follows from the model and the state of Bbr: pacing rate and window (section 5.6 of the draft).
#include "apps/ftx/recovery/bbr.h"

#include <algorithm>

#include "apps/ftx/recovery/bbr_parameters.h"

namespace sluice::ftx {

using namespace bbr_parameters;

/// The table of section 5.6.1.
double Bbr::pacing_gain() const {
  switch (state_) {
    case State::startup:
      return queue_evident() ? braking_pacing_gain : startup_pacing_gain;
    case State::drain:
      return drain_pacing_gain;
    case State::probe_bw_down:
      return down_pacing_gain;
    case State::probe_bw_up:
      return up_pacing_gain;
    case State::probe_bw_cruise:
      return crowded_ && !share_.rate() ? crowded_pacing_gain : 1;
    case State::probe_bw_refill:
    case State::probe_rtt:
      return 1;
  }
  return 1;
}

double Bbr::window_gain() const {
  if (state_ == State::probe_rtt) {
    return probe_rtt_window_gain;
  }
  if (state_ == State::startup && queue_evident()) {
    return braking_window_gain;
  }
  if (state_ == State::probe_bw_cruise && crowded_) {
    return crowded_window_gain;
  }
  return state_ == State::probe_bw_up ? up_window_gain : default_window_gain;
}

std::uint64_t Bbr::bdp(double gain) const {
  return min_rtt_ == Duration::max() ? initial_datagrams * datagram_ : part(gain, bytes_in(bandwidth(), min_rtt_));
}

/// What is in flight without a queue (Inflight(1.0)): the pacer's bursts count as the offload budget.
std::uint64_t Bbr::drained_inflight() const {
  return std::max({bdp(1), bytes_in(bandwidth(), Pacer::burst), min_pipe_datagrams * datagram_});
}

/// Section 5.6.2, SetPacingRateWithGain: "as long as it estimates that it has filled the pipe (BBR.full_bw_reached is
/// true; see the "Startup" section for details), or doing so increases the pacing rate".
void Bbr::set_pacing_rate(double gain) {
  const auto rate = part(gain * pacing_margin / (1 - background_loss_), bandwidth());
  if (bandwidth() > 0 && (full_bw_reached_ || rate > pacer_.rate() || queue_evident())) {
    // At ten datagrams a second the rate can still be measured.
    pacer_.set_rate(std::max(rate, datagram_ * 10));
  }
}

/// Section 5.6.4.6, SetCwnd, and section 5.6.4.7, BoundCwndForModel.
void Bbr::set_window(const Delivery& delivery) {
  const std::uint64_t least = min_pipe_datagrams * datagram_;
  std::uint64_t most = bdp(window_gain()) + extra_acked();
  most = std::max({most, bytes_in(bandwidth(), feedback_delay), least});
  most += state_ == State::probe_bw_up ? 2 * datagram_ : 0;
  if (full_bw_reached_) {
    window_ = std::min(window_ + delivery.newly_delivered_bytes, most);
  } else if (queue_evident()) {
    window_ = std::min(window_ + delivery.newly_delivered_bytes, std::max(most, initial_datagrams * datagram_));
  } else {
    window_ = std::max(window_, most);
  }
  window_ = std::max(window_, least);
  std::uint64_t cap = unbounded;
  if (state_ == State::probe_rtt) {
    window_ = std::min(window_, std::max(bdp(probe_rtt_window_gain), least));
  }
  if (state_ == State::probe_rtt || state_ == State::probe_bw_cruise) {
    cap = inflight_with_headroom();
  } else if (in_probe_bw()) {
    cap = inflight_longterm_;
  }
  // The model's volumes are those of the moment; what the window bounds is as old as the last report.
  cap = std::min(cap, inflight_shortterm_);
  if (cap != unbounded) {
    window_ =
        std::min(window_, std::max(cap, least) + bytes_in(bandwidth(), report_interval(delivery.smoothed_round_trip)));
  }
}

/// Section 5.6.2, InitPacingRate.
void Bbr::init_pacing_rate(Duration round_trip) {
  const auto nominal = static_cast<double>(window_) * 1e9 / static_cast<double>(round_trip.count());
  pacer_.set_rate(static_cast<std::uint64_t>(startup_pacing_gain * nominal));
}

}  // namespace sluice::ftx
