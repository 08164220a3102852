// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/sender.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/protocol/name.h"
#include "apps/ftx/session/change_event.h"
#include "base/contract.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration repeat_first = milliseconds(250);
constexpr Duration lost_after = seconds(1);
// A report may take this much longer than the round trip: the receiver's interval and its initial reorder threshold.
constexpr Duration report_delay_max = milliseconds(25);
constexpr std::uint64_t round_trip_ns_max = 60'000'000'000;
// The sender remembers every open sequence, so a receiver may not announce more (docs/formats/ftx.md, "Bounds").
constexpr std::uint32_t window_adus_max = 1U << 17;
// Before a receiver has announced any: what ReceiveCredit::initial_bytes lets go in datagrams of PathMtu::base_bytes.
constexpr std::uint32_t window_adus_first = 128;

}  // namespace

Sender::Sender(TimePoint now, SenderOptions options, Source& source, CongestionControl& congestion,
               std::optional<Protection> protection)
    : options_(std::move(options)),
      source_(source),
      congestion_(congestion),
      protection_(std::move(protection)),
      path_(options_.seed),
      attempts_(now, options_.peer, options_.others),
      started_at_(now),
      reachable_since_(now),
      last_received_at_(now),
      last_progress_at_(now),
      repeat_at_(now),
      repeat_interval_(repeat_first),
      adu_bytes_(adu_bytes_for(options_.tsdu_bytes, protection_.has_value())),
      adu_bytes_now_(adu_bytes_),
      sent_adus_(framing_bytes()),
      window_adus_(window_adus_first),
      progress_at_(now + options_.progress_interval) {
  SLUICE_REQUIRE(adu_bytes_ > 0 && is_relative_path(options_.path) && options_.path.size() <= path_bytes_max);
  SLUICE_REQUIRE(options_.compress == Compress::never || options_.clock);
  if (protection_) {
    envelope_.connection = protection_->connection();
    if (options_.waits_for_knock) {
      state_ = State::waiting;
      repeat_at_ = never;
      unproven_bytes_ = 0;
    } else {
      begin_reading(now);
    }
  } else {
    Prng prng(options_.seed);
    envelope_.connection = prng();
    repeat_at_ = never;
  }
}

// --- What comes in -------------------------------------------------------------------------------------------------

void Sender::receive(TimePoint now, ConstBytes datagram, const Peer& from) {
  const auto envelope = parse_envelope(datagram);
  const bool ours = envelope && envelope->connection == envelope_.connection;
  if (!ours || state_ == State::over) {
    ++dropped_;
    return;
  }
  const std::size_t bytes = datagram.size();
  datagram = open(*envelope, datagram);
  if (datagram.empty()) {
    ++dropped_;
    return;
  }
  if (protection_) {
    follow_path(now, *envelope, datagram, from);
  }
  if (state_ == State::reading) {
    last_received_at_ = now;
  }
  switch (envelope->kind) {
    case Kind::knock:
      return on_knock(now, bytes, from);
    case Kind::challenge:
    case Kind::response:
      return;  // followed
    case Kind::cookie:
      return on_cookie(now, datagram, from);
    case Kind::report:
      return on_report(now, datagram);
    case Kind::have:
      return on_have(now, datagram);
    case Kind::changes:
      return on_changes(now, datagram);
    case Kind::sign:
      return on_sign(now, datagram);
    case Kind::error:
      return take_error(now, datagram);
    case Kind::close:
      if (state_ == State::failing) {
        return end(now, failure_);
      }
      ++dropped_;
      return;
    case Kind::hello:
    case Kind::offer:
    case Kind::data:
    case Kind::probe:
    case Kind::control:
    case Kind::taken:
    case Kind::noted:
      ++dropped_;
      return;
  }
}

/// The datagram without its seal; empty: not sealed as this session is, or forged, or a kind that no receiver sends.
ConstBytes Sender::open(const Envelope& envelope, ConstBytes datagram) {
  if (envelope.sealed() != protection_.has_value() || (protection_ && envelope.kind == Kind::data)) {
    return {};
  }
  return protection_ ? protection_->open_control(datagram) : datagram;
}

/// The first who answers is the receiver; later it may have another address.
void Sender::follow_path(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  const auto nonce = parse_nonce(datagram);
  if (envelope.kind == Kind::challenge && nonce) {
    response_due_ = nonce;
  }
  if (state_ == State::waiting || from == options_.peer) {
    return;
  }
  const bool first = !peer_answered_ && std::ranges::find(options_.others, from) != options_.others.end();
  if (first || (envelope.kind == Kind::response && nonce && path_.on_response(from, *nonce))) {
    options_.peer = from;
  } else if (peer_answered_) {
    path_.on_other_path(now, from);
  }
}

/// Threat: a KNOCK captured and sent again from a victim's address. Until a REPORT proves that somebody there has the
/// secret, it gets three times what came from there at most (RFC 9000 section 8: "an endpoint MUST limit the amount of
/// data it sends to the unvalidated address to three times the amount of data received from that address").
void Sender::on_knock(TimePoint now, std::size_t bytes, const Peer& from) {
  if (peer_answered_ || !options_.waits_for_knock) {
    ++dropped_;
    return;
  }
  if (from != options_.peer) {
    options_.peer = from;
    unproven_bytes_ = 0;
  }
  unproven_bytes_ += 3 * bytes;
  if (state_ == State::waiting) {
    begin_reading(now);
  }
  repeat_at_ = now;
}

/// Before anybody has answered, the first flight goes to the first address, within unproven_bytes_: a round trip is won
/// where the receiver is there, and where it is not, what went there is lost as in a network.
bool Sender::may_send_data() const { return peer_answered_ || unproven_bytes_ >= datagram_bytes(); }

void Sender::on_cookie(TimePoint now, ConstBytes datagram, const Peer& from) {
  const auto reply = parse_cookie(datagram);
  const auto peer = attempts_.answered(from);
  // The nonce is the time of one of our HELLOs, so it lies between the first and the last.
  const bool asked = reply && reply->nonce >= nanoseconds(started_at_) && reply->nonce <= nanoseconds(asked_at_);
  if (state_ != State::greeting || !asked || !peer) {
    ++dropped_;
    return;
  }
  options_.peer = *peer;
  peer_answered_ = true;
  last_received_at_ = now;
  last_progress_at_ = now;
  rtt_estimator_.sample(now.time_since_epoch() - Duration(static_cast<Duration::rep>(reply->nonce)));
  congestion_.on_first_round_trip(rtt_estimator_.smoothed());
  adu_bytes_ = adu_bytes_now_ = std::min(adu_bytes_, reply->adu_bytes);
  cookie_ = reply->cookie;
  begin_reading(now);
}

void Sender::begin_reading(TimePoint now) {
  state_ = State::reading;
  last_received_at_ = now;
  read_on(now);
}

/// Threat: a client that asks for what takes long to read, and goes. Who waits answers each second.
void Sender::read_on(TimePoint now) {
  if (now - last_received_at_ >= options_.idle_timeout) {
    return end(now, {ExitCode::timeout, "the receiver fell silent"});
  }
  const auto all = source_.digest_some(digest_turn_bytes);
  if (!all) {
    return fail(now, all.error());
  }
  if (*all) {
    reachable_since_ = last_received_at_ = last_progress_at_ = now;
    begin_offering(now);
  }
}

void Sender::begin_offering(TimePoint now) {
  if (options_.compress != Compress::never) {
    compressor_.emplace(options_.compress, options_.clock, adu_bytes_);
  }
  scheduler_.emplace(source_, adu_bytes_, compressor_ ? &*compressor_ : nullptr);
  if (scheduler_->streams()) {
    sent_adus_.follow([this](const AduName& adu) { scheduler_->arrived(adu); });
  }
  scheduler_->run_ahead(may_run_ahead());
  begin_path_mtu(now);
  scheduler_->set_slot_bytes(slot_bytes());
  manifest_digest_ = scheduler_->manifest().digest();
  state_ = State::offering;
  repeat_at_ = now;
  repeat_interval_ = repeat_first;
}

/// Where it is likely that the receiver takes files as soon as it has the list. Of one that has asked for files it is
/// not known what it compares.
bool Sender::may_run_ahead() const {
  const Update& update = options_.update;
  const bool compares = update.told || update.existing || update.compare == Update::Compare::digest;
  return !scheduler_->streams() && !options_.delta && !update.dry_run && !compares;
}

/// It has the list, and has not accepted it yet.
bool Sender::receiver_compares(const Report& report) const {
  return report.phase == Phase::manifest && !scheduler_->accepted() && scheduler_->drained() &&
         sent_adus_.in_flight_bytes() == 0 && sent_adus_.retransmit_queue().empty();
}

void Sender::on_report(TimePoint now, ConstBytes datagram) {
  const auto report = parse_report(datagram);
  if ((state_ != State::offering && state_ != State::sending) || !report || !possible(*report)) {
    ++dropped_;
    return;
  }
  const auto resolved = sent_adus_.on_report(*report);
  if (!resolved) {
    ++dropped_;
    return;
  }
  peer_answered_ = true;
  last_received_at_ = now;
  if (resolved->arrived_bytes > 0 || receiver_compares(*report) || waits_for_input()) {
    last_progress_at_ = now;
  }
  if (report->clock_ns >= report_clock_ns_) {
    measure(now, *report, *resolved);
  }
  follow_path_mtu(now, *report);
  follow_phase(now, report->phase);
}

/// A receiver that knows what it has knows the manifest, so this accepts it as a REPORT of phase 1 does.
void Sender::on_have(TimePoint now, ConstBytes datagram) {
  const auto have = parse_have(datagram);
  if ((state_ != State::offering && state_ != State::sending) || !have) {
    ++dropped_;
    return;
  }
  const std::uint64_t before = scheduler_->taken();
  if (!scheduler_->take(*have)) {
    ++dropped_;
    return;
  }
  taken_due_ = true;
  peer_answered_ = true;
  last_received_at_ = now;
  if (scheduler_->taken() > before) {
    last_progress_at_ = now;
  }
  follow_phase(now, Phase::data);
}

/// Threat: a receiver that speaks of what is not in the list, twice of the same, or without end.
void Sender::on_changes(TimePoint now, ConstBytes datagram) {
  const auto told = parse_changes(datagram);
  if ((state_ != State::offering && state_ != State::sending) || !options_.update.told || !told ||
      told->from > noted_) {
    ++dropped_;
    return;
  }
  peer_answered_ = true;
  last_received_at_ = now;
  noted_due_ = true;
  const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(noted_ - told->from, told->changes.size()));
  for (const Change& change : std::span(told->changes).subspan(known)) {
    if (changes_.size() == changes_kept) {
      return;
    }
    const bool removed = change.kind == Change::Kind::removed;
    if (!fits(change, source_.files(), told_of_) || (removals_told_ && !removed)) {
      ++dropped_;
      return;
    }
    told_of_ = removed ? told_of_ : change.entry;
    removals_told_ |= removed;
    changes_.push_back(change);
    ++noted_;
    last_progress_at_ = now;
  }
}

/// Threat: a receiver that has all files read twice. It does so only where --delta was asked for, and once.
void Sender::on_sign(TimePoint now, ConstBytes datagram) {
  const auto numbers = parse_sign(datagram);
  if ((state_ != State::offering && state_ != State::sending) || !options_.delta || !numbers ||
      !scheduler_->sign(*numbers)) {
    ++dropped_;
    return;
  }
  peer_answered_ = true;
  last_received_at_ = now;
  follow_phase(now, Phase::manifest);
}

std::optional<Event> Sender::next_change() {
  if (changes_.empty()) {
    return std::nullopt;
  }
  Event event = change_event(changes_.front(), source_.files(), true);
  changes_.pop_front();
  return event;
}

/// A receiver that says it is finished before everything has been sent once is broken or hostile, and no success.
bool Sender::possible(const Report& report) const {
  const bool all_sent = options_.update.dry_run ? scheduler_->drained() : scheduler_->all_sent();
  return report.phase != Phase::finished || all_sent;
}

/// The caller skips reports that a newer one overtook: they say nothing new about the network.
void Sender::measure(TimePoint now, const Report& report, const SentAdus::Resolved& resolved) {
  report_clock_ns_ = report.clock_ns;
  window_adus_ = std::min(report.window_adus, window_adus_max);
  out_of_order_ = report.out_of_order;
  Delivery delivery = delivery_sampler_.on_report(now, report, sent_adus_, resolved);
  // What a receiver says that it held longer than since it was sent measures nothing.
  const std::uint64_t age_ns = nanoseconds(now) - nanoseconds(sent_adus_.passed_sent_at());
  if (delivery.newest && age_ns <= round_trip_ns_max && report.held_ns <= age_ns) {
    delivery.round_trip = Duration(static_cast<Duration::rep>(age_ns - report.held_ns));
    rtt_estimator_.sample(delivery.round_trip);
  }
  receive_credit_.on_report(report, sent_adus_.passed_sent_at(), delivery.round_trip);
  delivery.smoothed_round_trip = rtt_estimator_.smoothed();
  delivery.window_limited = std::exchange(window_limited_since_report_, false);
  congestion_.on_report(now, delivery);
  if (compressor_ && delivery.rate) {
    compressor_->policy().on_delivery(*delivery.rate, delivery.newest->application_limited);
  }
  if (const char* reason = congestion_.tripped()) {
    return fail(now, {ExitCode::congested, reason});
  }
  // A report that resolves nothing must not delay the probe: the receiver may be missing the last ADUs.
  if (resolved.arrived + resolved.lost == 0) {
    return;
  }
  probe_backoff_ = {};
  set_probe_timer(now);
}

void Sender::follow_phase(TimePoint now, Phase phase) {
  if (phase != Phase::manifest && !scheduler_->accepted() && !options_.update.dry_run) {
    accepted(now);
  }
  if (phase == Phase::finished) {
    return done(now);
  }
  if (state_ == State::offering) {
    state_ = State::sending;
    scheduler_->run_ahead(false);
    repeat_at_ = never;
    // The server dropped what overtook the OFFER; a probe finds that out at once.
    if (sent_adus_.in_flight_bytes() == sent_adus_.sent_bytes()) {
      probe_at_ = now;
    }
  }
}

/// What is sent at the end goes more than once from now on; so does what was the end of the first flight.
void Sender::accepted(TimePoint now) {
  scheduler_->accept();
  Event offer = event(Event::Kind::offer, now);
  offer.bytes = scheduler_->total_bytes();
  events_.push(std::move(offer));
  if (scheduler_->all_sent()) {
    plan_copies(now, last_adu_, copies_max);
  }
}

void Sender::take_error(TimePoint now, ConstBytes datagram) {
  const auto error = parse_error(datagram);
  if (!error) {
    ++dropped_;
    return;
  }
  const ExitCodeRow& row = failure_row(error->code);
  if (row.code == ExitCode::connection_lost && !connection_is_lost(now)) {
    return;
  }
  // If both sides fail at once, each keeps its own failure.
  if (state_ != State::failing) {
    failure_ = {row.code, std::string(error->text.empty() ? row.meaning : error->text)};
  }
  close_due_ = true;
  end(now, failure_);
}

/// An ADU that overtakes its OFFER makes the server answer that it does not know the connection. Then the sender
/// repeats the OFFER. It gives up only when a server that did know the connection has been silent for a while.
bool Sender::connection_is_lost(TimePoint now) {
  if (state_ == State::offering) {
    repeat_at_ = std::min(repeat_at_, asked_at_ + rtt_estimator_.timeout());
  }
  return state_ != State::offering && now - last_received_at_ >= lost_after;
}

void Sender::unreachable(TimePoint now, const Peer& peer) {
  // Once a peer has answered, an ICMP message proves nothing: it may be forged or transient.
  if (peer_answered_ || options_.waits_for_knock || (state_ != State::greeting && state_ != State::offering)) {
    return;
  }
  const Failure refused{ExitCode::no_answer, "connection refused: nothing listens there"};
  if (state_ == State::greeting) {
    if (!attempts_.refused(now, peer)) {
      end(now, refused);
    }
    return;
  }
  std::erase(options_.others, peer);
  if (peer != options_.peer) {
    return;
  }
  if (options_.others.empty()) {
    return end(now, refused);
  }
  options_.peer = options_.others.front();
  options_.others.erase(options_.others.begin());
}

void Sender::stop(TimePoint now, Failure failure) {
  if (state_ != State::over && state_ != State::failing) {
    fail(now, std::move(failure));
  }
}

// --- How it ends ---------------------------------------------------------------------------------------------------

void Sender::done(TimePoint now) {
  events_.push(event(Event::Kind::done, now));
  outcome_ = ExitCode::ok;
  state_ = State::over;
  close_due_ = true;
}

/// A failure of this side: tells the peer first, if it may know of the transfer.
void Sender::fail(TimePoint now, Failure failure) {
  failure_ = std::move(failure);
  const bool may_know = peer_answered_ || state_ == State::reading || sent_adus_.next() > 1;
  if (!may_know) {
    return end(now, failure_);
  }
  state_ = State::failing;
  repeat_at_ = now;
}

void Sender::end(TimePoint now, const Failure& failure) {
  Event error = event(Event::Kind::error, now);
  error.code = failure.code;
  error.text = failure.text;
  events_.push(std::move(error));
  outcome_ = failure.code;
  state_ = State::over;
}

// --- Timers --------------------------------------------------------------------------------------------------------

void Sender::tick(TimePoint now) {
  if (state_ == State::over || state_ == State::failing) {
    return;
  }
  if (state_ == State::reading) {
    return read_on(now);
  }
  if (!peer_answered_ && now - reachable_since_ >= options_.connect_timeout) {
    return end(now, {ExitCode::no_answer, "no answer"});
  }
  if (now - last_progress_at_ >= options_.idle_timeout) {
    const bool silent = now - last_received_at_ >= options_.idle_timeout;
    return end(now, {ExitCode::timeout, silent ? "the receiver fell silent" : "nothing arrives any more"});
  }
  if (now >= progress_at_) {
    note_progress(now);
  }
  if (path_mtu_) {
    path_mtu_->on_timer(now);
  }
}

void Sender::note_progress(TimePoint now) {
  progress_at_ = now + options_.progress_interval;
  if (!scheduler_) {
    return;
  }
  events_.push(event(Event::Kind::progress, now));
  if (repaired_ == repaired_announced_) {
    return;
  }
  Event repair = event(Event::Kind::repair, now);
  repair.adus = repaired_ - std::exchange(repaired_announced_, repaired_);
  events_.push(std::move(repair));
}

std::optional<Event> Sender::next_sent() {
  const FileEntry* const entry = scheduler_ && scheduler_->accepted() ? scheduler_->next_sent() : nullptr;
  if (entry == nullptr) {
    return std::nullopt;
  }
  Event event;
  event.kind = Event::Kind::file;
  event.path = path_of(source_.files(), *entry);
  event.bytes = entry->stream() ? scheduler_->total_bytes() : entry->size_bytes;
  return event;
}

Event Sender::event(Event::Kind kind, TimePoint now) const {
  Event event;
  event.kind = kind;
  event.seconds = std::chrono::duration<double>(now - started_at_).count();
  event.repaired = repaired_;
  event.copied = copied_;
  event.payload_bytes = sent_adus_.sent_bytes();
  event.compressed_bytes = compressed_bytes_;
  event.out_of_order = out_of_order_;
  event.path = options_.path;
  event.peer = options_.peer;
  event.cipher = protection_ ? name(protection_->cipher()) : plain_cipher;
  event.congestion = congestion_.name();
  event.datagram_bytes = datagram_bytes();
  event.round_trip_seconds = std::chrono::duration<double>(rtt_estimator_.smoothed()).count();
  if (path_mtu_) {
    event.path_mtu = path_mtu_->bytes() + *options_.ip_header_bytes;
  }
  event.dry_run = options_.update.dry_run;
  if (scheduler_) {
    event.files = scheduler_->file_count();
    event.files_done = scheduler_->files_sent();
    event.bytes = scheduler_->sent_bytes() - scheduler_->wasted_bytes();
    event.total_bytes = scheduler_->total_bytes();
    event.open_ended = scheduler_->open_ended();
    event.adus = scheduler_->sent_adu_count();
    // That the receiver needs nothing is no news of a dry run.
    event.skipped_files = event.dry_run ? 0 : scheduler_->skipped().files;
    event.skipped_bytes = event.dry_run ? 0 : scheduler_->skipped().bytes;
  }
  return event;
}

Duration Sender::probe_timeout() const { return rtt_estimator_.timeout() + report_delay_max + probe_backoff_; }

/// All that has come of the stream has left the network: it has arrived, or is about to be asked for again.
bool Sender::waits_for_input() const {
  return scheduler_->starved() && sent_adus_.in_flight_bytes() == 0 && sent_adus_.retransmit_queue().empty();
}

void Sender::set_probe_timer(TimePoint now) {
  probe_at_ = now + (waits_for_input() && sent_adus_.span() == 0 ? alive_interval : probe_timeout());
}

bool Sender::feedback_needed() const {
  return window_is_full() ||
         (sent_adus_.retransmit_queue().empty() && (scheduler_->drained() || scheduler_->starved()));
}

/// The probe timer runs only when the transfer cannot proceed without a report.
bool Sender::may_probe(TimePoint now) const { return now >= probe_at_ && feedback_needed() && may_send_data(); }

TimePoint Sender::next_deadline() const {
  if (state_ == State::over) {
    return close_due_ ? TimePoint::min() : never;
  }
  if (state_ == State::failing) {
    return repeat_at_;
  }
  if (state_ == State::reading || response_due_ || taken_due_ || noted_due_ || path_.due() ||
      (state_ == State::offering && may_offer_others())) {
    return TimePoint::min();
  }
  const TimePoint idle =
      !peer_answered_ ? reachable_since_ + options_.connect_timeout : last_progress_at_ + options_.idle_timeout;
  const TimePoint hello = state_ == State::greeting ? attempts_.next_deadline() : never;
  const TimePoint timers = std::min({idle, repeat_at_, progress_at_, hello});
  if (!scheduler_ || !may_send_data()) {
    return timers;
  }
  const TimePoint path = path_mtu_ ? path_mtu_->next_deadline() : never;
  const TimePoint copy =
      copies_.empty() || window_is_full() ? never : std::max(copies_[0].due, congestion_.next_send());
  // Where the pacer has kept it from looking whether there is input, there may be some.
  const bool looks_again = scheduler_->starved() && paced_ && !window_is_full();
  return std::min({timers, path, copy, may_probe_path() ? path_mtu_->probe_at() : never,
                   feedback_needed() && !looks_again ? probe_at_ : congestion_.next_send()});
}

}  // namespace sluice::ftx
