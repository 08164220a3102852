// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/bbr.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Section 2, "Terminology and definitions", gives these constants.
constexpr double default_window_gain = 2;
constexpr double drain_pacing_gain = 0.5;
constexpr double down_pacing_gain = 0.90;
constexpr double up_pacing_gain = 1.25;
constexpr double up_window_gain = 2.25;
constexpr double pacing_margin = 0.99;  // BBR.PacingMarginPercent = 1
constexpr double loss_thresh = 0.02;
constexpr double beta = 0.7;
constexpr double headroom_part = 0.15;
constexpr double probe_rtt_window_gain = 0.5;
constexpr Duration probe_rtt_interval = seconds(5);
constexpr Duration probe_rtt_duration = milliseconds(200);
constexpr Duration min_rtt_filter = seconds(10);
constexpr std::uint64_t startup_full_loss_runs = 6;
constexpr std::uint64_t min_pipe_datagrams = 4;
constexpr std::uint64_t reno_rounds_max = 63;
constexpr std::uint64_t drain_rounds_max = 3;

constexpr std::uint64_t initial_datagrams = 128;  // deviation 5
constexpr Duration round_trip_unmeasured =
    milliseconds(1);  // "nominal_bandwidth = C.InitialCwnd / (C.srtt ? C.srtt : 1ms)"

// Deviation 5: startup, while no queue is evident and while one is.
constexpr double startup_pacing_gain = 4;     // for 2.77
constexpr double startup_window_gain = 2.77;  // for 2
constexpr double startup_window_growth = 1.5;
constexpr double braking_pacing_gain = 1.25;
constexpr double braking_window_gain = 1.5;

// Deviation 6: cruising while a queue is evident.
constexpr double crowded_pacing_gain = 0.95;
constexpr double crowded_window_gain = 1.5;

// Deviation 1: when loss is congestion.
constexpr int startup_queue_evidence_part = 16;  // a queue grows by more than that between two reports
constexpr int queue_evidence_part = 8;           // of min_rtt
constexpr double blind_loss_threshold = 0.10;    // without evidence of a queue
constexpr double background_loss_max = 0.08;
constexpr std::uint64_t background_rounds = 16;   // what it remembers
constexpr std::uint64_t blind_datagrams_min = 8;  // losses fewer than this are no rate

// Deviation 4: a loaded machine gives a program the processor this much late.
constexpr Duration feedback_delay = milliseconds(10);

std::uint64_t bytes_in(std::uint64_t rate, Duration span) {
  return static_cast<std::uint64_t>(static_cast<double>(rate) * static_cast<double>(span.count()) / 1e9);
}

std::uint64_t part(double factor, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(factor * static_cast<double>(bytes));
}

/// (RS.delivered) without what came while the report waited.
std::uint64_t delivered_in_round_trip(const Delivery& delivery) {
  return bytes_in(delivery.rate.value_or(0), delivery.round_trip);
}

double ratio(std::uint64_t bytes, std::uint64_t of) {
  return of == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(of);
}

}  // namespace

Bbr::Bbr(std::size_t datagram_bytes, std::uint64_t seed)
    : datagram_(datagram_bytes), prng_(seed), window_(initial_datagrams * datagram_bytes) {
  SLUICE_REQUIRE(datagram_bytes > 0);
  init_pacing_rate(round_trip_unmeasured);
}

/// Section 5.6.2, InitPacingRate.
void Bbr::init_pacing_rate(Duration round_trip) {
  const auto nominal = static_cast<double>(window_) * 1e9 / static_cast<double>(round_trip.count());
  pacer_.set_rate(static_cast<std::uint64_t>(startup_pacing_gain * nominal));
}

std::uint64_t Bbr::bandwidth() const { return std::min(max_bandwidth(), bw_shortterm_); }

// --- Events --------------------------------------------------------------------------------------------------------

void Bbr::on_first_round_trip(Duration round_trip) {
  if (round_trip > Duration{}) {
    init_pacing_rate(round_trip);
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
  }
  if (delivery.newly_delivered_bytes > 0) {
    idle_restart_ = false;
  }
  if (loss_round_start_ && delivery.newest) {  // AdvanceLatestDeliverySignals
    bw_latest_ = delivery.rate.value_or(0);
    inflight_latest_ = delivered_in_round_trip(delivery);
  }
  set_pacing_rate(pacing_gain());
  set_window(delivery);
}

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
    // The lower of two samples: one that is late shows a busy program, not a queue.
    rtt_max_[0] = std::max(rtt_max_[0], std::min(delivery.round_trip, last_rtt_));
    last_rtt_ = delivery.round_trip;
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
  extra_acked_[round_count_ % extra_acked_rounds] = 0;
}

/// Section 5.5.10.3, UpdateLatestDeliverySignals.
void Bbr::update_latest_delivery(const Delivery& delivery) {
  loss_round_start_ = false;
  if (!delivery.newest) {
    return;
  }
  bw_latest_ = std::max(bw_latest_, delivery.rate.value_or(0));
  inflight_latest_ = std::max(inflight_latest_, delivered_in_round_trip(delivery));
  if (delivery.newest->delivered_bytes >= loss_round_delivered_) {
    loss_round_delivered_ = delivered_;
    loss_round_start_ = true;
  }
}

/// Section 5.5.5: "the estimator discards application-limited samples, since by definition they reflect application
/// limits. However, the estimator does use application-limited samples if the measured delivery rate happens to be
/// larger than the current BBR.max_bw estimate, since this indicates the current BBR.max_bw estimate is too low."
void Bbr::update_max_bandwidth(const Delivery& delivery) {
  if (delivery.rate && (*delivery.rate >= max_bandwidth() || !limited(*delivery.newest))) {
    max_bw_[0] = std::max(max_bw_[0], *delivery.rate);
  }
}

/// Section 5.5.10.3: "Upon the ACK at the end of each round that encountered a newly-marked loss, the flow updates its
/// model".
void Bbr::update_congestion_signals() {
  if (!loss_round_start_) {
    return;
  }
  if (loss_in_round_ && !probing()) {
    adapt_lower_bounds();
  }
  loss_in_round_ = false;
}

void Bbr::adapt_lower_bounds() {
  if (bw_shortterm_ == unbounded) {
    bw_shortterm_ = max_bandwidth();
  }
  if (inflight_shortterm_ == unbounded) {
    inflight_shortterm_ = window_;
  }
  bw_shortterm_ = std::max(bw_latest_, part(beta, bw_shortterm_));
  inflight_shortterm_ = std::max(inflight_latest_, part(beta, inflight_shortterm_));
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
  const int of_min_rtt = state_ == State::startup ? startup_queue_evidence_part : queue_evidence_part;
  return min_rtt_ == Duration::max() ? min_rtt_ : min_rtt_ + min_rtt_ / of_min_rtt;
}

double Bbr::loss_threshold() const {
  return queue_evident() ? loss_thresh + background_loss_ : std::max(blind_loss_threshold, 2 * background_loss_);
}

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
  if (settled && (queue_evident() && !limited(lost) ? rate > 2 * background_loss_ : loss_is_too_high(lost))) {
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
  if (full_bw_now_ || !round_start_ || !delivery.rate || limited(*delivery.newest)) {
    return;
  }
  if (state_ == State::startup && queue_evident() && delivery.round_trip <= queue_bound()) {
    return;  // it brakes for a queue that is gone
  }
  if (*delivery.rate >= full_bw_ + full_bw_ / 4) {
    reset_full_bandwidth(*delivery.rate);
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
  const bool high = last_round_lost_runs_ >= startup_full_loss_runs && round_loss_rate_ > loss_threshold();
  if (high) {
    full_bw_reached_ = true;
    inflight_longterm_ = std::max(bdp(1), inflight_latest_);
  }
}

void Bbr::enter_drain() {
  state_ = State::drain;
  settled_delivered_ = unbounded;
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

// --- ProbeBW -------------------------------------------------------------------------------------------------------

bool Bbr::in_probe_bw() const {
  return state_ == State::probe_bw_down || state_ == State::probe_bw_cruise || state_ == State::probe_bw_refill ||
         state_ == State::probe_bw_up;
}

bool Bbr::probing() const {
  return state_ == State::startup || state_ == State::probe_bw_refill || state_ == State::probe_bw_up;
}

/// Section 5.3.3.9, and PickProbeWait of section 5.3.3.8.3.
void Bbr::start_down(TimePoint now) {
  reset_congestion_signals();
  up_acked_per_increment_ = unbounded;
  rounds_since_probe_up_ = prng_.below(2);
  probe_wait_ = seconds(2) + Duration(static_cast<Duration::rep>(prng_.below(1'000'000'000)));
  cycle_at_ = now;
  ack_phase_ = AckPhase::probe_stopping;
  start_round();
  settled_delivered_ = delivered_;
  state_ = State::probe_bw_down;
}

void Bbr::start_cruise() { state_ = State::probe_bw_cruise; }

void Bbr::start_refill() {
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
      if (time_to_probe(now)) {
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
  return now > cycle_at_ + probe_wait_ || rounds_since_probe_up_ >= reno_rounds;
}

bool Bbr::time_to_cruise() const { return in_flight_ <= inflight_with_headroom() && in_flight_ <= drained_inflight(); }

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
    probe_sample_ = false;
    ack_phase_ = AckPhase::init;
    if (in_probe_bw() && !limited(*delivery.newest)) {
      max_bw_[1] = std::exchange(max_bw_[0], 0);  // AdvanceMaxBwFilter
    }
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
    start_down(now);
    start_cruise();
  } else {
    enter_startup();
  }
}

// --- Pacing and window ---------------------------------------------------------------------------------------------

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
      return crowded_ ? crowded_pacing_gain : 1;
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
  if (state_ == State::startup) {
    return queue_evident() ? braking_window_gain : startup_window_gain;
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
  } else if (window_ < most || delivered_ < initial_datagrams * datagram_) {
    window_ += part(startup_window_growth, delivery.newly_delivered_bytes);
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
