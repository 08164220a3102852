// SPDX-License-Identifier: Apache-2.0

// A TCP connection: its user's calls, its timers, its end.

#include "stack/modules/tcp_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/contract.h"

namespace sluice::tcp {

using namespace wire;  // tcp_syn and the other flags

unsigned Connection::scale_for(std::size_t receive_buffer_bytes) {
  unsigned scale = 0;
  while (scale < scale_max && receive_buffer_bytes >> scale > UINT16_MAX) {
    ++scale;
  }
  return scale;
}

std::uint16_t Connection::syn_window_of(std::size_t receive_buffer_bytes) {
  return static_cast<std::uint16_t>(std::min<std::size_t>(receive_buffer_bytes, UINT16_MAX));
}

std::uint32_t Connection::timestamp_at(TimePoint now, std::uint32_t offset) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  return static_cast<std::uint32_t>(milliseconds) + offset;
}

Connection::Connection(BufferPool& pool, const Ends& ends, const Settings& settings, const Secrets& secrets)
    : pool_(pool),
      ends_(ends),
      settings_(settings),
      secrets_(secrets),
      first_(first_position(secrets.first_sequence_number)),
      next_(first_),
      acknowledged_(first_),
      sent_(first_ + 1),
      peer_segment_bytes_(ends.remote.address.is_v4() ? segment_bytes_default_v4 : segment_bytes_default_v6),
      congestion_(settings.segment_bytes),
      scale_(scale_for(settings.receive_buffer_bytes)) {}

void Connection::set_keep_alive(const KeepAlive& wanted, TimePoint now) {
  settings_.keep_alive = wanted;
  output(now);
}

wire::ConnectionInfo Connection::info() const {
  // RFC 9293 section 3.3.2 in the order of State, as tcpi_state numbers them.
  constexpr std::array<std::uint32_t, 10> states{7, 2, 3, 1, 4, 5, 8, 11, 9, 6};
  const auto microseconds = [](Duration time) {
    return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  };
  const bool measured = round_trip_.smoothed() > Duration::zero();
  const Position acknowledged = board_.empty() ? next_ : acknowledged_;
  return {.state = states[static_cast<std::size_t>(state_)],
          .segment_bytes = static_cast<std::uint32_t>(segment_data_max()),
          .peer_segment_bytes = settings_.segment_bytes,
          .round_trip_us = microseconds(round_trip_.smoothed()),
          .round_trip_variation_us = microseconds(round_trip_.variation()),
          .round_trip_least_us = measured ? microseconds(round_trip_.least()) : 0,
          .timeout_us = microseconds(round_trip_.timeout()),
          .options = (stamps_ ? 1U : 0U) | (selective_ ? 2U : 0U) | (scales_ ? 4U : 0U),
          .send_scale = peer_scale_,
          .receive_scale = scales_ ? scale_ : 0,
          .congestion_window = congestion_.window(),
          .peer_window = peer_window_,
          .unacknowledged = next_ - std::min(acknowledged, next_),
          .unsent = sent_.end() - std::min(next_, sent_.end()),
          .received_waiting = ready_bytes(),
          .segments_sent = statistics_.segments_sent,
          .segments_again = statistics_.segments_again,
          .timeouts = statistics_.timeouts};
}

void Connection::set_buffers(std::size_t send_bytes, std::size_t receive_bytes, TimePoint now) {
  if (settings_.send_buffer_bytes == send_bytes && settings_.receive_buffer_bytes == receive_bytes) {
    return;
  }
  settings_.send_buffer_bytes = send_bytes;
  settings_.receive_buffer_bytes = receive_bytes;
  open_window(now);
}

// ---- The user's calls ----

void Connection::connect(TimePoint now) {
  SLUICE_REQUIRE(state_ == State::closed && next_ == first_);
  state_ = State::syn_sent;
  next_ = first_ + 1;
  waiting_since_ = now;
  send_syn(now);
}

void Connection::answer(const Segment& syn, TimePoint now) {
  SLUICE_REQUIRE(state_ == State::closed && next_ == first_);
  state_ = State::syn_received;
  next_ = first_ + 1;
  waiting_since_ = now;
  read_handshake(syn, now);
  send_syn(now);
}

void Connection::answered(const Segment& syn, TimePoint now) {
  SLUICE_REQUIRE(state_ == State::closed && next_ == first_);
  state_ = State::syn_received;
  next_ = first_ + 1;
  read_handshake(syn, now);
  offered_until_ += syn_window();
}

std::size_t Connection::send_room() const {
  return settings_.send_buffer_bytes - std::min(settings_.send_buffer_bytes, sent_.size());
}

std::optional<std::size_t> Connection::waiting_before(std::uint32_t sequence) const {
  const bool comes_next =
      received_ && !received_->has_gap() && position_near(received_->next(), sequence) == received_->next();
  return comes_next ? std::optional(received_->ready_bytes()) : std::nullopt;
}

void Connection::send(Message data, TimePoint now) {
  SLUICE_REQUIRE(may_send());
  sent_.append(std::move(data));
  output(now);
}

/// RFC 9293 section 3.10.4: "Queue this until all preceding SENDs have been segmentized, then form a FIN segment and
/// send it. In any case, enter FIN-WAIT-1 state."
void Connection::finish(TimePoint now) {
  if (finishing_) {
    return;
  }
  finishing_ = true;
  if (state_ == State::established) {
    state_ = State::fin_wait_1;
  } else if (state_ == State::close_wait) {
    state_ = State::last_ack;
  }
  output(now);
}

/// RFC 9293 section 3.10.5: "Send a reset segment: <SEQ=SND.NXT><CTL=RST>"; before the peer has said anything, and
/// where both ends have said everything, there is nobody to be told.
void Connection::abort() {
  if (state_ >= State::syn_received && !(fin_sent_ && fin_received_)) {
    send_reset(sequence_number(next_));
  }
  close(ECONNABORTED);
  news_ = {};
}

Message Connection::take(TimePoint now, std::size_t bytes_max) {
  if (!received_ || received_->ready_bytes() == 0) {
    return {};
  }
  Message data = received_->take(bytes_max);
  open_window(now);
  return data;
}

/// Tells the peer, where there is enough to tell of.
void Connection::open_window(TimePoint now) {
  if (is_synchronized() && !fin_received_ && window_opens()) {
    acknowledge_now_ = true;
    output(now);
  }
}

Connection::News Connection::take_news() {
  if (fin_received_ && !end_told_ && ready_bytes() == 0) {
    end_told_ = true;
    news_.ended = true;
  }
  return std::exchange(news_, {});
}

// ---- What the network says ----

void Connection::network_failed(int error) {
  if (state_ == State::syn_sent) {
    close(error);
  }
  // RFC 4821 section 7.7 asks of a black hole that "there was not an ICMP message indicating a reason".
  timeouts_in_a_row_ = 0;
}

// ---- Timers ----

TimePoint Connection::next_deadline() const {
  return std::min({retransmit_at_, acknowledge_at_, probe_at_, reordering_at_, keep_alive_at_, over_at_});
}

/// A process that was stopped, or computed for long, has not waited: nobody asked for what had come.
void Connection::on_timer(TimePoint now) {
  if (waiting_since_ != never && next_deadline() < now) {
    waiting_since_ += now - next_deadline();
  }
  if (over_at_ <= now) {
    return close(0);
  }
  if (acknowledge_at_ <= now) {
    acknowledge_now_ = true;
  }
  if (reordering_at_ <= now) {
    repair(false, now);
  }
  if (retransmit_at_ <= now) {
    retransmission_due(now);
  }
  if (probe_at_ <= now) {
    probe_due(now);
  }
  if (keep_alive_at_ <= now) {
    keep_alive_due(now);
  }
  output(now);
}

bool Connection::has_waited_too_long(TimePoint now) const {
  const Duration time_max = is_synchronized() ? silence_max : opening_time_max;
  return waiting_since_ != never && now - waiting_since_ >= time_max;
}

/// RFC 6298 section 5: "(5.4) Retransmit the earliest segment that has not been acknowledged", "(5.5) The host MUST set
/// RTO <- RTO * 2", "(5.6) Start the retransmission timer".
void Connection::retransmission_due(TimePoint now) {
  retransmit_at_ = never;
  if (has_waited_too_long(now)) {
    return close(ETIMEDOUT);
  }
  ++statistics_.timeouts;
  round_trip_.timed_out();
  if (!is_synchronized()) {
    return send_syn(now);
  }
  // What did not leave for want of memory, or is known to have arrived, tells nothing of the path.
  if (board_.front().state == Scoreboard::Sent::State::under_way && ++timeouts_in_a_row_ > black_hole_retransmissions) {
    avoid_black_hole(now);
  }
  congestion_.timed_out(board_.flight_bytes(), board_.front().again);
  board_.all_lost();
  recovering_until_ = next_;
  timed_out_ = true;
}

/// RFC 9293 section 3.8.6.1: a window of zero is probed, for as long as the peer answers.
void Connection::probe_due(TimePoint now) {
  probe_at_ = never;
  if (has_waited_too_long(now)) {
    return close(ETIMEDOUT);
  }
  ++probes_;
  probe(now);
}

/// RFC 9293 section 3.8.4: "To confirm that an idle connection is still active, these implementations send a probe
/// segment designed to elicit a response from the TCP peer. Such a segment generally contains SEG.SEQ = SND.NXT-1", and
/// "An implementation SHOULD send a keep-alive segment with no data (SHLD-12)".
void Connection::keep_alive_due(TimePoint now) {
  if (keep_alives_ >= settings_.keep_alive.probes_max) {
    return close(ETIMEDOUT);
  }
  ++keep_alives_;
  heard_at_ = now;
  TcpOptions options;
  stamp(options, now);
  static_cast<void>(emit(sequence_number(next_ - 1), tcp_ack, options, {}));
}

/// After everything that sends: what is owed an acknowledgement is watched, and so is what may not leave.
void Connection::arm_timers(TimePoint now) {
  if (state_ == State::closed || state_ == State::time_wait) {
    return;
  }
  const bool waits = !board_.empty() || has_unsent();
  waiting_since_ = !waits ? never : waiting_since_ == never ? now : waiting_since_;
  const bool watched = !board_.empty() && peer_window_ > 0;
  if (watched) {
    probe_at_ = never;
    probes_ = 0;
    retransmit_at_ = retransmit_at_ == never ? now + round_trip_.timeout() : retransmit_at_;
  } else {
    retransmit_at_ = never;
    const Duration pause =
        std::min(Duration(round_trip_.timeout() * (1LL << std::min(probes_, 16U))), RoundTrip::timeout_max);
    probe_at_ = !waits ? never : probe_at_ == never ? now + pause : probe_at_;
  }
  // RFC 9293 section 3.8.4: "Keep-alive packets MUST only be sent when no sent data is outstanding, and no data or
  // acknowledgment packets have been received for the connection within an interval (MUST-26)."
  const bool keeps_alive = !waits && settings_.keep_alive.after > Duration::zero();
  keep_alive_at_ =
      !keeps_alive ? never : heard_at_ + (keep_alives_ == 0 ? settings_.keep_alive.after : settings_.keep_alive.pause);
}

// ---- The end ----

void Connection::establish(TimePoint now) {
  if (statistics_.timeouts > 0) {
    round_trip_.begin_unmeasured();
  } else if (waiting_since_ != never) {
    round_trip_.measured(now - waiting_since_);
  }
  acknowledged_ = next_;
  heard_at_ = now;
  state_ = finishing_ ? State::fin_wait_1 : State::established;
  news_.opened = true;
  waiting_since_ = retransmit_at_ = never;
  congestion_.begin(segment_data_max(), statistics_.timeouts);
}

/// RFC 9293 section 3.10.7.4: "Enter the TIME-WAIT state. Start the time-wait timer, turn off the other timers."
void Connection::wait_out(TimePoint now) {
  state_ = State::time_wait;
  retransmit_at_ = probe_at_ = reordering_at_ = keep_alive_at_ = never;
  over_at_ = now + 2 * segment_life_max;
}

/// What came in order may still be taken where the end is an orderly one.
void Connection::close(int error) {
  state_ = State::closed;
  news_.closed = error;
  sent_.clear();
  board_ = {};
  next_ = sent_.end();
  if (error != 0) {
    received_.reset();
  }
  retransmit_at_ = acknowledge_at_ = probe_at_ = reordering_at_ = keep_alive_at_ = over_at_ = never;
  acknowledge_now_ = finishing_ = false;
}

}  // namespace sluice::tcp
