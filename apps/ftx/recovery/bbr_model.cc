// SPDX-License-Identifier: Apache-2.0
// The model of Bbr: rounds, bandwidth, volume, round trips, loss (section 5.5 of the draft).
#include "apps/ftx/recovery/bbr.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/recovery/bbr_parameters.h"

namespace sluice::ftx {

using namespace bbr_parameters;

namespace {

/// The newest that this report tells of was sent before the first report came.
bool of_first_flight(const Delivery& delivery) { return delivery.newest && delivery.newest->delivered_bytes == 0; }

}  // namespace

// --- The model -----------------------------------------------------------------------------------------------------

/// Section 5.5.1, UpdateRound.
void Bbr::update_round(const Delivery& delivery) {
  round_start_ = delivery.newest && delivery.newly_delivered_bytes > 0 &&
                 delivery.newest->delivered_bytes >= next_round_delivered_;
  if (round_start_) {
    start_round();
    ++round_count_;
    ++rounds_since_probe_up_;
    end_round();
  }
  if (delivery.round_trip > Duration{}) {
    // The lower of two samples: one that is late shows a busy program, not a queue. Of the first flight the end counts:
    // a receiver that still sets itself up is late for the beginning, and a queue is longest at the end.
    const Duration lower = std::min(delivery.round_trip, std::exchange(last_rtt_, delivery.round_trip));
    rtt_max_[0] = of_first_flight(delivery) ? lower : std::max(rtt_max_[0], lower);
    round_rtt_min_ = std::min(round_rtt_min_, delivery.round_trip);
  }
  round_lost_ += delivery.newly_lost_bytes;
  round_resolved_ += delivery.newly_resolved_bytes;
  round_lost_runs_ += delivery.newly_lost_runs;
}

/// What loss and delay were in the round trip that is over.
void Bbr::end_round() {
  const std::uint64_t resolved = std::exchange(round_resolved_, 0);
  const std::uint64_t lost = std::exchange(round_lost_, 0);
  last_round_lost_runs_ = std::exchange(round_lost_runs_, 0);
  round_loss_rate_ = ratio(lost, resolved);
  if (resolved > 0 && !queue_evident()) {
    background_lost_ += lost;
    background_resolved_ += resolved;
    if (background_resolved_ > background_rounds * std::max(resolved, bdp(1))) {
      background_lost_ /= 2;
      background_resolved_ /= 2;
    }
    background_loss_ = std::min(ratio(background_lost_, background_resolved_), background_loss_max);
  }
  // A loss of this kind is reported after its round, so the round before counts with it.
  rtt_max_[1] = std::exchange(rtt_max_[0], Duration{});
  // A queue as short as the pacer's own bursts is no crowd.
  const Duration shortest = std::exchange(round_rtt_min_, Duration::max());
  standing_queue_ = shortest != Duration::max() && shortest > std::max(queue_bound(), min_rtt_ + Pacer::burst);
  queue_shrinks_ = standing_queue_ && shortest < last_rtt_min_ - (last_rtt_min_ - min_rtt_) / shrinking_part;
  last_rtt_min_ = shortest;
  extra_acked_[round_count_ % extra_acked_rounds] = 0;
}

/// Deviation 12.
std::uint64_t Bbr::shown_bandwidth(const Delivery& delivery) const {
  const std::uint64_t rate = delivery.rate.value_or(0);
  const bool slowed = state_ == State::probe_bw_down || (state_ == State::probe_bw_cruise && !queue_evident());
  const bool limited_by_itself = slowed && delivery.as_sent;
  return limited_by_itself ? std::max(rate, bandwidth()) : rate;
}

/// Section 5.5.10.3, UpdateLatestDeliverySignals.
void Bbr::update_latest_delivery(const Delivery& delivery) {
  loss_round_start_ = false;
  if (!delivery.newest) {
    return;
  }
  bw_latest_ = std::max(bw_latest_, shown_bandwidth(delivery));
  inflight_latest_ = std::max(inflight_latest_, delivered_in_round_trip(delivery));
  if (delivery.newest->delivered_bytes >= loss_round_delivered_) {
    loss_round_delivered_ = delivered_;
    loss_round_start_ = true;
  }
}

/// Section 5.5.4: "By default, the estimator discards application-limited samples, since by definition they reflect
/// application limits. However, the estimator does use application-limited samples if the measured delivery rate
/// happens to be larger than the current BBR.max_bw estimate, since this indicates the current BBR.max_bw estimate is
/// too low."
void Bbr::update_max_bandwidth(const Delivery& delivery) {
  if (delivery.rate && (*delivery.rate >= max_bandwidth() || !limited(*delivery.newest))) {
    max_bw_[0] = std::max(max_bw_[0], *delivery.rate);
  }
  if (delivery.arrival_rate) {
    if (state_ == State::startup) {  // deviation 5
      // What went before the first report went at a rate that knew nothing of the path.
      const std::uint64_t most = of_first_flight(delivery) ? pacer_.rate() : unbounded;
      max_bw_[0] = std::max(max_bw_[0], std::min({arrival_rate_, *delivery.arrival_rate, most}));
    }
    arrival_rate_ = limited(*delivery.newest) && !queue_evident() ? unbounded : *delivery.arrival_rate;
  }
}

/// Section 5.5.10.3: "Upon the ACK at the end of each round that encountered a newly-marked loss, the flow updates its
/// model".
void Bbr::update_congestion_signals() {
  if (!loss_round_start_) {
    return;
  }
  if (loss_in_round_ && !probing() && time_to_adapt()) {
    adapt_lower_bounds();
  }
  loss_in_round_ = false;
}

/// Deviation 10.
bool Bbr::time_to_adapt() const {
  return bw_shortterm_ == unbounded || bw_latest_ < part(beta, bw_shortterm_) ||
         round_count_ > adapted_round_ + adapt_rounds;
}

void Bbr::adapt_lower_bounds() {
  adapted_round_ = round_count_;
  if (bw_shortterm_ == unbounded) {
    bw_shortterm_ = bandwidth();
  }
  if (inflight_shortterm_ == unbounded) {
    inflight_shortterm_ = window_;
  }
  bw_shortterm_ = std::max(bw_latest_, part(beta, bw_shortterm_));
  inflight_shortterm_ = std::max(inflight_latest_, part(beta, inflight_shortterm_));
}

/// Deviation 13.
void Bbr::adapt_share(const Delivery& delivery) {
  if (state_ != State::probe_bw_cruise || !round_start_) {
    return;
  }
  const bool own = limited(*delivery.newest);
  if (standing_queue_ && own) {
    return;  // it may be no queue but a program that got no processor: this round says nothing
  }
  share_.on_round({.queue = standing_queue_,
                   .shrinks = queue_shrinks_,
                   .used = !own && delivery.rate.value_or(0) >= part(share_used, bandwidth()),
                   .rate = bandwidth(),
                   .datagram_rate = part(1e9 / static_cast<double>(min_rtt_.count()), datagram_)});
  if (!standing_queue_ && share_.rate()) {
    reset_short_term_model();  // the share has its bound now, and grows
  }
}

void Bbr::reset_congestion_signals() {
  loss_in_round_ = false;
  bw_latest_ = 0;
  inflight_latest_ = 0;
}

void Bbr::reset_short_term_model() {
  bw_shortterm_ = unbounded;
  inflight_shortterm_ = unbounded;
}

/// Section 5.5.9, UpdateACKAggregation: "the estimate of the recent degree of aggregation in the network path".
void Bbr::update_aggregation(TimePoint now, const Delivery& delivery) {
  std::uint64_t expected = bytes_in(bandwidth(), now - extra_acked_since_);
  if (extra_acked_delivered_ <= expected) {
    extra_acked_delivered_ = 0;
    extra_acked_since_ = now;
    expected = 0;
  }
  extra_acked_delivered_ += delivery.newly_delivered_bytes;
  std::uint64_t& best = extra_acked_[round_count_ % extra_acked_rounds];
  best = std::max(best, std::min(extra_acked_delivered_ - std::min(expected, extra_acked_delivered_), window_));
}

/// "the windowed maximum over 1 round trip during STARTUP and 10 round trips after exiting STARTUP"
std::uint64_t Bbr::extra_acked() const {
  return full_bw_reached_ ? *std::ranges::max_element(extra_acked_) : extra_acked_[round_count_ % extra_acked_rounds];
}

/// Section 5.3.4.3, UpdateMinRTT.
void Bbr::update_min_rtt(TimePoint now, const Delivery& delivery) {
  probe_rtt_expired_ = now > probe_rtt_min_at_ + probe_rtt_interval;
  if (delivery.round_trip > Duration{} && (delivery.round_trip < probe_rtt_min_ || probe_rtt_expired_)) {
    probe_rtt_min_ = delivery.round_trip;
    probe_rtt_min_at_ = now;
  } else if (delivery.round_trip > Duration{} &&
             delivery.round_trip - probe_rtt_min_ <= probe_rtt_min_ / matching_part) {
    probe_rtt_min_at_ = now;  // deviation 9
  }
  if (probe_rtt_min_ < min_rtt_ || now > min_rtt_at_ + min_rtt_filter) {
    min_rtt_ = probe_rtt_min_;
    min_rtt_at_ = probe_rtt_min_at_;
  }
}

// --- Loss ----------------------------------------------------------------------------------------------------------

/// True when the round trip shows a queue, in this round or in the one before, in which what is reported lost now was.
bool Bbr::queue_evident() const { return std::max(rtt_max_[0], rtt_max_[1]) > queue_bound(); }

Duration Bbr::queue_bound() const {
  const bool starts = state_ == State::startup;
  const Duration least = starts ? std::min(first_rtt_, min_rtt_) : min_rtt_;
  const int part_of_least = starts ? startup_queue_evidence_part : queue_evidence_part;
  return least == Duration::max() ? least : least + least / part_of_least;
}

double Bbr::loss_threshold() const { return queue_evident() ? loss_thresh + background_loss_ : blind_threshold(); }

double Bbr::blind_threshold() const { return std::max(blind_loss_threshold, 2 * background_loss_); }

/// Section 5.5.10.2, IsInflightTooHigh, with deviations 1 and 2.
bool Bbr::loss_is_too_high(const Delivery::AtSend& datagram) const {
  const bool enough = queue_evident() || datagram.lost_since_bytes >= blind_datagrams_min * datagram_;
  return enough && ratio(datagram.lost_since_bytes, datagram.resolved_since_bytes) > loss_threshold();
}

/// Section 5.5.10.2, HandleLostPacket and HandleInflightTooHigh.
void Bbr::note_loss(TimePoint now, const Delivery& delivery) {
  if (!delivery.newest_lost) {
    return;
  }
  const Delivery::AtSend& lost = *delivery.newest_lost;
  const double rate = ratio(lost.lost_since_bytes, lost.resolved_since_bytes);
  const bool settled = lost.delivered_bytes >= settled_delivered_;
  // A datagram or two are lost at random as well; a queue that overflows loses many.
  const bool overflow = lost.lost_since_bytes > 2 * datagram_ && rate > 2 * background_loss_;
  if (settled && (queue_evident() && !limited(lost) ? overflow : loss_is_too_high(lost))) {
    if (!loss_in_round_) {
      loss_round_delivered_ = delivered_;
    }
    loss_in_round_ = true;
  }
  if (!probe_sample_ || !loss_is_too_high(lost)) {
    return;
  }
  probe_too_high_ = true;
  probe_sample_ = false;  // "only react once per bw probe"
  if (!limited(lost)) {
    inflight_longterm_ = std::max(lost.in_flight_bytes, part(beta, target_inflight()));
  }
  if (state_ == State::probe_bw_up) {
    start_down(now);
  }
}

bool Bbr::limited(const Delivery::AtSend& datagram) const {
  return datagram.application_limited ||
         (datagram.delivered_bytes >= limited_from_ && datagram.delivered_bytes < limited_to_);
}

}  // namespace sluice::ftx
