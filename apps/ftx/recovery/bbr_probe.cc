// SPDX-License-Identifier: Apache-2.0
// How Bbr tries the path: ProbeBW and ProbeRTT (sections 5.3.3 and 5.3.4 of the draft).
#include "apps/ftx/recovery/bbr.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/recovery/bbr_parameters.h"

namespace sluice::ftx {

using namespace bbr_parameters;

// --- ProbeBW -------------------------------------------------------------------------------------------------------

bool Bbr::in_probe_bw() const {
  return state_ == State::probe_bw_down || state_ == State::probe_bw_cruise || state_ == State::probe_bw_refill ||
         state_ == State::probe_bw_up;
}

bool Bbr::probing() const {
  return state_ == State::startup || state_ == State::probe_bw_refill || state_ == State::probe_bw_up;
}

/// Section 5.3.3.8.3.
void Bbr::pick_probe_wait(TimePoint now) {
  rounds_since_probe_up_ = prng_.below(2);
  probe_patience_ = probe_too_high_ ? 2 : 1;  // deviation 11
  probe_wait_ = probe_patience_ * (seconds(2) + Duration(static_cast<Duration::rep>(prng_.below(1'000'000'000))));
  cycle_at_ = now;
}

/// Section 5.3.3.9.
void Bbr::start_down(TimePoint now) {
  pick_probe_wait(now);
  end_probe();
}

void Bbr::end_probe() {
  reset_congestion_signals();
  up_acked_per_increment_ = unbounded;
  ack_phase_ = AckPhase::probe_stopping;
  start_round();
  settled_delivered_ = delivered_;
  state_ = State::probe_bw_down;
  down_start_round_ = round_count_;
}

void Bbr::start_cruise() { state_ = State::probe_bw_cruise; }

void Bbr::start_refill() {
  if (const auto share = share_.end()) {
    max_bw_ = {0, *share};
  }
  reset_short_term_model();
  up_rounds_ = 0;
  up_acked_ = 0;
  probe_precautionary_ = false;
  ack_phase_ = AckPhase::refilling;
  start_round();
  state_ = State::probe_bw_refill;
}

void Bbr::start_up(const Delivery& delivery) {
  ack_phase_ = AckPhase::probe_starting;
  start_round();
  reset_full_bandwidth(delivery.rate.value_or(0));
  state_ = State::probe_bw_up;
  raise_inflight_slope();
}

/// "BBR executes the following UpdateProbeBWCyclePhase() logic on each ACK that acknowledges new data" (5.3.3.9):
/// reports that repeat themselves while nothing is sent do not count.
void Bbr::update_cycle(TimePoint now, const Delivery& delivery) {
  if (!full_bw_reached_ || !delivery.newest || adapt_long_term_model(delivery)) {
    return;
  }
  switch (state_) {
    case State::startup:
    case State::drain:
    case State::probe_rtt:
      return;
    case State::probe_bw_down:
      if (time_to_probe(now)) {
        return start_refill();
      }
      if (time_to_cruise()) {
        start_cruise();
      }
      return;
    case State::probe_bw_cruise:
      if (time_to_probe(now) && share_.may_probe()) {
        start_refill();
      }
      return;
    case State::probe_bw_refill:
      if (round_start_) {
        probe_sample_ = true;
        start_up(delivery);
      }
      return;
    case State::probe_bw_up:
      if (time_to_go_down(delivery)) {
        probe_too_high_ = false;  // "no high loss (yet)"
        start_down(now);
      }
      return;
  }
}

/// Section 5.3.3.8.2: "T_probe = min(T_bbr, T_reno)"
bool Bbr::time_to_probe(TimePoint now) const {
  const std::uint64_t reno_rounds = std::min(target_inflight() / datagram_, reno_rounds_max);
  return now > cycle_at_ + probe_wait_ || rounds_since_probe_up_ >= probe_patience_ * reno_rounds;
}

bool Bbr::time_to_cruise() const {
  const bool drained = in_flight_ <= inflight_with_headroom() && in_flight_ <= drained_inflight();
  const bool others_wait = !share_.pressed() && round_count_ > down_start_round_ + down_rounds_max;  // deviation 13
  return drained || others_wait;
}

/// Section 5.3.3.7, IsTimeToGoDown.
bool Bbr::time_to_go_down(const Delivery& delivery) {
  if (probe_too_high_ && in_flight_ >= inflight_longterm_) {
    probe_precautionary_ = true;
    return true;
  }
  if (delivery.window_limited && window_ >= inflight_longterm_) {
    reset_full_bandwidth(delivery.rate.value_or(0));  // "bw is limited by BBR.inflight_longterm"
    return false;
  }
  return full_bw_now_;
}

std::uint64_t Bbr::inflight_with_headroom() const {
  if (inflight_longterm_ == unbounded) {
    return unbounded;
  }
  const std::uint64_t headroom = std::max(datagram_, part(headroom_part, inflight_longterm_));
  return std::max(inflight_longterm_ - std::min(headroom, inflight_longterm_), min_pipe_datagrams * datagram_);
}

/// Section 5.3.3.5: "The additive increase to BBR.inflight_longterm doubles each round trip".
void Bbr::raise_inflight_slope() {
  const std::uint64_t growth = std::uint64_t{1} << up_rounds_;
  up_rounds_ = std::min<std::uint64_t>(up_rounds_ + 1, 30);
  up_acked_per_increment_ = std::max(window_ / growth, datagram_);
}

void Bbr::probe_inflight_upward(const Delivery& delivery) {
  if (!delivery.window_limited || window_ < inflight_longterm_) {
    return;  // "not fully using BBR.inflight_longterm, so don't grow it"
  }
  up_acked_ += delivery.newly_delivered_bytes;
  if (up_acked_ >= up_acked_per_increment_) {
    const std::uint64_t increments = up_acked_ / up_acked_per_increment_;
    up_acked_ -= increments * up_acked_per_increment_;
    inflight_longterm_ += increments * datagram_;
  }
  if (round_start_) {
    raise_inflight_slope();
  }
}

/// Section 5.3.3.9, AdaptLongTermModel. True: it has moved to another state.
bool Bbr::adapt_long_term_model(const Delivery& delivery) {
  if (ack_phase_ == AckPhase::probe_starting && round_start_) {
    ack_phase_ = AckPhase::probe_feedback;
  }
  if (ack_phase_ == AckPhase::probe_stopping && round_start_) {
    if (in_probe_bw() && !limited(*delivery.newest)) {
      max_bw_[1] = std::exchange(max_bw_[0], 0);  // AdvanceMaxBwFilter
    }
    ack_phase_ = AckPhase::probe_losses;  // deviation 8
  } else if (ack_phase_ == AckPhase::probe_losses && round_start_) {
    probe_sample_ = false;
    ack_phase_ = AckPhase::init;
    if (in_probe_bw() && probe_precautionary_ && !probe_too_high_) {
      start_refill();
      return true;
    }
  }
  if (!delivery.newest || loss_is_too_high(*delivery.newest) || inflight_longterm_ == unbounded) {
    return false;
  }
  inflight_longterm_ = std::max(inflight_longterm_, delivery.newest->in_flight_bytes);
  if (state_ == State::probe_bw_up) {
    probe_inflight_upward(delivery);
  }
  return false;
}

// --- ProbeRTT ------------------------------------------------------------------------------------------------------

/// Section 5.3.4.3, CheckProbeRTT.
void Bbr::check_probe_rtt(TimePoint now) {
  if (state_ != State::probe_rtt && probe_rtt_expired_ && !idle_restart_) {
    prior_window_ = window_;
    state_ = State::probe_rtt;
    probe_rtt_done_at_ = never;
    ack_phase_ = AckPhase::probe_stopping;
    start_round();
    limited_from_ = delivered_;
  }
  if (state_ == State::probe_rtt) {
    handle_probe_rtt(now);
  }
}

void Bbr::handle_probe_rtt(TimePoint now) {
  limited_to_ = delivered_ + in_flight_ + 1;  // "Ignore low rate samples during ProbeRTT"
  const std::uint64_t target = std::max(bdp(probe_rtt_window_gain), min_pipe_datagrams * datagram_);
  if (probe_rtt_done_at_ == never && in_flight_ <= target) {
    probe_rtt_done_at_ = now + probe_rtt_duration;
    probe_rtt_round_done_ = false;
    start_round();
  } else if (probe_rtt_done_at_ != never) {
    probe_rtt_round_done_ |= round_start_;
    if (probe_rtt_round_done_) {
      check_probe_rtt_done(now);
    }
  }
}

void Bbr::check_probe_rtt_done(TimePoint now) {
  if (probe_rtt_done_at_ == never || now <= probe_rtt_done_at_) {
    return;
  }
  probe_rtt_min_at_ = now;
  window_ = std::max(window_, prior_window_);
  // Section 5.3.4.4, ExitProbeRTT.
  reset_short_term_model();
  if (full_bw_reached_) {
    if (!share_.pressed()) {  // deviation 13
      pick_probe_wait(now);
    }
    end_probe();
    start_cruise();
  } else {
    enter_startup();
  }
}

}  // namespace sluice::ftx
