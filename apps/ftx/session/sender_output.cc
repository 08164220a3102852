// SPDX-License-Identifier: Apache-2.0
// What a Sender sends next: the protocol's own datagrams first, then repairs, then what has not been sent.
#include <algorithm>
#include <array>
#include <utility>

#include "apps/ftx/session/sender.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;

constexpr Duration repeat_max = milliseconds(500);
constexpr Duration error_repeat = milliseconds(200);
constexpr Duration probe_backoff_max = milliseconds(500);
/// How many ADUs of the first flight go before the OFFER goes again.
constexpr std::array<std::uint64_t, 4> offers_behind{1, 2, 8, 32};
// How long after the time before an ADU goes again at the end: a part of the round trip, since losses come in runs. On
// a shorter path asking is as fast.
constexpr int copy_interval_part = 32;
constexpr Duration copies_round_trip_min = milliseconds(5);

}  // namespace

void Sender::transmit(TimePoint now, Burst& burst) {
  burst.clear();
  if (compressor_) {
    // Within a burst no time passes, so one that begins behind its time is so as a whole.
    compressor_->policy().set_hurried(false);
  }
  if (scheduler_) {
    scheduler_->release();
  }
  while (!burst.full()) {
    const std::uint64_t before = scheduler_ ? scheduler_->sent_adu_count() : 0;
    const auto datagram = next(now, burst.room());
    if (!datagram) {
      return;
    }
    burst.add(*datagram);
    // What goes to an address that has proven nothing is counted one by one.
    if (scheduler_ && peer_answered_ && scheduler_->sent_adu_count() > before) {
      add_run(now, burst);
    }
    if (scheduler_ && scheduler_->full()) {
      return;
    }
  }
}

std::optional<Outgoing> Sender::next(TimePoint now, Bytes room) {
  tick(now);
  if (state_ == State::greeting) {
    return next_hello(now, room);
  }
  if (const std::size_t size = next_control(now, room); size > 0) {
    return control(room, size);
  }
  if (auto datagram = next_on_path(room)) {
    return datagram;
  }
  if (state_ == State::reading && protection_ && now >= alive_at_ && unproven_bytes_ > 0) {
    alive_at_ = now + alive_interval;
    return control(room, emit_challenge(envelope_, nanoseconds(now), room));
  }
  if (state_ != State::offering && state_ != State::sending) {
    return std::nullopt;
  }
  if (std::exchange(taken_due_, false)) {
    return control(room, emit_taken(envelope_, scheduler_->taken(), room));
  }
  if (std::exchange(noted_due_, false)) {
    return control(room, emit_noted(envelope_, noted_, room));
  }
  // What the receiver must have goes first; later the probe would wait for a gap.
  if (scheduler_->manifest_sent()) {
    if (auto probe = next_path_probe(now, room)) {
      return probe;
    }
  }
  if (offer_again()) {
    ++offered_again_;
    return control(room, offer(room));
  }
  if (auto adu = next_adu(now, room)) {
    return adu;
  }
  if (state_ == State::failing) {
    return control(room, next_control(now, room));  // the source failed: sends ERROR at once
  }
  if (auto probe = next_path_probe(now, room)) {
    return probe;
  }
  if (may_probe(now)) {
    return control(room, probe(now, room));
  }
  return std::nullopt;
}

std::optional<Outgoing> Sender::next_on_path(Bytes room) {
  if (const auto nonce = std::exchange(response_due_, std::nullopt)) {
    return control(room, emit_response(envelope_, *nonce, room));
  }
  if (const auto challenge = path_.take()) {
    Outgoing datagram = control(room, emit_challenge(envelope_, challenge->nonce, room));
    datagram.to = challenge->to;
    return datagram;
  }
  if (state_ == State::offering && may_offer_others()) {
    Outgoing datagram = control(room, offer(room));
    datagram.to = options_.others[next_other_++];
    return datagram;
  }
  return std::nullopt;
}

/// Where the OFFER is lost or late, so is what comes before the next one.
bool Sender::offer_again() const {
  return state_ == State::offering && offered_again_ < offers_behind.size() &&
         sent_adus_.next() > offers_behind[offered_again_] && may_send_data();
}

/// Each round of the OFFER goes to all addresses.
bool Sender::may_offer_others() const { return !peer_answered_ && next_other_ < options_.others.size(); }

Outgoing Sender::control(Bytes out, std::size_t size) {
  if (protection_) {
    size = protection_->seal_control(out, size);
  }
  unproven_bytes_ -= std::min<std::uint64_t>(size, unproven_bytes_);
  return {options_.peer, out.first(size), {}};
}

std::size_t Sender::next_control(TimePoint now, Bytes out) {
  if (state_ == State::over) {
    return std::exchange(close_due_, false) ? emit_close(envelope_, out) : 0;
  }
  if (now < repeat_at_ || state_ == State::reading) {
    return 0;
  }
  if (state_ == State::failing) {
    if (errors_left_-- == 0) {
      end(now, failure_);
      return 0;
    }
    repeat_at_ = now + error_repeat;
    return emit_error(envelope_, {static_cast<std::uint16_t>(failure_.code), failure_.text}, out);
  }
  repeat_at_ = now + repeat_interval_;
  repeat_interval_ = std::min(repeat_interval_ * 2, repeat_max);
  asked_at_ = now;
  if (state_ == State::offering) {
    next_other_ = 0;
    return unproven_bytes_ < control_bytes_max ? 0 : offer(out);
  }
  return 0;
}

std::optional<Outgoing> Sender::next_hello(TimePoint now, Bytes room) {
  const auto to = attempts_.next(now);
  if (!to) {
    return std::nullopt;
  }
  asked_at_ = now;
  return Outgoing{*to, room.first(emit_hello(envelope_, {nanoseconds(now), adu_bytes_}, room)), {}};
}

std::size_t Sender::offer(Bytes out) const {
  Offer offer;
  offer.cookie = cookie_;
  offer.total_bytes = scheduler_->total_bytes();
  offer.adu_bytes = slot_bytes();
  offer.files = static_cast<std::uint32_t>(source_.files().size());
  offer.manifest_bytes = static_cast<std::uint32_t>(scheduler_->manifest().size_bytes());
  offer.manifest_digest = manifest_digest_;
  offer.update = options_.update;
  offer.path = options_.path;
  return emit_offer(envelope_, offer, out);
}

bool Sender::congestion_window_is_full() const {
  return sent_adus_.in_flight_datagram_bytes() >= congestion_.window_bytes();
}

bool Sender::window_is_full() const {
  return sent_adus_.span() >= window_adus_ || congestion_window_is_full() ||
         sent_adus_.in_flight_bytes() >= receive_credit_.window_bytes();
}

std::optional<Outgoing> Sender::next_adu(TimePoint now, Bytes room) {
  if (!may_send_data()) {
    return std::nullopt;
  }
  if (window_is_full()) {
    // What the receiver's credit holds back says nothing about the network.
    window_limited_ = congestion_window_is_full();
    application_limited_ |= !window_limited_;
    return std::nullopt;
  }
  paced_ = now < congestion_.next_send();
  if (paced_) {
    return std::nullopt;
  }
  application_limited_ |= !std::exchange(window_limited_, false) && congestion_.behind(now);
  if (compressor_ && application_limited_) {
    compressor_->policy().set_hurried(true);
  }
  if (const auto repair = next_repair()) {
    auto adu = scheduler_->retransmit(*repair);
    if (adu) {
      sent_adus_.retransmit_queue().pop(adu->name.length);
      return put(now, *adu, true, room);
    }
    fail(now, adu.error());
    return std::nullopt;
  }
  auto adu = scheduler_->next();
  if (!adu) {
    fail(now, adu.error());
    return std::nullopt;
  }
  application_limited_ |= !*adu;
  if (!*adu) {
    return next_copy(now, room);
  }
  return put(now, **adu, false, room);
}

/// What waits longest, which stays in the queue until it is sent. What the receiver turned out to have needs no repair.
std::optional<AduName> Sender::next_repair() {
  RetransmitQueue& queue = sent_adus_.retransmit_queue();
  while (!queue.empty()) {
    const AduName name = queue.front();
    if (!scheduler_->present(name)) {
      return name;
    }
    queue.pop();
  }
  return std::nullopt;
}

/// RFC 8985 section 7 does as much for the end of a flight, and waits for two round trips before. Here nothing else is
/// left to send, so a copy delays nothing; it keeps to pacer and window, and counts as all that is sent does.
std::optional<Outgoing> Sender::next_copy(TimePoint now, Bytes room) {
  while (!copies_.empty() && copies_[0].due <= now) {
    const Copy copy = copies_[0];
    copies_.pop();
    const auto name = sent_adus_.unproven(copy.sequence);
    // One that does not fit a datagram any more has no copy.
    if (!name || scheduler_->present(*name) || (!compressor_ && name->length > adu_bytes_now_)) {
      continue;
    }
    auto adu = scheduler_->retransmit(*name);
    if (!adu) {
      fail(now, adu.error());
      return std::nullopt;
    }
    // Nor has one that does not, compressed anew.
    if (adu->name != *name) {
      return std::nullopt;
    }
    plan_copies(now, copy.sequence, copy.left - 1);
    ++copied_;
    return put(now, *adu, true, room, copy.sequence);
  }
  return std::nullopt;
}

void Sender::plan_copies(TimePoint now, std::uint64_t sequence, int left) {
  if (left > 0 && rtt_estimator_.smoothed() >= copies_round_trip_min) {
    copies_.push({sequence, now + rtt_estimator_.smoothed() / copy_interval_part, left});
  }
}

Outgoing Sender::put(TimePoint now, const AduScheduler::Adu& adu, bool repair, Bytes room, std::uint64_t copy_of) {
  const ConstBytes front = data_front({stamp(), adu.name, repair, adu.compressed}, adu.payload, room);
  const Outgoing datagram{options_.peer, front, data_rest(adu.payload)};
  delivery_sampler_.on_sent(now, sent_adus_);
  const bool application_limited = std::exchange(application_limited_, false);
  const auto payload_bytes = static_cast<std::uint32_t>(adu.payload.size());
  if (copy_of != 0) {
    sent_adus_.on_copy_sent(copy_of, now, application_limited, payload_bytes);
  } else {
    sent_adus_.on_sent(adu.name, now, application_limited, payload_bytes);
    repaired_ += repair ? 1 : 0;
    compressed_bytes_ += adu.compressed && !repair ? adu.name.length : 0;
    last_adu_ = sent_adus_.next() - 1;
    if (scheduler_->accepted() && scheduler_->all_sent()) {
      plan_copies(now, last_adu_, copies_max);
    }
  }
  unproven_bytes_ -= std::min<std::uint64_t>(datagram.size(), unproven_bytes_);
  congestion_.on_sent(now, datagram.size());
  window_limited_since_report_ |= congestion_window_is_full();
  set_probe_timer(now);
  return datagram;
}

/// What of a DATA is made for it, at the beginning of `room`: the header, and the payload behind it where that is
/// sealed. Keys change long before they are used up; if OpenSSL fails all the same, what is sent does not open at the
/// other end.
ConstBytes Sender::data_front(const Data& data, ConstBytes payload, Bytes room) {
  envelope_.flags = protection_ ? protection_->flags() : std::uint8_t{0};
  const ConstBytes header = room.first(emit_data_header(envelope_, data, room));
  if (!protection_) {
    return header;
  }
  const Bytes sealed = room.subspan(header.size(), payload.size() + tag_bytes);
  sealed_bytes_ += payload.size();
  if (!protection_->seal_payload(header, payload, sealed)) {
    std::ranges::fill(sealed, std::byte{0});
  }
  return room.first(header.size() + sealed.size());
}

std::size_t Sender::probe(TimePoint now, Bytes out) {
  const std::size_t size = emit_probe(envelope_, stamp(), out);
  sent_adus_.on_probe_sent(now);
  probe_backoff_ = std::min(std::max(probe_backoff_ * 2, probe_timeout()), probe_backoff_max);
  set_probe_timer(now);
  return size;
}

Stamp Sender::stamp() const {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(rtt_estimator_.smoothed()).count();
  Stamp stamp;
  stamp.sequence = sent_adus_.next();
  stamp.behind = static_cast<std::uint32_t>(std::min(stamp.sequence - sent_adus_.oldest(), behind_max));
  if (rtt_estimator_.known()) {
    stamp.round_trip_us = static_cast<std::uint64_t>(std::max<std::int64_t>(microseconds, 1));
  }
  return stamp;
}

}  // namespace sluice::ftx
