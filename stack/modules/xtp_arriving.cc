// SPDX-License-Identifier: Apache-2.0

// An association of `xtp`: what comes.

#include <algorithm>
#include <utility>

#include "stack/modules/xtp_association.h"

namespace sluice::xtp {
namespace {

/// Whether `a` is later than `b`, as numbers that wrap around.
[[nodiscard]] bool is_later(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

}  // namespace

void Association::arrive(Packet packet, TimePoint now) {
  if (state_ == State::closed) {
    return;
  }
  if (state_ == State::opening) {
    if (!established_by(packet, now)) {
      return;
    }
  } else if (packet.from != remote_) {
    ++statistics_.strangers;
    return;
  }
  if (contradicts(packet)) {
    ++statistics_.contradictions;
    return;
  }
  last_heard_ = now;
  unanswered_ = 0;
  probing_ = false;
  happens(Event::heard, now);
  const Header& header = packet.header;
  if (is_later(header.sync, echo_)) {
    echo_ = header.sync;
  }
  if (header.is_control()) {
    control_arrived(packet.control, now);
  } else if (packet.data) {
    data_arrived(packet);
  }
  if (header.has(Header::write_closed)) {
    peer_end_ = header.sequence + (header.is_control() ? 0 : header.length);
    if (header.has(Header::no_error) && *peer_end_ > inbox_->next()) {
      statistics_.skipped += *peer_end_ - inbox_->next();
      inbox_->skip_to(*peer_end_);
    }
  }
  if (peer_end_ && !peer_finished_ && inbox_->next() == *peer_end_) {
    happens(Event::peer_finished, now);
  }
  if (header.has(Header::read_closed) && header.is_control() && packet.control.received == sent_.end() &&
      (state_ == State::closing || state_ == State::ending)) {
    happens(Event::all_confirmed, now);
  }
  if (header.has(Header::end)) {
    if (state_ == State::over) {
      send_status(now);  // the peer may need it, and nothing will be left here that could answer
    }
    return happens(Event::end, now);
  }
  if (header.has(Header::status_on_read)) {
    const Position asked = header.sequence + (header.is_control() ? 0 : header.length);
    tell_when_taken_ = std::max(tell_when_taken_.value_or(0), asked);
  }
  status_due_ = status_due_ || header.has(Header::status_now);
  note_taken();
  output(now);
}

/// What a caller hears: TCNTL opens the association, END refuses it, and CNTL says that the call is being considered.
/// The peer may answer from another address than it was called at. Whether there is more to be done with the packet.
bool Association::established_by(const Packet& packet, TimePoint now) {
  if (packet.header.has(Header::end)) {
    happens(Event::end, now);
    return false;
  }
  if (packet.header.type != Header::Type::tcntl) {
    unanswered_ = 0;
    return false;
  }
  if (contradicts(packet)) {
    ++statistics_.contradictions;
    return false;
  }
  remote_ = packet.from;
  peer_key_ = packet.control.exchanged_key;
  inbox_.emplace(packet.header.sequence);
  adopt(packet.control.traffic);
  backoff_ = 0;
  status_at_ = never;
  happens(Event::answered, now);
  return true;
}

/// What the peer takes, and how fast.
void Association::adopt(const wire::XtpTraffic& traffic) {
  const auto lower = [](std::uint32_t mine, std::uint32_t theirs) {
    return mine == 0 || (theirs != 0 && theirs < mine) ? theirs : mine;
  };
  data_bytes_max_ = lower(data_bytes_max_, traffic.data_bytes);
  options_.rate = lower(options_.rate, traffic.in_rate);
  options_.burst = lower(options_.burst, traffic.in_burst);
}

/// Whether the packet speaks of what was never sent, or takes back what was said.
bool Association::contradicts(const Packet& packet) const {
  const Header& header = packet.header;
  if (header.is_control()) {
    const Control& control = packet.control;
    if (control.received > next_ || is_later(control.echo, sync_) ||
        (control.span_count > 0 && control.spans[control.span_count - 1].right > next_)) {
      return true;
    }
  }
  const Position end = header.sequence + (header.is_control() ? 0 : header.length);
  if (peer_end_ && (end > *peer_end_ || (header.has(Header::write_closed) && end != *peer_end_))) {
    return true;
  }
  // What is said to be the end lies before what has come.
  return header.has(Header::write_closed) && inbox_ && end < inbox_->next();
}

// ---- Control ----

void Association::control_arrived(const Control& control, TimePoint now) {
  const bool moves = control.received > sent_.begin() || control.allocated > peer_allocation_;
  measure(control.echo, now);
  peer_allocation_ = std::max(peer_allocation_, control.allocated);
  release_to(control.received);
  mark(control);
  if (moves) {
    backoff_ = 0;
    status_at_ = never;  // armed anew with what is sent, or still awaited
  }
  watch(now);
}

void Association::release_to(Position received) {
  while (!under_way_.empty() && under_way_.front().range.end <= received) {
    lost_ -= under_way_.front().lost ? 1U : 0U;
    under_way_.pop_front();
  }
  // Without error control nothing waits for this, and everything up to next_ is gone already.
  const Position kept = under_way_.empty() ? next_ : under_way_.front().range.begin;
  if (kept > sent_.begin()) {
    sent_.release_to(kept);
    news_.acknowledged = true;
  }
}

/// What was sent no later than what is echoed, and has not come, is lost. A list that is full may go on.
void Association::mark(const Control& control) {
  const bool whole = control.span_count < Control::spans_max;
  const Position known_to = whole || control.span_count == 0 ? next_ : control.spans[control.span_count - 1].right;
  std::size_t span = 0;
  for (UnderWay& one : under_way_) {
    while (span < control.span_count && control.spans[span].right < one.range.end) {
      ++span;
    }
    if (span < control.span_count && control.spans[span].left <= one.range.begin) {
      one.held = true;
      lost_ -= one.lost ? 1U : 0U;
      one.lost = false;
    } else if (!one.held && !one.lost && one.range.end <= known_to && !is_later(one.sync, control.echo)) {
      one.lost = true;
      ++lost_;
    }
  }
}

void Association::measure(std::uint32_t echo, TimePoint now) {
  if (!timed_sync_ || is_later(*timed_sync_, echo)) {
    return;
  }
  if (*timed_sync_ == echo) {
    const Duration sample = std::max<Duration>(now - timed_at_, std::chrono::microseconds(1));
    if (smoothed_ == Duration::zero()) {
      smoothed_ = sample;
      variation_ = sample / 2;
    } else {
      const Duration deviation = smoothed_ > sample ? smoothed_ - sample : sample - smoothed_;
      variation_ += (deviation - variation_) / 4;
      smoothed_ += (sample - smoothed_) / 8;
    }
  }
  timed_sync_.reset();
}

// ---- Data ----

void Association::data_arrived(Packet& packet) {
  const Header& header = packet.header;
  const Position begin = header.sequence;
  const Position end = begin + header.length;
  const bool ends_message = header.has(Header::end_of_message);
  if (end <= inbox_->next()) {
    ++statistics_.duplicates;
    return;
  }
  if (end > std::max(offered_, allocation())) {
    ++statistics_.beyond;
    return;
  }
  const bool behind_gap = begin > inbox_->next();
  if (behind_gap && header.has(Header::no_error) && !inbox_->has_gap()) {
    statistics_.skipped += begin - inbox_->next();
    inbox_->skip_to(begin);
  } else if (behind_gap && !options_.selective) {
    ++statistics_.behind_gaps;
    if (header.has(Header::fast_nak) && std::exchange(nak_sent_, inbox_->next()) != inbox_->next()) {
      status_due_ = true;
    }
    return;
  }
  const Position known_to = inbox_->end();
  if (!inbox_->insert(begin, std::move(packet.data), ends_message)) {
    ++statistics_.beyond;
    return;
  }
  if (inbox_->has_gap() && begin > known_to && header.has(Header::fast_nak)) {
    status_due_ = true;  // a gap has opened
  }
}

/// What DREQ asks for is due when the user has read that far.
void Association::note_taken() {
  if (tell_when_taken_ && inbox_->taken() >= *tell_when_taken_) {
    tell_when_taken_.reset();
    status_due_ = true;
  }
}

}  // namespace sluice::xtp
