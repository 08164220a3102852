// SPDX-License-Identifier: Apache-2.0

// A TCP connection: what a segment does to it, in the order of RFC 9293 section 3.10.7.

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/modules/tcp_connection.h"

namespace sluice::tcp {

using namespace wire;  // tcp_syn and the other flags

namespace {

/// Whether timestamp `a` is before `b` (RFC 7323 section 5.2), as sequence numbers are compared.
[[nodiscard]] bool is_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace

// ---- Opening ----

/// RFC 9293 section 3.10.7.3.
void Connection::arrive_in_syn_sent(Segment& segment, TimePoint now) {
  const TcpHeader& header = segment.header;
  const bool acknowledges = header.has(tcp_ack);
  const bool acceptable = acknowledges && header.acknowledgment == sequence_number(next_);
  if (acknowledges && !acceptable) {
    // "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST bit is set [...]) <SEQ=SEG.ACK><CTL=RST>"
    if (!header.has(tcp_rst)) {
      send_reset(header.acknowledgment);
    }
    return;
  }
  if (header.has(tcp_rst)) {
    return acceptable ? close(ECONNREFUSED) : void();
  }
  if (!header.has(tcp_syn)) {
    return;
  }
  read_handshake(segment, now);
  offered_until_ += syn_window();
  if (!acceptable) {  // both ends open at once
    state_ = State::syn_received;
    return send_syn(now);
  }
  establish(now);
  acknowledge_now_ = true;
  const Position at = received_->next();
  data_arrived(segment, at, now);
}

/// What a SYN says: where its sender's numbers begin, its window, which RFC 7323 section 2.2 has never scaled ("The
/// window field in a segment where the SYN bit is set [...] MUST NOT be scaled"), and what it can.
void Connection::read_handshake(const Segment& syn, TimePoint now) {
  const Position peer_first = first_position(syn.header.sequence);
  received_.emplace(peer_first + 1);
  offered_until_ = received_->next();
  window_sequence_ = peer_first;
  peer_window_ = peer_window_max_ = syn.header.window;
  const TcpOptions& options = syn.options;
  if (options.segment_bytes_max) {
    peer_segment_bytes_ = std::max(*options.segment_bytes_max, segment_bytes_min);
  }
  scales_ = options.window_scale.has_value();
  peer_scale_ = std::min<unsigned>(options.window_scale.value_or(0), scale_max);
  scale_ = scales_ ? scale_ : 0;
  selective_ = options.sack_permitted;
  stamps_ = options.timestamps.has_value();
  recent_stamp_ = stamps_ ? options.timestamps->value : 0;
  recent_stamp_at_ = now;
}

// ---- Every other state ----

void Connection::arrive(Segment segment, TimePoint now) {
  if (state_ == State::closed) {
    return;
  }
  if (state_ == State::syn_sent) {
    arrive_in_syn_sent(segment, now);
  } else {
    arrive_synchronized(segment, now);
  }
  acknowledge_now_ = acknowledge_now_ || unacknowledged_segments_ >= segments_together_max;
  if (acknowledge_now_ || repair_now_) {
    output(now);
  }
}

void Connection::settle(TimePoint now) {
  acknowledge_now_ = acknowledge_now_ || unacknowledged_segments_ >= segments_unacknowledged_max;
  output(now);
}

void Connection::arrive_synchronized(Segment& segment, TimePoint now) {
  const TcpHeader& header = segment.header;
  const Position at = position_near(received_->next(), header.sequence);
  if (lacks_stamp(segment)) {
    ++statistics_.unacceptable;
    return;
  }
  if (is_too_old(segment, now) || !is_acceptable(segment, at)) {
    return unacceptable_arrived(segment, at, now);
  }
  if (header.has(tcp_rst)) {
    return reset_arrived(at, now);
  }
  // RFC 5961 section 4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK [...] to
  // the remote peer".
  if (header.has(tcp_syn)) {
    return challenge(now);
  }
  if (!header.has(tcp_ack)) {
    return;  // "if the ACK bit is off, drop the segment and return"
  }
  heard_at_ = now;
  keep_alives_ = 0;
  // RFC 7323 section 4.3 (2).
  if (stamps_ && at <= stamped_until_) {
    recent_stamp_ = segment.options.timestamps->value;
    recent_stamp_at_ = now;
  }
  if (acknowledgement_arrived(segment, at, now)) {
    data_arrived(segment, at, now);
  }
}

/// RFC 7323 section 3.2: "If a non-<RST> segment is received without a TSopt, a TCP SHOULD silently drop the segment."
bool Connection::lacks_stamp(const Segment& segment) const {
  return stamps_ && !segment.options.timestamps && !segment.header.has(tcp_rst);
}

/// RFC 7323 section 5.3, R1 (PAWS). Section 5.5: what was noted so long ago that the peer's clock may have gone half
/// around since is no measure any more.
bool Connection::is_too_old(const Segment& segment, TimePoint now) const {
  return stamps_ && !segment.header.has(tcp_rst) && is_before(segment.options.timestamps->value, recent_stamp_) &&
         now - recent_stamp_at_ < stamp_life_max;
}

/// RFC 9293 section 3.4, the table of "Segment Acceptability Tests".
bool Connection::is_acceptable(const Segment& segment, Position at) const {
  const Position begin = received_->next();
  const Position end = offered_end();
  const std::uint64_t length = segment.length();
  const auto is_within = [&](Position position) { return begin <= position && position < end; };
  if (length == 0) {
    return at == begin || is_within(at);
  }
  return is_within(at) || is_within(at + length - 1);
}

/// RFC 9293 section 3.10.7.4: "If an incoming segment is not acceptable, an acknowledgment should be sent in reply
/// (unless the RST bit is set, if so drop the segment and return)"; "If the RCV.WND is zero, no segments will be
/// acceptable, but special allowance should be made to accept valid ACKs".
void Connection::unacceptable_arrived(Segment& segment, Position at, TimePoint now) {
  const TcpHeader& header = segment.header;
  const bool syn = header.has(tcp_syn);
  if (state_ == State::syn_received && syn && at + 1 == received_->next()) {  // the peer's SYN once more
    if (!header.has(tcp_ack)) {
      return send_syn(now);  // our answer was lost
    }
    if (header.acknowledgment == sequence_number(next_)) {  // both ends have opened at once
      establish(now);
      acknowledge_now_ = true;
      return;
    }
  }
  ++statistics_.unacceptable;
  if (header.has(tcp_rst)) {
    return;
  }
  if (state_ == State::time_wait && header.has(tcp_fin) && at + segment.length() == received_->next()) {
    wait_out(now);  // "Acknowledge it, and restart the 2 MSL timeout."
  }
  if (at == received_->next() && header.has(tcp_ack) && !syn && !is_too_old(segment, now)) {
    static_cast<void>(acknowledgement_arrived(segment, at, now));
  }
  if (state_ == State::closed) {
    return;
  }
  if (segment.data_size() > 0 || header.has(tcp_fin)) {
    acknowledge_now_ = true;
  } else {
    challenge(now);
  }
}

/// RFC 5961 section 3.2: "If the RST bit is set and the sequence number exactly matches the next expected sequence
/// number (RCV.NXT), then TCP MUST reset the connection"; within the window otherwise, "TCP MUST send an
/// acknowledgment (challenge ACK)".
void Connection::reset_arrived(Position at, TimePoint now) {
  if (at != received_->next()) {
    return challenge(now);
  }
  // Of one whose both ends have been said there is nothing left to tell: "enter the CLOSED state, delete the TCB".
  const bool over = state_ == State::closing || state_ == State::last_ack || state_ == State::time_wait;
  close(state_ == State::syn_received ? ECONNREFUSED : over ? 0 : ECONNRESET);
}

void Connection::challenge(TimePoint now) {
  if (now - challenges_since_ >= std::chrono::seconds(1)) {
    challenges_since_ = now;
    challenges_ = 0;
  }
  if (challenges_ < challenges_max) {
    ++challenges_;
    ++statistics_.challenges;
    acknowledge_now_ = true;
  }
}

// ---- Acknowledgements ----

/// Whether the rest of the segment counts.
bool Connection::acknowledgement_arrived(const Segment& segment, Position at, TimePoint now) {
  const Position acknowledged = position_near(next_, segment.header.acknowledgment);
  if (state_ == State::syn_received) {
    if (acknowledged != next_) {
      // "If the segment acknowledgment is not acceptable, form a reset segment <SEQ=SEG.ACK><CTL=RST>"
      send_reset(segment.header.acknowledgment);
      return false;
    }
    window_sequence_ = at;
    peer_window_ = window_of(segment);
    peer_window_max_ = std::max(peer_window_max_, peer_window_);
    establish(now);
    return true;
  }
  // RFC 5961 section 5.2: "The ACK value is considered acceptable only if it is in the range of ((SND.UNA -
  // MAX.SND.WND) <= SEG.ACK <= SND.NXT). All incoming segments whose ACK value doesn't satisfy the above condition MUST
  // be discarded and an ACK sent back."
  if (acknowledged > next_ || acknowledged + peer_window_max_ < acknowledged_) {
    challenge(now);
    return false;
  }
  advance(segment, at, acknowledged, now);
  return state_ != State::closed;
}

void Connection::advance(const Segment& segment, Position at, Position acknowledged, TimePoint now) {
  std::array<Range, TcpOptions::sack_blocks_max> runs;
  std::size_t run_count = 0;
  for (std::size_t block = 0; selective_ && block < segment.options.sack_count; ++block) {
    const SackBlock& sack = segment.options.sack[block];
    const Range run{position_near(next_, sack.left), position_near(next_, sack.right)};
    if (acknowledged < run.begin && run.begin < run.end && run.end <= next_) {
      runs[run_count++] = run;
    }
  }
  // RFC 5681 section 2, "DUPLICATE ACKNOWLEDGMENT".
  const bool duplicate = acknowledged == acknowledged_ && !board_.empty() && segment.length() == 0 &&
                         peer_window_ > 0 && window_of(segment) == peer_window_;
  const std::optional<Duration> echo = echoed(segment, acknowledged, now);
  const Scoreboard::Progress progress = board_.acknowledged(acknowledged, std::span(runs).first(run_count), now);
  if (const auto round_trip = progress.round_trip ? progress.round_trip : echo) {
    round_trip_.measured(*round_trip);
  }
  if (acknowledged > acknowledged_ || progress.bytes > 0 || duplicate) {
    timeouts_in_a_row_ = 0;  // the path carries what is sent
  }
  const bool was_shut = peer_window_ == 0;
  update_window(segment, at, acknowledged);
  if (was_shut && peer_window_ > 0 && probes_ > 0 && !board_.empty()) {
    board_.front_lost();  // the probe had no place in the window
  }
  const bool fin_acknowledged = fin_sent_ && acknowledged == fin_position() + 1;
  if (acknowledged > acknowledged_) {
    acknowledged_ = acknowledged;
    sent_.release_to(std::min(acknowledged, sent_.end()));
    news_.acknowledged = true;
    waiting_since_ = never;
    retransmit_at_ = never;  // RFC 6298 (5.3): it begins anew
    if (black_hole_ && black_hole_->probe_end != 0 && acknowledged_ >= black_hole_->probe_end) {
      path_probe_arrived(now);
    }
  } else if (peer_window_ == 0) {
    waiting_since_ = now;  // a peer that answers is waited for without end
  }
  const bool repairing = recovering_until_ && !timed_out_;
  const bool after_timeout = timed_out_;
  if (recovering_until_ && acknowledged_ >= *recovering_until_) {
    recovered_until_ = *recovering_until_;
    recovering_until_.reset();
    timed_out_ = false;
  } else if (recovering_until_ && !selective_ && progress.bytes > 0 && !board_.empty()) {
    board_.front_lost();  // RFC 6582 section 3.2 (3), "Partial acknowledgments"
    repair_now_ = true;
  }
  if (!repairing) {
    congestion_.acknowledged(progress.bytes, window_limited_ || timed_out_, after_timeout);
  }
  repair(duplicate, now);
  if (fin_acknowledged) {
    this->fin_acknowledged(now);
  }
}

/// RFC 6298 section 3: what was sent again is not measured, except where "the timestamp option removes the ambiguity
/// regarding which instance of the data segment triggered the acknowledgment": the stamp comes back that the first
/// segment had when it left last.
std::optional<Duration> Connection::echoed(const Segment& segment, Position acknowledged, TimePoint now) const {
  if (!stamps_ || board_.empty() || acknowledged < board_.front().range.end ||
      segment.options.timestamps->echo != timestamp(board_.front().at)) {
    return std::nullopt;
  }
  return now - board_.front().at;
}

/// Finds what is lost; loss recovery begins with the first, which leaves whatever the window says (RFC 6675 section 5
/// (4.3), RFC 5681 section 3.2 step 3). Without selective acknowledgement it does not begin twice for the same bytes:
/// RFC 6582 section 3.2 (2), "to see if the Cumulative Acknowledgment field covers more than recover".
void Connection::repair(bool duplicate, TimePoint now) {
  bool lost = false;
  reordering_at_ = never;
  if (selective_) {
    reordering_at_ =
        board_.detect_losses(now, round_trip_.least(), round_trip_.smoothed(), recovering_until_.has_value(), lost)
            .value_or(never);
  } else if (duplicate && !recovering_until_ && acknowledged_ > recovered_until_) {
    lost = board_.duplicate();
  }
  if (lost && !recovering_until_) {
    repair_now_ = true;
    if (!is_path_probe_lost_alone()) {
      congestion_.lost(board_.flight_bytes());
      recovering_until_ = next_;
    }
  }
}

/// "If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be updated. If (SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ
/// and SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND": SND.WL2, which is never beyond SND.UNA, need not be kept for
/// that.
void Connection::update_window(const Segment& segment, Position at, Position acknowledged) {
  if (acknowledged < acknowledged_ || window_sequence_ > at) {
    return;
  }
  peer_window_ = window_of(segment);
  peer_window_max_ = std::max(peer_window_max_, peer_window_);
  window_sequence_ = at;
}

void Connection::fin_acknowledged(TimePoint now) {
  switch (state_) {
    case State::fin_wait_1:
      state_ = State::fin_wait_2;
      break;
    case State::closing:
      wait_out(now);
      break;
    case State::last_ack:
      close(0);
      break;
    default:
      break;
  }
}

// ---- Data ----

/// What is behind the window, or behind the peer's FIN, is dropped.
void Connection::data_arrived(Segment& segment, Position at, TimePoint now) {
  if (state_ != State::established && state_ != State::fin_wait_1 && state_ != State::fin_wait_2) {
    acknowledge_now_ = acknowledge_now_ || segment.length() > 0;
    return;
  }
  const Position end = at + segment.data_size();
  const Position limit = std::min(offered_end(), fin_at_.value_or(UINT64_MAX));
  if (segment.header.has(tcp_fin) && end <= limit) {
    fin_at_ = fin_at_.value_or(end);
  }
  if (segment.data_size() > 0) {
    keep_data(segment, at, std::min(end, limit), now);
  }
  if (fin_at_ && *fin_at_ == received_->next() && !fin_received_) {
    fin_arrived(now);
  } else if (segment.header.has(tcp_fin)) {
    acknowledge_now_ = true;
  }
}

/// RFC 5681 section 4.2: "Out-of-order data segments SHOULD be acknowledged immediately"; section 3.2: "a TCP receiver
/// SHOULD send an immediate ACK when the incoming segment fills in all or part of a gap in the sequence space".
void Connection::keep_data(Segment& segment, Position at, Position end, TimePoint now) {
  Message data = std::move(segment.data);
  if (end <= at) {
    acknowledge_now_ = true;
    return;
  }
  if (const std::uint64_t beyond = at + data.data_size() - end; beyond > 0) {
    data.trim_back(static_cast<std::size_t>(beyond));
  }
  const bool in_order = at <= received_->next() && end > received_->next() && !received_->has_gap();
  // What waits behind a gap may wait for long, and be cut: not in memory that its owner wants back.
  if ((!in_order && data.keep() == TransformResult::failed) || !received_->insert(at, std::move(data))) {
    ++statistics_.no_memory;
  }
  if (!in_order) {
    acknowledge_now_ = true;
    return;
  }
  unacknowledged_segments_ += static_cast<unsigned>(segment.count);
  if (acknowledge_at_ == never) {
    acknowledge_at_ = now + acknowledgement_delay;
  }
}

void Connection::fin_arrived(TimePoint now) {
  received_->pass_fin();
  fin_received_ = true;
  acknowledge_now_ = true;
  switch (state_) {
    case State::established:
      state_ = State::close_wait;
      break;
    case State::fin_wait_1:
      state_ = State::closing;
      break;
    default:
      wait_out(now);
      break;
  }
}

}  // namespace sluice::tcp
