// SPDX-License-Identifier: Apache-2.0
#pragma once

// The receiving side of one transfer. Sans-I/O: datagrams and time come in, datagrams and events go out. It is driven
// by a Server, which has validated the peer's address.
//
// An ADU passes in three steps, so that a caller may land the payload itself:
//   inspect(header)   before: the place is named, nothing has changed yet
//   (the pass)        the payload is put there; it may prove to be damaged only when it is: then nothing is said, and
//                     the place is named again when the ADU comes again
//   landed(landing)   after: sequence and slot count as received
// receive() does all three.
//
// Timers: a report every quarter of a round trip (0.2 .. 20 ms) while data comes; when none comes, intervals double up
// to a second; after `idle_timeout` without a datagram the transfer has failed. A finished or failed receiver lingers,
// answering, until the peer closes.
//
// Borrows Destination, Budget and EventQueue. Not thread-safe.

#include <memory>
#include <optional>

#include "apps/ftx/arrivals.h"
#include "apps/ftx/assembly.h"
#include "apps/ftx/event.h"
#include "apps/ftx/message.h"

namespace sluice::ftx {

/// Datagrams that a session or a server did not use, by reason.
struct DropCounters {
  std::uint64_t malformed = 0;
  std::uint64_t unknown_connection = 0;
  std::uint64_t bad_cookie = 0;
  std::uint64_t unexpected = 0;  // a kind that this side or this state has no use for
  std::uint64_t duplicate = 0;   // a sequence or a place that was filled already
  std::uint64_t too_old = 0;     // a sequence below the window
  std::uint64_t misplaced = 0;
  std::uint64_t no_room = 0;
  std::uint64_t no_session = 0;  // sessions_max reached
  std::uint64_t unsent = 0;      // answers to strangers that found the queue full
};

struct ReceiverOptions {
  Duration idle_timeout = std::chrono::seconds(30);
  Duration progress_interval = std::chrono::milliseconds(500);
};

class Receiver {
 public:
  /// `envelope` and `offer` are of the OFFER that opened the session.
  Receiver(TimePoint now, const Envelope& envelope, const Offer& offer, ReceiverOptions options,
           Destination& destination, Budget& budget, EventQueue& events, DropCounters& drops);

  struct Landing {
    Data data;
    Placement place;
  };
  /// The memory that inspect() would name, without acting on a header that may be damaged: a place to put the payload
  /// while it is verified. Empty: none.
  [[nodiscard]] Bytes memory_for(const Envelope& envelope, ConstBytes header, std::size_t datagram_bytes) const;
  /// The datagram has proved right, and its payload is in `memory`. REQUIRES: memory_for() has named that for the same
  /// header, and nothing was called in between.
  void placed(TimePoint now, ConstBytes header, std::size_t datagram_bytes, Bytes memory);
  /// Where the payload of a DATA datagram belongs; null: nowhere, and nothing more is to be done.
  [[nodiscard]] std::optional<Landing> inspect(TimePoint now, const Envelope& envelope, ConstBytes header,
                                               std::size_t datagram_bytes);
  /// The payload is in its place, and is what was sent. The session may find that the place did not take it, and fails
  /// then as landing_failed() does.
  void landed(TimePoint now, const Landing& landing);
  void landing_failed(TimePoint now, const Landing& landing, const Error& error);

  /// REQUIRES: `envelope` is that of `datagram` and names this session.
  void receive(TimePoint now, const Envelope& envelope, ConstBytes datagram);

  /// The server is going away: the peer is told.
  void interrupt(TimePoint now);

  /// The next datagram for the peer; 0: none now. REQUIRES: `out` holds control_bytes_max.
  std::size_t transmit(TimePoint now, Bytes out);
  /// When transmit() may have something to say or to do without a datagram coming in.
  [[nodiscard]] TimePoint next_deadline() const;

  /// True when the session needs nothing any more and may be forgotten.
  [[nodiscard]] bool forgettable() const { return state_ == State::closed; }
  /// True when its outcome is settled, whether or not it still answers.
  [[nodiscard]] bool over() const { return state_ != State::open; }
  [[nodiscard]] std::uint64_t out_of_order() const { return arrivals_.out_of_order(); }

 private:
  // open: receiving. lingering: finished or failed, answers the peer. closing: the peer closed, late datagrams are
  // swallowed so that a late OFFER does not open a second session. closed: may be forgotten.
  enum class State { open, lingering, closing, closed };

  void take_data(TimePoint now, const Envelope& envelope, ConstBytes datagram);
  void take_probe(TimePoint now, ConstBytes datagram);
  void take_error(TimePoint now, ConstBytes datagram);
  void close(TimePoint now);
  void fail(TimePoint now, const Failure& failure, bool tell_peer);
  void finished(TimePoint now);
  void note_phase(TimePoint now);
  void note_progress(TimePoint now);
  void tick(TimePoint now);
  void schedule_report(TimePoint now);
  [[nodiscard]] Duration report_interval() const;
  std::size_t transmit_report(TimePoint now, Bytes out);
  [[nodiscard]] Event event(Event::Kind kind, TimePoint now) const;

  Envelope envelope_;
  ReceiverOptions options_;
  EventQueue& events_;
  DropCounters& drops_;
  State state_ = State::open;
  std::unique_ptr<Assembly> assembly_;  // null when the offer could not be taken up
  Arrivals arrivals_;
  std::optional<Failure> failure_;  // what the peer is told, again on each datagram
  Phase phase_ = Phase::manifest;

  TimePoint started_at_;
  TimePoint heard_at_;
  TimePoint report_at_ = never;
  Duration report_backoff_{};
  bool heard_since_report_ = false;
  bool answer_due_ = false;                     // ERROR or CLOSE
  std::optional<std::uint64_t> continue_from_;  // a report that did not fit one datagram goes on here
  TimePoint linger_until_ = never;
  TimePoint progress_at_;

  Duration round_trip_{};
  std::uint64_t received_bytes_ = 0;
  std::uint64_t adus_ = 0;
  std::uint64_t repaired_ = 0;
};

}  // namespace sluice::ftx
