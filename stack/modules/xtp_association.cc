// SPDX-License-Identifier: Apache-2.0

// An association of `xtp`: its states, its user's calls, and time. xtp_arriving.cc: what comes; xtp_sending.cc: what
// leaves.

#include "stack/modules/xtp_association.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/contract.h"

namespace sluice::xtp {

Association::Association(BufferPool& pool, const wire::TransportAddress& local, const wire::TransportAddress& remote,
                         const Options& options, const Secrets& secrets)
    : pool_(pool),
      local_(local),
      remote_(remote),
      options_(options),
      secrets_(secrets),
      sent_(secrets.first),
      next_(secrets.first),
      message_begin_(secrets.first),
      data_bytes_max_(options.packet_bytes) {}

// ---- States ----

void Association::happens(Event event, TimePoint now, int error) {
  const Row found = row(state_, event);
  state_ = found.next;
  if (state_ == State::closed) {
    status_at_ = over_at_ = never;
  }
  switch (found.action) {
    case Action::none:
      return;
    case Action::call:
      return send_first(now);
    case Action::answer:
      return send_control(Header::Type::tcntl, Header::status_now, now);
    case Action::establish:
      news_.opened = true;
      return;
    case Action::finish:
      return ask(now);
    case Action::tell_end:
      peer_finished_ = true;
      status_due_ = true;
      return;
    case Action::confirmed:
      return;
    case Action::tell_wait:
      peer_finished_ = true;
      [[fallthrough]];
    case Action::wait:
      over_at_ = now + over_time;
      status_due_ = true;
      return;
    case Action::forget:
      news_.closed = 0;
      return;
    case Action::lose:
    case Action::lose_refused:
      news_.closed = error != 0 ? error : found.action == Action::lose ? ECONNRESET : ECONNREFUSED;
      return;
    case Action::lose_expired:
      news_.closed = ETIMEDOUT;
      return send_control(Header::Type::cntl, Header::end, now);
    case Action::give_up:
      news_.closed = 0;
      return send_control(Header::Type::cntl, Header::end, now);
  }
}

// ---- The user ----

void Association::connect(TimePoint now) {
  SLUICE_REQUIRE(state_ == State::closed);
  last_heard_ = now;
  happens(Event::connect, now);
  watch(now);
}

void Association::accept(const Call& call, TimePoint now) {
  SLUICE_REQUIRE(state_ == State::closed);
  last_heard_ = now;
  peer_key_ = call.key;
  echo_ = call.sync;
  inbox_.emplace(call.first);
  adopt(call.traffic);
  happens(Event::accept, now);
  watch(now);
}

void Association::send(Message data, bool ends_message, TimePoint now) {
  SLUICE_REQUIRE(may_send());
  sent_.append(std::move(data));
  if (ends_message) {
    messages_.push_back(sent_.end());
  }
  output(now);
}

void Association::finish(TimePoint now) {
  finishing_ = true;
  output(now);
}

void Association::abort(TimePoint now) {
  happens(Event::abort, now);
  sent_.clear();
}

Inbox::Piece Association::take(TimePoint now) {
  Inbox::Piece piece = inbox_->take();
  note_taken();
  output(now);
  return piece;
}

void Association::refused(int error, TimePoint now) { happens(Event::refused, now, error); }

// ---- Time ----

Duration Association::wtimer() const {
  const Duration measured =
      smoothed_ == Duration::zero() ? wtimer_initial : std::max(smoothed_ + 4 * variation_, options_.wtimer_min);
  return std::min(Duration(measured * (1LL << std::min(backoff_, 10U))), wtimer_max);
}

/// Whether something is to come from the peer.
bool Association::awaits_answer() const {
  switch (state_) {
    case State::closed:
    case State::over:
    case State::count_:
      return false;
    case State::opening:
    case State::accepting:
    case State::closing:
    case State::ending:
      return true;
    case State::open:
    case State::reading:
    case State::writing:
      break;
  }
  return probing_ || starved_ || !under_way_.empty() || is_blocked();
}

/// Arms WTIMER where an answer is awaited.
void Association::watch(TimePoint now) {
  if (!awaits_answer()) {
    status_at_ = never;
  } else if (status_at_ == never) {
    status_at_ = now + wtimer();
  }
}

void Association::wtimer_due(TimePoint now) {
  status_at_ = never;
  if (!awaits_answer()) {
    return;
  }
  ++statistics_.timeouts;
  unanswered_ -= starved_ && unanswered_ > 0 ? 1U : 0U;  // what could not be sent is not answered
  starved_ = false;
  if (++unanswered_ > options_.attempts) {
    return happens(Event::expired, now);
  }
  ++backoff_;
  if (state_ == State::opening) {
    send_first(now);
  } else if (state_ == State::accepting) {
    send_control(Header::Type::tcntl, Header::status_now, now);
  } else {
    ask(now);
  }
}

void Association::on_timer(TimePoint now) {
  if (state_ == State::closed) {
    return;
  }
  if (now >= over_at_) {
    return happens(Event::expired, now);
  }
  if (now >= status_at_) {
    wtimer_due(now);
  }
  if (is_established() && !probing_ && now - last_heard_ >= options_.ctimer) {
    probing_ = true;
    ask(now);
  }
  output(now);
}

TimePoint Association::next_deadline() const {
  if (state_ == State::closed) {
    return never;
  }
  TimePoint next = std::min(status_at_, over_at_);
  if (waits_for_refill_) {
    next = std::min(next, refill_at_);
  }
  if (is_established() && !probing_) {
    next = std::min(next, last_heard_ + options_.ctimer);
  }
  return next;
}

}  // namespace sluice::xtp
