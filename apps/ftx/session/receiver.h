// SPDX-License-Identifier: Apache-2.0
#pragma once

// Receiver: the receiving side of one transfer. Sans-I/O: datagrams and time come in, datagrams and events go out. A
// Server drives it and has validated the peer's address.
//
// An ADU is received in three steps, so that a caller can land the payload itself:
//   inspect(header)   names the place; nothing has changed yet
//   (the pass)        the caller copies the payload there and verifies it; if it is damaged, the caller reports
//                     nothing, and inspect() names the place again when the ADU arrives again
//   landed(landing)   counts sequence and slot as received
// receive() does all three. Between begin_run() and end_run() it leaves the writing of payloads to end_run(), which
// writes those that follow each other in a file with one call.
//
// A compressed ADU (adu_decompressor.h) comes by receive() only, whole and authenticated: its payload is not what
// belongs in its place. What counts as received of it is what has travelled.
//
// What is there already it looks for as soon as it has the list, before it accepts the transfer, and tells the sender
// (apps/ftx/session/have_announcer.h). It accepts at once when nothing is found, and after compare_first_max at the
// latest; then it looks further while data arrives. Where contents are compared it looks at all of them first, as many
// as it may tell of, a part each turn, and reports meanwhile. Where blocks are looked for in earlier versions, it first
// asks for the signatures of these (SIGN), and waits for them.
//
// A sender does not wait for that (docs/formats/ftx.md, "The first flight"): what comes of files before the list is
// whole, and what is there has been looked for, waits, and lands a part each turn.
// Where nothing of a tree can be there, it accepts as soon as it has the beginning of the list (Assembly::early); the
// credit is then the room for what waits.
//
// Where it is to be told what will change (Update::told), that comes first of all: to the sender by CHANGES, where he
// asks, else as events. Nothing has been made then. A dry run ends with it, and says that everything is there, so that
// a sender who does not know of it sends nothing either.
//
// Timers: it sends a report every quarter of a round trip (0.2 .. 20 ms) while data arrives, and whenever a quarter of
// the credit has been used, so that the sender need not wait for more. Without data the interval doubles, up to a
// second. After `idle_timeout` without progress the transfer fails. A finished or failed receiver
// still answers until the peer closes.
//
// Threat: a peer that keeps a session for as long as it likes with a PROBE now and then. Only payload that lands where
// none was is progress. Of a stream whose end is not known a PROBE keeps the session, since its input may be slow; but
// it is no progress, so that the session is among the first to give way where the server is full.
//
// Borrows Destination, Budget, AduDecompressor and EventQueue. Not thread-safe.

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "apps/ftx/files/assembly.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/receive_tracker.h"
#include "apps/ftx/session/adu_decompressor.h"
#include "apps/ftx/session/change_announcer.h"
#include "apps/ftx/session/event.h"
#include "apps/ftx/session/have_announcer.h"
#include "apps/ftx/session/repeat_timer.h"

namespace sluice::ftx {

/// Datagrams that a session or a server dropped, by reason.
struct DropCounters {
  std::uint64_t malformed = 0;
  std::uint64_t unknown_connection = 0;
  std::uint64_t forged = 0;  // sealed, and did not open or has been here before
  std::uint64_t bad_cookie = 0;
  std::uint64_t unexpected = 0;  // a kind that this side or state does not accept
  std::uint64_t duplicate = 0;   // a sequence or a place that is filled already
  std::uint64_t too_old = 0;     // a sequence below the window
  std::uint64_t misplaced = 0;
  std::uint64_t bad_frame = 0;  // compressed, and not what its name says
  std::uint64_t no_room = 0;
  std::uint64_t no_session = 0;    // no room for another one
  std::uint64_t no_handshake = 0;  // likewise, of a handshake
  std::uint64_t displaced = 0;     // sessions that gave way to another
  std::uint64_t unsent = 0;        // answers to strangers that did not fit the queue
};

struct ReceiverOptions {
  Duration idle_timeout = std::chrono::seconds(30);
  Duration progress_interval = std::chrono::milliseconds(500);
  std::uint64_t own_memory_bytes = 1U << 20;     // of each session, beside what its host may take
  std::uint64_t storage_bytes_max = UINT64_MAX;  // what one session may write
  std::uint64_t entries_max = UINT64_MAX;        // what it may make
  /// Of who began the transfer himself; else the sender's OFFER says it.
  std::optional<Update> update{};
  /// The sender may learn what is there: whether it has a content that he knows, and what would change.
  bool tells_equal = true;
};

class Receiver {
 public:
  /// A report announces so much at least.
  static constexpr std::uint64_t credit_bytes_min = 16 * 1024;

  /// `envelope` and `offer` are those of the OFFER that opened the session, `host` the budget of the peer's host.
  Receiver(TimePoint now, const Envelope& envelope, const Offer& offer, ReceiverOptions options,
           Destination& destination, Budget& host, AduDecompressor& decompressor, EventQueue& events,
           DropCounters& drops);

  struct Landing {
    Data data;
    Placement place;
  };
  /// The memory that inspect() would name. Changes no state, because nothing has verified the header: the caller copies
  /// the payload there while it verifies it. Empty: none.
  [[nodiscard]] Bytes memory_for(ConstBytes header, std::size_t datagram_bytes) const;
  /// The datagram verified, and its payload is in `memory`. REQUIRES: memory_for() named that memory for the same
  /// header, with no other call in between.
  void placed(TimePoint now, ConstBytes header, std::size_t datagram_bytes, Bytes memory);
  /// Where the payload of a DATA datagram belongs; null: nowhere, and the datagram is done.
  [[nodiscard]] std::optional<Landing> inspect(TimePoint now, ConstBytes header, std::size_t datagram_bytes,
                                               Assembly::Prefer prefer = Assembly::Prefer::memory);
  /// The payload is in its place and verified. If the file did not accept it after all, the session fails as in
  /// landing_failed().
  void landed(TimePoint now, const Landing& landing);
  void landing_failed(TimePoint now, const Landing& landing, const Error& error);

  /// REQUIRES: `envelope` is that of `datagram` and names this session.
  void receive(TimePoint now, const Envelope& envelope, ConstBytes datagram);

  /// What receive() gets from now on stays valid until end_run().
  void begin_run() { in_run_ = true; }
  /// As receive(), of each. Several are one piece of work where they continue what has arrived. REQUIRES: data_run()
  /// answers that they are a run, begin_run() was called.
  void receive_run(TimePoint now, const Envelope& envelope, std::span<const Bytes> datagrams);
  /// The first of `datagrams` if they land as one piece of work. Changes no state, because nothing has verified the
  /// headers of sealed ones. REQUIRES: as receive_run().
  [[nodiscard]] std::optional<Data> takes_run(std::span<const Bytes> datagrams) const;
  /// The first `count` of these have opened; `payloads` are theirs, one behind the other, and stay valid until
  /// write_gathered() or end_run(). REQUIRES: takes_run() answered `first`, with no other call in between; count > 0.
  void land_opened(TimePoint now, const Data& first, std::uint32_t count, ConstBytes payloads);
  /// False: no payload waits to be written.
  [[nodiscard]] bool gathers() const { return assembly_ != nullptr && assembly_->gathers(); }
  void write_gathered(TimePoint now);
  void end_run(TimePoint now);

  /// The server stops: the session fails and tells the peer.
  void interrupt(TimePoint now);
  /// The network says that nothing listens where the sender was. Of a stream, whose sender speaks each second while it
  /// waits, that ends the session, if it has also been silent for silence_max.
  ///
  /// Threat: forged ICMP messages. They end nothing that is alive.
  void sender_refuses(TimePoint now);
  static constexpr Duration silence_max = std::chrono::seconds(4);
  /// Another session gets this one's room: fails if it is open.
  void give_way(TimePoint now);
  /// When payload last landed where none was; at first when the session began.
  [[nodiscard]] TimePoint last_progress_at() const { return last_progress_at_; }
  [[nodiscard]] const Envelope& envelope() const { return envelope_; }

  /// The next datagram for the peer; 0: none now. `credit_bytes` is what a report announces: how much of this peer's
  /// payload can wait unread. REQUIRES: `out` holds control_bytes_max.
  std::size_t transmit(TimePoint now, Bytes out, std::uint64_t credit_bytes);
  /// When to call transmit() if no datagram arrives before.
  [[nodiscard]] TimePoint next_deadline() const;

  /// True when the server may delete the session.
  [[nodiscard]] bool forgettable() const { return state_ == State::closed; }
  /// Its peer has closed, or has been silent for long: it needs no answer any more.
  [[nodiscard]] bool closed() const { return state_ == State::closing || state_ == State::closed; }
  /// True when the outcome is known, even if the session still answers.
  [[nodiscard]] bool over() const { return state_ != State::open; }
  /// True when it is over and its peer can do without it: not while the sender of a whole transfer, which has yet to
  /// close, may not have heard of that. Without the session he would be told that it is lost.
  [[nodiscard]] bool dispensable() const { return over() && (state_ != State::lingering || failure_.has_value()); }
  [[nodiscard]] std::uint64_t out_of_order() const { return tracker_.out_of_order(); }

 private:
  // open:       receives.
  // lingering:  finished or failed; answers the peer.
  // closing:    the peer closed; swallows late datagrams, so that a late OFFER does not open a second session.
  // closed:     the server may delete it.
  enum class State { open, lingering, closing, closed };

  void on_data(TimePoint now, ConstBytes datagram);
  void land_run(TimePoint now, const Data& first, std::span<const Bytes> datagrams);
  [[nodiscard]] bool gather(TimePoint now, const AduName& adu, ConstBytes payload);
  void note_landed(TimePoint now, const Data& first, std::uint32_t count);
  void on_probe(TimePoint now, ConstBytes datagram);
  void take_error(TimePoint now, ConstBytes datagram);
  void close(TimePoint now);
  void fail(TimePoint now, const Failure& failure, bool tell_peer);
  void finished(TimePoint now);
  void note_phase(TimePoint now);
  void compare(TimePoint now);
  [[nodiscard]] bool compares_first(TimePoint now) const;
  [[nodiscard]] bool waits_for_signatures(TimePoint now);
  /// Not before it knows what it needs signed.
  [[nodiscard]] bool asks_for_signatures() const {
    return state_ == State::open && !telling_ && !assembly_->looks_for_earlier() && assembly_->awaits_signatures() &&
           !assembly_->signatures_begun();
  }
  void tell(TimePoint now);
  void told(TimePoint now);
  [[nodiscard]] std::size_t room_to_tell() const;
  [[nodiscard]] bool may_tell() const {
    return telling_ && state_ == State::open && assembly_->surveying() && room_to_tell() > 0;
  }
  void on_noted(TimePoint now, ConstBytes datagram);
  void on_taken(TimePoint now, ConstBytes datagram);
  /// compare() has something to do.
  [[nodiscard]] bool may_compare() const {
    return state_ == State::open && assembly_->comparing() && announcer_.room() > 0 &&
           (assembly_->looks_for_earlier() || !assembly_->awaits_signatures());
  }
  /// What is there is told even if all else is done: the sender does not believe before that it is.
  [[nodiscard]] bool may_announce() const { return !comparing_first_ && !failure_ && state_ != State::closing; }
  void note_progress(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint gives_up_at() const { return std::max(last_progress_at_, alive_at_) + options_.idle_timeout; }
  void schedule_report(TimePoint now);
  [[nodiscard]] Duration report_interval() const;
  void note_end_of_data();
  void land_early(TimePoint now);
  [[nodiscard]] bool lands_early() const { return state_ == State::open && assembly_->early_waits(); }
  std::size_t transmit_report(TimePoint now, Bytes out, std::uint64_t credit_bytes);
  [[nodiscard]] Event event(Event::Kind kind, TimePoint now) const;

  Envelope envelope_;
  ReceiverOptions options_;
  AduDecompressor& decompressor_;
  EventQueue& events_;
  DropCounters& drops_;
  State state_ = State::open;
  bool in_run_ = false;
  Budget budget_;
  std::unique_ptr<Assembly> assembly_;  // null when the offer was refused
  ReceiveTracker tracker_;
  std::optional<Failure> failure_;  // what the session answers to each datagram
  Phase phase_ = Phase::manifest;
  HaveAnnouncer announcer_;
  bool telling_ = false;  // what will change, before all else
  ChangeAnnouncer changes_;
  std::vector<Change> found_;       // of one call of tell()
  std::vector<ByteRange> present_;  // of one call of compare()
  bool comparing_first_ = false;    // looks what is there before it accepts
  bool waiting_ = false;            // for signatures
  bool asked_ = false;              // for them
  RepeatTimer sign_repeat_;
  bool accepted_early_ = false;  // before the list was whole
  TimePoint early_at_{};         // when to land more of what came then
  TimePoint compare_first_until_{};

  TimePoint started_at_;
  TimePoint last_progress_at_;
  TimePoint alive_at_;  // when the sender of a stream last said that it waits
  TimePoint report_at_ = never;
  Duration report_backoff_{};
  bool received_since_report_ = false;
  std::uint64_t credit_bytes_ = 0;              // what the last report announced
  std::uint64_t reported_bytes_ = 0;            // received_bytes_ of the last report
  bool answer_due_ = false;                     // ERROR or CLOSE
  std::optional<std::uint64_t> continue_from_;  // where a report that did not fit one datagram continues
  TimePoint linger_until_ = never;
  TimePoint progress_at_;

  Duration round_trip_{};
  bool data_ended_ = false;  // the last ADU has landed: what is missing is on its way, or lost
  std::uint64_t received_bytes_ = 0;
  std::uint64_t adus_ = 0;
  std::uint32_t largest_payload_bytes_ = 0;
  std::uint64_t compressed_bytes_ = 0;
  std::uint64_t repaired_ = 0;
};

}  // namespace sluice::ftx
