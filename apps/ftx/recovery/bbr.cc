// SPDX-License-Identifier: Apache-2.0
// What Bbr does when something happens; Startup and Drain. bbr_model.cc: what it believes of the path; bbr_probe.cc:
// how it tries the path; bbr_control.cc: how fast and how much it sends.
#include "apps/ftx/recovery/bbr.h"

#include <algorithm>

#include "apps/ftx/recovery/bbr_parameters.h"
#include "base/contract.h"

namespace sluice::ftx {

using namespace bbr_parameters;

Bbr::Bbr(std::size_t datagram_bytes, std::uint64_t seed)
    : datagram_(datagram_bytes), prng_(seed), window_(initial_datagrams * datagram_bytes) {
  SLUICE_REQUIRE(datagram_bytes > 0);
  init_pacing_rate(round_trip_unmeasured);
}

std::uint64_t Bbr::bandwidth() const { return std::min(share_.rate().value_or(max_bandwidth()), bw_shortterm_); }

// --- Events --------------------------------------------------------------------------------------------------------

void Bbr::on_first_round_trip(Duration round_trip) {
  if (round_trip > Duration{}) {
    init_pacing_rate(round_trip);
    first_rtt_ = round_trip;
  }
}

void Bbr::on_sent(TimePoint now, std::size_t bytes) {
  // Section 5.4.1: "if the flow's BBR.state is ProbeBW, and the flow is application-limited, and there are no packets
  // in flight currently, then before the flow sends one or more packets BBR sets C.pacing_rate to exactly BBR.bw."
  if (started_ && in_flight_ == 0 && !sent_since_report_) {
    idle_restart_ = true;
    extra_acked_since_ = now;
    extra_acked_delivered_ = 0;
    if (in_probe_bw()) {
      set_pacing_rate(1);
    } else if (state_ == State::probe_rtt) {
      check_probe_rtt_done(now);
    }
  }
  sent_since_report_ = true;
  pacer_.on_sent(now, bytes);
}

void Bbr::on_report(TimePoint now, const Delivery& delivery) {
  if (!started_) {
    started_ = true;
    min_rtt_at_ = probe_rtt_min_at_ = cycle_at_ = extra_acked_since_ = now;
  }
  delivered_ = delivery.delivered_bytes;
  in_flight_ = delivery.in_flight_bytes;
  sent_since_report_ = false;

  // Section 5.2.3, UpdateModelAndState; losses first, as the transport's loss detection precedes it.
  if (min_rtt_ == Duration::max() && delivery.round_trip > Duration{}) {
    init_pacing_rate(delivery.round_trip);
  }
  update_round(delivery);
  update_latest_delivery(delivery);
  note_loss(now, delivery);
  update_max_bandwidth(delivery);
  update_congestion_signals();
  update_aggregation(now, delivery);
  check_full_bandwidth(delivery);
  if (state_ == State::startup) {
    check_startup_high_loss();
    if (full_bw_reached_) {
      enter_drain();
    }
  }
  check_drain_done(now);
  update_cycle(now, delivery);
  update_min_rtt(now, delivery);
  check_probe_rtt(now);
  if (delivery.newest) {
    crowded_ = queue_evident() && !limited(*delivery.newest);
    adapt_share(delivery);
  }
  if (delivery.newly_delivered_bytes > 0) {
    idle_restart_ = false;
  }
  if (loss_round_start_ && delivery.newest) {  // AdvanceLatestDeliverySignals
    bw_latest_ = shown_bandwidth(delivery);
    inflight_latest_ = delivered_in_round_trip(delivery);
  }
  set_pacing_rate(pacing_gain());
  set_window(delivery);
}

// --- Startup and Drain ---------------------------------------------------------------------------------------------

void Bbr::enter_startup() { state_ = State::startup; }

void Bbr::reset_full_bandwidth(std::uint64_t baseline) {
  full_bw_ = baseline;
  full_bw_count_ = 0;
  full_bw_now_ = false;
}

/// Section 5.3.1.2: "if BBR counts several (three) non-application-limited rounds where attempts to significantly
/// increase the delivery rate actually result in little increase (less than 25 percent), then it estimates that it has
/// fully utilized the per-flow available bandwidth".
void Bbr::check_full_bandwidth(const Delivery& delivery) {
  const bool brakes = state_ == State::startup && queue_evident();
  if (full_bw_now_ || !round_start_ || !delivery.rate || (limited(*delivery.newest) && !brakes)) {
    return;
  }
  if (brakes && delivery.round_trip <= queue_bound()) {
    return;  // for a queue that is gone
  }
  const std::uint64_t rate = state_ == State::startup ? max_bandwidth() : *delivery.rate;
  if (rate >= full_bw_ + full_bw_ / 4) {
    reset_full_bandwidth(rate);
    return;
  }
  ++full_bw_count_;
  full_bw_now_ = full_bw_count_ >= 3;
  full_bw_reached_ |= full_bw_now_;
}

/// Section 5.3.1.3: "The connection has been in fast recovery for at least one full packet-timed round trip. The loss
/// rate over the time scale of a single full round trip exceeds BBR.LossThresh (2%). There are at least
/// BBRStartupFullLossCnt=6 discontiguous sequence ranges lost in that round trip."
void Bbr::check_startup_high_loss() {
  if (full_bw_reached_ || !round_start_) {
    return;
  }
  const double threshold = standing_queue_ ? loss_threshold() : blind_threshold();  // deviation 1
  if (last_round_lost_runs_ >= startup_full_loss_runs && round_loss_rate_ > threshold) {
    full_bw_reached_ = true;
    inflight_longterm_ = std::max(bdp(1), inflight_latest_);
  }
}

void Bbr::enter_drain() {
  state_ = State::drain;
  settled_delivered_ = unbounded;
  loss_in_round_ = false;
  drain_start_round_ = round_count_;
}

/// Section 5.3.2: "In Drain, when the amount of data in flight is less than or equal to the estimated BDP, meaning BBR
/// estimates that the queue at the bottleneck link has been fully drained, then BBR exits Drain and enters ProbeBW."
void Bbr::check_drain_done(TimePoint now) {
  if (state_ == State::drain &&
      (in_flight_ <= drained_inflight() || round_count_ > drain_start_round_ + drain_rounds_max)) {
    start_down(now);
  }
}

std::string_view to_text(Bbr::State state) {
  switch (state) {
    case Bbr::State::startup:
      return "startup";
    case Bbr::State::drain:
      return "drain";
    case Bbr::State::probe_bw_down:
      return "probe_bw_down";
    case Bbr::State::probe_bw_cruise:
      return "probe_bw_cruise";
    case Bbr::State::probe_bw_refill:
      return "probe_bw_refill";
    case Bbr::State::probe_bw_up:
      return "probe_bw_up";
    case Bbr::State::probe_rtt:
      return "probe_rtt";
  }
  return "?";
}

}  // namespace sluice::ftx
