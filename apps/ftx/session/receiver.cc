// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/receiver.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/protocol/data_run.h"
#include "apps/ftx/protocol/name.h"
#include "apps/ftx/session/change_event.h"
#include "apps/ftx/session/cookie.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration report_interval_min = microseconds(200);
constexpr Duration report_interval_max = milliseconds(20);
constexpr Duration report_backoff_max = seconds(1);
// Reports a round trip; at the end of the data, when nothing but what is missing keeps the transfer.
constexpr int reports_usual = 4;
constexpr int reports_at_end = 32;
// As long as the cookie of the OFFER is valid: a replayed OFFER then finds the session that it opened, which is over.
constexpr Duration close_linger = CookieJar::lifetime;
/// How many files it looks for before it asks for datagrams again, and for how long before it accepts: a sender that
/// waits for that loses less than one that sends what is there.
constexpr std::size_t compare_files = 1024;
constexpr Duration compare_first_max = milliseconds(500);
/// How many changes it looks for before it asks for datagrams again, and events that others may have meanwhile.
constexpr std::size_t changes_a_turn = 256;
constexpr std::size_t events_kept = 256;
/// How much of what came early it lands before it asks for datagrams again, and for how long it then does that:
/// nothing, or until there may be room again.
constexpr std::uint64_t early_turn_bytes = 256 * 1024;
constexpr Duration early_turn = microseconds(1);
constexpr Duration early_retry = milliseconds(10);
constexpr std::uint32_t window_adus = ReceiveTracker::window_sequences / 2;

std::uint64_t nanoseconds(Duration duration) { return static_cast<std::uint64_t>(duration.count()); }

/// Threat: a sender that may not read what is there, and guesses. Digests of guesses would tell him which is right, and
/// so would signatures.
Update update_of(const Offer& offer, const ReceiverOptions& options) {
  Update update = options.update.value_or(offer.update);
  if (!options.tells_equal) {
    update.compare = update.compare == Update::Compare::digest ? Update::Compare::nothing : update.compare;
    update.delta = false;
  }
  return update;
}

Assembly::Head head_of(const Offer& offer, const ReceiverOptions& options) {
  return {std::string(offer.path), offer.total_bytes,     offer.adu_bytes,           offer.files,
          offer.manifest_bytes,    offer.manifest_digest, update_of(offer, options), options.tells_equal};
}

/// The ADUs of a run as one.
AduName run_of(const Data& first, std::size_t count) {
  return {first.adu.file, static_cast<std::uint32_t>(count) * first.adu.length, first.adu.offset};
}

}  // namespace

Receiver::Receiver(TimePoint now, const Envelope& envelope, const Offer& offer, ReceiverOptions options,
                   Destination& destination, Budget& host, AduDecompressor& decompressor, EventQueue& events,
                   DropCounters& drops)
    : envelope_{Kind::report, 0, envelope.connection},
      options_(options),
      decompressor_(decompressor),
      events_(events),
      drops_(drops),
      budget_(host, options.own_memory_bytes, options.storage_bytes_max, options.entries_max),
      started_at_(now),
      last_progress_at_(now),
      alive_at_(now),
      progress_at_(now + options.progress_interval) {
  if (!is_relative_path(offer.path)) {
    fail(now, {ExitCode::refused, "refused the path '" + printable(offer.path) + "'"}, true);
    return;
  }
  const Assembly::Head head = head_of(offer, options_);
  if (head.update.told && !options_.tells_equal) {
    fail(now, {ExitCode::refused, "what would change here is told to nobody who may not fetch it"}, true);
    return;
  }
  auto assembly = Assembly::start(head, destination, budget_);
  if (!assembly) {
    fail(now, assembly.error(), true);
    return;
  }
  assembly_ = std::move(*assembly);
  report_at_ = now;
}

// --- What comes in -------------------------------------------------------------------------------------------------

void Receiver::receive(TimePoint now, const Envelope& envelope, ConstBytes datagram) {
  if (envelope.kind == Kind::data && state_ == State::open) {
    return on_data(now, datagram);
  }
  switch (envelope.kind) {
    case Kind::close:
      return close(now);
    case Kind::error:
      return take_error(now, datagram);
    case Kind::probe:
      return on_probe(now, datagram);
    case Kind::taken:
      return on_taken(now, datagram);
    case Kind::noted:
      return on_noted(now, datagram);
    case Kind::offer:
    case Kind::data:
      // The peer does not know the outcome yet.
      answer_due_ = failure_.has_value();
      if (!failure_ && state_ != State::closing) {
        report_at_ = now;
      }
      return;
    case Kind::hello:
    case Kind::cookie:
    case Kind::report:
    case Kind::knock:
    case Kind::challenge:
    case Kind::response:
    case Kind::control:
    case Kind::have:
    case Kind::changes:
    case Kind::sign:
      ++drops_.unexpected;
      return;
  }
}

void Receiver::on_data(TimePoint now, ConstBytes datagram) {
  const auto landing =
      inspect(now, datagram, datagram.size(), in_run_ ? Assembly::Prefer::file : Assembly::Prefer::memory);
  if (!landing) {
    return;
  }
  ConstBytes payload = datagram.subspan(data_header_bytes);
  const bool compressed = landing->data.compressed;
  if (compressed) {
    payload = decompressor_.decompress(payload, landing->data.adu.length);
    if (payload.empty()) {
      ++drops_.bad_frame;
      return;
    }
  }
  if (landing->place.kind == Placement::Kind::memory) {
    std::copy(payload.begin(), payload.end(), landing->place.memory.begin());
  } else if (in_run_ && !compressed) {
    if (!gather(now, landing->data.adu, payload)) {
      return;
    }
  } else if (auto status = landing->place.file->write(landing->place.offset, payload); !status) {
    return landing_failed(now, *landing, status.error());
  }
  landed(now, *landing);
}

void Receiver::receive_run(TimePoint now, const Envelope& envelope, std::span<const Bytes> datagrams) {
  for (; !datagrams.empty(); datagrams = datagrams.subspan(1)) {
    if (const auto first = takes_run(datagrams)) {
      return land_run(now, *first, datagrams);
    }
    receive(now, envelope, datagrams.front());
  }
}

std::optional<Data> Receiver::takes_run(std::span<const Bytes> datagrams) const {
  if (datagrams.size() == 1 || state_ != State::open) {
    return std::nullopt;
  }
  const auto first = parse_data(datagrams.front(), datagrams.front().size());
  const bool takes = first && first->stamp.sequence > tracker_.highest() &&
                     assembly_->takes_run(run_of(*first, datagrams.size()), first->adu.length);
  return takes ? first : std::nullopt;
}

void Receiver::land_run(TimePoint now, const Data& first, std::span<const Bytes> datagrams) {
  static_assert(data_run_max <= Assembly::gathered_max, "a run is written after it has landed");
  AduName adu = first.adu;
  for (const Bytes datagram : datagrams) {
    if (!gather(now, adu, datagram.subspan(data_header_bytes))) {
      return;
    }
    adu.offset += adu.length;
  }
  note_landed(now, first, static_cast<std::uint32_t>(datagrams.size()));
}

void Receiver::land_opened(TimePoint now, const Data& first, std::uint32_t count, ConstBytes payloads) {
  if (gather(now, run_of(first, count), payloads)) {
    note_landed(now, first, count);
  }
}

/// False: the session has failed.
bool Receiver::gather(TimePoint now, const AduName& adu, ConstBytes payload) {
  const auto gathered = assembly_->gather(adu, payload);
  if (!gathered) {
    fail(now, gathered.error(), true);
  }
  return gathered.has_value();
}

void Receiver::end_run(TimePoint now) {
  in_run_ = false;
  write_gathered(now);
}

void Receiver::write_gathered(TimePoint now) {
  if (state_ != State::open) {
    return;
  }
  if (auto written = assembly_->write_gathered(); !written) {
    fail(now, written.error(), true);
  }
}

Bytes Receiver::memory_for(ConstBytes header, std::size_t datagram_bytes) const {
  if (state_ != State::open) {
    return {};
  }
  const auto data = parse_data(header, datagram_bytes);
  if (!data || data->compressed || tracker_.classify(data->stamp.sequence) != ReceiveTracker::Arrival::fresh) {
    return {};
  }
  return assembly_->memory_for(data->adu);
}

/// Does not call place() again: the place might be another one now, and an error of the first would go unnoticed.
void Receiver::placed(TimePoint now, ConstBytes header, std::size_t datagram_bytes, Bytes memory) {
  const auto data = parse_data(header, datagram_bytes);
  SLUICE_REQUIRE(data.has_value());
  landed(now, {*data, assembly_->placement_in(data->adu, memory)});
}

std::optional<Receiver::Landing> Receiver::inspect(TimePoint now, ConstBytes header, std::size_t datagram_bytes,
                                                   Assembly::Prefer prefer) {
  if (state_ != State::open) {
    ++drops_.unexpected;
    return std::nullopt;
  }
  const auto data = parse_data(header, datagram_bytes);
  if (!data) {
    ++drops_.malformed;
    return std::nullopt;
  }
  switch (tracker_.classify(data->stamp.sequence)) {
    case ReceiveTracker::Arrival::fresh:
      break;
    case ReceiveTracker::Arrival::duplicate:
      ++drops_.duplicate;
      return std::nullopt;
    case ReceiveTracker::Arrival::too_old:
      ++drops_.too_old;
      tracker_.note_too_old(now, data->stamp.sequence);
      return std::nullopt;
  }
  auto place = assembly_->place(data->adu, prefer);
  if (!place) {
    fail(now, place.error(), true);
    return std::nullopt;
  }
  switch (place->kind) {
    case Placement::Kind::memory:
    case Placement::Kind::file:
      return Landing{*data, *place};
    case Placement::Kind::duplicate:
      // The place is filled, so the sequence counts as received.
      ++drops_.duplicate;
      received_bytes_ += data->payload_bytes;
      tracker_.record(now, data->stamp);
      schedule_report(now);
      return std::nullopt;
    case Placement::Kind::misplaced:
      ++drops_.misplaced;
      return std::nullopt;
    case Placement::Kind::no_room:
      ++drops_.no_room;
      return std::nullopt;
  }
  return std::nullopt;
}

void Receiver::landed(TimePoint now, const Landing& landing) {
  const Placement& place = landing.place;
  const bool mapped = place.kind == Placement::Kind::memory && place.file != nullptr;
  if (mapped) {
    if (auto status = place.file->placed(place.offset, place.memory); !status) {
      return landing_failed(now, landing, status.error());
    }
  }
  note_landed(now, landing.data, 1);
}

/// `count` ADUs are in their places: `first`, and of a run those behind it.
void Receiver::note_landed(TimePoint now, const Data& first, std::uint32_t count) {
  const AduName all = run_of(first, count);
  if (first.stamp.round_trip_us != 0) {
    round_trip_ = microseconds(first.stamp.round_trip_us);
  }
  last_progress_at_ = now;
  tracker_.record(now, first.stamp, count);
  received_bytes_ += std::uint64_t{count} * first.payload_bytes;
  compressed_bytes_ += first.compressed ? all.length : 0;
  if (!is_list(all.file)) {
    adus_ += count;
    largest_payload_bytes_ = std::max(largest_payload_bytes_, first.payload_bytes);
  }
  repaired_ += first.repair ? count : 0;
  if (assembly_->ends_data(all)) {
    note_end_of_data();
  }
  schedule_report(now);
  if (auto status = assembly_->landed(all); !status) {
    return fail(now, status.error(), true);
  }
  note_phase(now);
}

void Receiver::landing_failed(TimePoint now, const Landing& landing, const Error& error) {
  fail(now, assembly_->landing_failed(landing.data.adu, error), true);
}

void Receiver::note_end_of_data() {
  data_ended_ = true;
  tracker_.end_of_data();
}

/// A part each turn: the socket is read between.
void Receiver::land_early(TimePoint now) {
  if (!lands_early() || now < early_at_) {
    return;
  }
  const auto landed = assembly_->land_early(early_turn_bytes);
  if (!landed) {
    return fail(now, landed.error(), true);
  }
  early_at_ = now + (*landed == Assembly::Landed::nothing ? early_retry : early_turn);
  if (*landed == Assembly::Landed::with_the_end) {
    note_end_of_data();
  }
  note_phase(now);
}

void Receiver::on_probe(TimePoint now, ConstBytes datagram) {
  const auto stamp = parse_probe(datagram);
  if (!stamp) {
    ++drops_.malformed;
    return;
  }
  if (tracker_.classify(stamp->sequence) == ReceiveTracker::Arrival::fresh) {
    tracker_.record(now, *stamp);
    alive_at_ = assembly_ && assembly_->open_ended() ? now : alive_at_;
  }
  // A probe is answered at once, in any state. A later report covers what it overtook, after the reorder threshold.
  answer_due_ = failure_.has_value();
  if (!failure_ && state_ != State::closing) {
    report_at_ = now;
    report_backoff_ = {};
  }
}

void Receiver::on_taken(TimePoint now, ConstBytes datagram) {
  const auto to = parse_taken(datagram);
  if (!to || !announcer_.on_taken(*to)) {
    ++drops_.malformed;
    return;
  }
  // The sender believes now what it did not before.
  if (over() && may_announce()) {
    report_at_ = now;
  }
}

/// Threat: a sender that notes the same for ever. Only what it notes anew is progress.
void Receiver::on_noted(TimePoint now, ConstBytes datagram) {
  const std::size_t room = changes_.room();
  const auto to = parse_noted(datagram);
  if (!to || !changes_.on_noted(*to)) {
    ++drops_.malformed;
    return;
  }
  last_progress_at_ = changes_.room() > room ? now : last_progress_at_;
}

void Receiver::take_error(TimePoint now, ConstBytes datagram) {
  const auto error = parse_error(datagram);
  if (!error) {
    ++drops_.malformed;
    return;
  }
  if (state_ == State::open) {
    const ExitCodeRow& row = failure_row(error->code);
    fail(now, {row.code, "the sender gave up: " + std::string(error->text)}, false);
  }
  close(now);
  answer_due_ = true;
}

void Receiver::close(TimePoint now) {
  if (state_ == State::open) {
    fail(now, {ExitCode::protocol_error, "the sender closed before the end"}, false);
  }
  if (state_ == State::lingering) {
    state_ = State::closing;
    linger_until_ = now + close_linger;
  }
  failure_.reset();
  answer_due_ = false;
  report_at_ = never;
}

// --- How it ends ---------------------------------------------------------------------------------------------------

void Receiver::fail(TimePoint now, const Failure& failure, bool tell_peer) {
  state_ = State::lingering;
  linger_until_ = now + options_.idle_timeout;
  failure_ = failure;
  answer_due_ = tell_peer;
  report_at_ = never;
  assembly_.reset();  // removes the temporary files and returns the memory
  Event error = event(Event::Kind::error, now);
  error.code = failure.code;
  error.text = failure.text;
  events_.push(std::move(error));
}

void Receiver::interrupt(TimePoint now) {
  if (state_ == State::open) {
    fail(now, {ExitCode::interrupted, "the receiver was interrupted"}, true);
  }
}

void Receiver::sender_refuses(TimePoint now) {
  if (state_ == State::open && assembly_->open_ended() && now - std::max(last_progress_at_, alive_at_) >= silence_max) {
    fail(now, {ExitCode::timeout, "the sender is gone: nothing listens where it was"}, false);
  }
}

void Receiver::give_way(TimePoint now) {
  if (state_ == State::open) {
    fail(now, {ExitCode::refused, "gave way to another transfer: the server is full"}, false);
  }
}

void Receiver::note_phase(TimePoint now) {
  if (assembly_->early() && !std::exchange(accepted_early_, true)) {
    report_at_ = now;
  }
  if (assembly_->phase() == phase_) {
    return;
  }
  phase_ = assembly_->phase();
  report_at_ = now;
  if (phase_ == Phase::data) {
    telling_ = assembly_->surveying();
    comparing_first_ = !accepted_early_;
    compare_first_until_ = now + compare_first_max;
    assembly_->hold();
  }
  if (phase_ == Phase::finished) {
    return finished(now);
  }
  if (assembly_->dry_run()) {
    return;
  }
  Event offer = event(Event::Kind::offer, now);
  offer.bytes = assembly_->total_bytes();
  events_.push(std::move(offer));
  compare(now);  // what comes behind the list may land as soon as possible
}

/// Each change once: a program that shows no events, or a sender that notes nothing, makes it wait.
std::size_t Receiver::room_to_tell() const {
  const std::size_t room = options_.update ? events_.room() - std::min(events_.room(), events_kept) : changes_.room();
  return std::min(room, changes_a_turn);
}

void Receiver::tell(TimePoint now) {
  if (may_tell()) {
    found_.clear();
    if (auto looked = assembly_->survey(room_to_tell(), found_); !looked) {
      return fail(now, looked.error(), true);
    }
    for (const Change& change : found_) {
      if (options_.update) {
        events_.push(change_event(change, assembly_->entries(), false));
      } else {
        changes_.add(change);
      }
    }
    last_progress_at_ = now;
  }
  if (telling_ && state_ == State::open && !assembly_->surveying() && changes_.all_noted()) {
    told(now);
  }
}

void Receiver::told(TimePoint now) {
  telling_ = false;
  compare_first_until_ = now + compare_first_max;
  if (assembly_->dry_run()) {
    comparing_first_ = false;
    if (const std::uint64_t all = assembly_->contents_bytes(); all > 0) {
      announcer_.add({0, all});
    }
  }
  if (auto begun = assembly_->begin(); !begun) {
    return fail(now, begun.error(), true);
  }
  note_phase(now);
}

/// True: compare() has to wait. Looking for earlier versions is progress.
bool Receiver::waits_for_signatures(TimePoint now) {
  if (state_ != State::open || phase_ != Phase::data) {
    return false;
  }
  if (assembly_->looks_for_earlier()) {
    assembly_->look_for_earlier(compare_files);
    last_progress_at_ = now;
  }
  if (assembly_->looks_for_earlier() || assembly_->awaits_signatures()) {
    waiting_ = true;
    return true;
  }
  if (std::exchange(waiting_, false)) {
    compare_first_until_ = now + compare_first_max;
  }
  return false;
}

/// While more is left to look for, looking is progress: a destination may answer slowly. It ends, since each file is
/// looked for once.
void Receiver::compare(TimePoint now) {
  if ((telling_ && state_ == State::open) || waits_for_signatures(now)) {
    return;
  }
  if (may_compare()) {
    present_.clear();
    if (auto compared = assembly_->compare(std::min(compare_files, announcer_.room()), present_); !compared) {
      return fail(now, compared.error(), true);
    }
    for (const ByteRange& range : present_) {
      announcer_.add(range);
    }
    last_progress_at_ = assembly_->comparing() ? now : last_progress_at_;
    comparing_first_ &= compares_first(now);
    note_phase(now);
  }
  if (comparing_first_ && !may_compare()) {
    comparing_first_ = false;
    report_at_ = state_ == State::open ? std::min(report_at_, now) : report_at_;
  }
  if (!comparing_first_ && state_ == State::open && phase_ == Phase::data) {
    assembly_->release();
  }
}

bool Receiver::compares_first(TimePoint now) const {
  return assembly_->reads_contents() || (!present_.empty() && now < compare_first_until_);
}

void Receiver::finished(TimePoint now) {
  events_.push(event(Event::Kind::done, now));
  state_ = State::lingering;
  linger_until_ = now + options_.idle_timeout;
  assembly_.reset();
}

void Receiver::note_progress(TimePoint now) {
  progress_at_ = now + options_.progress_interval;
  events_.push(event(Event::Kind::progress, now));
}

Event Receiver::event(Event::Kind kind, TimePoint now) const {
  Event event;
  event.kind = kind;
  event.connection = envelope_.connection;
  event.seconds = std::chrono::duration<double>(now - started_at_).count();
  event.adus = adus_;
  event.repaired = repaired_;
  event.out_of_order = tracker_.out_of_order();
  event.payload_bytes = received_bytes_;
  event.compressed_bytes = compressed_bytes_;
  event.datagram_bytes = adus_ > 0 ? data_header_bytes + largest_payload_bytes_ : 0;
  event.round_trip_seconds = std::chrono::duration<double>(round_trip_).count();
  if (assembly_) {
    event.dry_run = assembly_->dry_run();
    event.files = assembly_->files();
    event.files_done = assembly_->files_done();
    event.bytes = assembly_->landed_bytes();
    event.skipped_files = assembly_->skipped().files;
    event.skipped_bytes = assembly_->skipped().bytes;
    event.total_bytes = assembly_->total_bytes();
    event.open_ended = assembly_->open_ended();
    event.path = assembly_->path();
  }
  return event;
}

// --- Timers and what goes out --------------------------------------------------------------------------------------

Duration Receiver::report_interval() const {
  const int reports = data_ended_ ? reports_at_end : reports_usual;
  return std::clamp<Duration>(round_trip_ / reports, report_interval_min, report_interval_max);
}

void Receiver::schedule_report(TimePoint now) {
  received_since_report_ = true;
  report_backoff_ = {};
  const bool credit_used = received_bytes_ - reported_bytes_ >= credit_bytes_ / 4;
  report_at_ = std::min(report_at_, credit_used ? now : now + report_interval());
}

void Receiver::tick(TimePoint now) {
  if (state_ == State::open && now >= gives_up_at()) {
    fail(now, {ExitCode::timeout, "nothing new came from the sender for too long"}, true);
  }
  if (state_ == State::open && now >= progress_at_) {
    note_progress(now);
  }
  if (state_ != State::open && now >= linger_until_) {
    state_ = State::closed;
  }
}

TimePoint Receiver::next_deadline() const {
  if (state_ == State::closed) {
    return never;
  }
  // Events are taken between two calls.
  const bool tells_on = telling_ && state_ == State::open && assembly_->surveying() && options_.update;
  if (answer_due_ || continue_from_ || tells_on || may_tell() || may_compare()) {
    return TimePoint::min();
  }
  return std::min({report_at_, asks_for_signatures() ? asked_ ? sign_repeat_.at() : TimePoint::min() : never,
                   telling_ && !over() ? changes_.next_deadline() : never, lands_early() ? early_at_ : never,
                   may_announce() ? announcer_.next_deadline() : never, state_ == State::open ? gives_up_at() : never,
                   linger_until_});
}

std::size_t Receiver::transmit(TimePoint now, Bytes out, std::uint64_t credit_bytes) {
  SLUICE_REQUIRE(out.size() >= control_bytes_max);
  tick(now);
  if (state_ == State::closed) {
    return 0;
  }
  tell(now);
  compare(now);
  land_early(now);
  if (answer_due_) {
    answer_due_ = false;
    if (!failure_) {
      return emit_close(envelope_, out);
    }
    return emit_error(envelope_, {static_cast<std::uint16_t>(failure_->code), failure_->text}, out);
  }
  if (telling_ && !over()) {
    if (const std::size_t size = changes_.next(now, round_trip_, envelope_, out); size > 0) {
      return size;
    }
  } else if (comparing_first_ && !assembly_->reads_contents()) {
    return 0;
  }
  if (asks_for_signatures() && (!std::exchange(asked_, true) || sign_repeat_.take_due(now))) {
    sign_repeat_.lengthen(round_trip_);
    sign_repeat_.start(now);
    return emit_sign(envelope_, assembly_->to_sign(), out);
  }
  if (const auto have = may_announce() ? announcer_.next(now, round_trip_) : std::nullopt) {
    return emit_have(envelope_, *have, out);
  }
  return now >= report_at_ || continue_from_ ? transmit_report(now, out, credit_bytes) : 0;
}

std::size_t Receiver::transmit_report(TimePoint now, Bytes out, std::uint64_t credit_bytes) {
  Report report;
  report.phase = comparing_first_                               ? Phase::manifest
                 : accepted_early_ && phase_ == Phase::manifest ? Phase::data
                                                                : phase_;
  report.window_adus = window_adus;
  const std::uint64_t room = assembly_ ? std::max(assembly_->room_bytes(), credit_bytes_min) : credit_bytes;
  report.credit_bytes = credit_bytes_ = std::min(credit_bytes, room);
  report.highest = tracker_.highest();
  report.received_bytes = reported_bytes_ = received_bytes_;
  report.out_of_order = tracker_.out_of_order();
  report.held_ns = report.highest > 0 ? nanoseconds(now - tracker_.highest_at()) : 0;
  report.clock_ns = nanoseconds(now - started_at_);
  const std::uint64_t from = std::max(continue_from_.value_or(0), tracker_.first_known());
  const bool fits = tracker_.fill_missing(from, tracker_.loss_horizon(now), report);
  continue_from_ = fits ? std::nullopt : std::optional(report.to + 1);
  if (!fits) {
    return emit_report(envelope_, report, out);
  }

  const bool busy = std::exchange(received_since_report_, false);
  const Duration least = data_ended_ ? report_interval() : report_interval_max;
  report_backoff_ = busy ? report_interval() : std::min(std::max(report_backoff_, least) * 2, report_backoff_max);
  // Also when it is over, until the sender closes: one that follows this end to a new address hears of it by a report.
  report_at_ = now + report_backoff_;
  return emit_report(envelope_, report, out);
}

}  // namespace sluice::ftx
