// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sender: the sending side of one transfer, from HELLO to CLOSE. Sans-I/O (apps/ftx/session/endpoint.h says how to
// drive it).
//
//   waiting    for the KNOCK of a receiver that began the session; from there it offers to where that came from
//   greeting   sends HELLO until a COOKIE arrives; a sealed session begins by offering
//   reading    reads its files for the digests that the list is to have, a part each turn; says each second that it is
//              there
//   offering   sends OFFER, the manifest's ADUs and the first flight, until the receiver says something
//   sending    sends files and digests, retransmissions first; a PROBE when nothing else may go and no report arrives.
//              When all has been sent once, what is sent (the last ADU, and what was lost) goes three times, unasked
//              and a moment apart, since a loss would cost the transfer a round trip
//   failing    sends ERROR, three times at most, until the receiver closes
//   over       has nothing more to send
//
// Compression (adu_compressor.h): an ADU of files may travel as a zstd frame, and then stands for more bytes than its
// datagram holds. What is lost is compressed again, perhaps with other boundaries. Window, pacer, credit and the path
// MTU go by what travels.
//
// Path MTU (sender_path_mtu.cc): ADUs begin with what PathMtu::base_bytes carries, and grow and shrink with what probes
// find. A lost ADU that has become too large is sent again in parts.
//
// What goes out next is decided in sender_output.cc. Runs (sender_run.cc): ADUs that follow each other in a file leave
// as one piece of work.
//
// Timers: it repeats HELLO and OFFER with doubling intervals. The probe timer sends a PROBE when a report is overdue,
// so neither a lost last ADU nor a lost report stalls the transfer. After `idle_timeout` without progress, that is
// without a report that more payload arrived, the transfer fails.
//
// Streams: where nothing has come that could be sent, it sends a PROBE each second, so that both ends know of each
// other. A report is then progress, whatever it says.
//
// Of files that the receiver wants signed (SIGN), it sends the signatures before it has accepted.
//
// The first flight: files go behind the list before the receiver has said anything, since nearly always it needs them.
// That spares a round trip, and costs a window at most where they are there already. Not of a stream, whose source is
// not to be read before somebody takes it, and not where the receiver may want signatures.
//
// A receiver may accept before it has the whole list. What is left of that goes first all the same.
//
// What the receiver has already (HAVE) is not sent, and not sent again. What it will change (CHANGES) is kept for the
// program, which is to ask for it: as much as it has taken is noted, so that a receiver does not overrun it. In a dry
// run no file is sent, whatever the receiver says.
//
// Threat: a receiver that lies. A HAVE can only make that less is sent to who said it. A REPORT that says "finished"
// before everything was sent, or names sequences that were not, is dropped; the window it announces is bounded; reports
// that bring nothing do not keep the transfer alive, and in a sealed session nothing counts that does not open
// (apps/ftx/session/protection.h): not even an ERROR.
// A receiver that looks for what it has, or will change, takes its time for that: its reports of phase 0, once it has
// the list, are progress. So it keeps a session as long as one does that takes files slowly.
//
// Borrows Source and CongestionControl. Not thread-safe.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/recovery/delivery_sampler.h"
#include "apps/ftx/recovery/path_mtu.h"
#include "apps/ftx/recovery/receive_credit.h"
#include "apps/ftx/recovery/rtt_estimator.h"
#include "apps/ftx/recovery/sent_adus.h"
#include "apps/ftx/session/adu_scheduler.h"
#include "apps/ftx/session/attempts.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/event.h"
#include "apps/ftx/session/path_validation.h"
#include "apps/ftx/session/protection.h"

namespace sluice::ftx {

struct SenderOptions {
  Peer peer;  // where datagrams go
  /// Where the receiver may be as well. The first that answers counts.
  std::vector<Peer> others{};
  /// With a protection: the receiver begins the session, and `peer` is where its KNOCK comes from.
  bool waits_for_knock = false;
  std::string path;               // what the user wrote after ftx://HOST:PORT/
  Update update{};                // what the receiver is to leave alone, if it did not begin the transfer
  bool delta = false;             // the receiver may want signatures
  std::size_t tsdu_bytes = 1472;  // the largest datagram
  /// What IP and UDP put in front of a datagram. With it the sender searches for the path MTU, up to tsdu_bytes
  /// (apps/ftx/recovery/path_mtu.h). REQUIRES: the transport does not fragment then.
  std::optional<std::size_t> ip_header_bytes{};
  Compress compress = Compress::never;
  /// Measures what compressing costs. REQUIRED with `compress`, unless that is never.
  AduCompressor::Clock clock{};
  std::uint64_t seed = 0;  // of the connection identifier; unpredictable outside of tests
  Duration connect_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(30);
  Duration progress_interval = std::chrono::milliseconds(500);
};

class Sender {
 public:
  /// REQUIRES: adu_bytes_for(options.tsdu_bytes) > 0; is_relative_path(options.path); path within path_bytes_max.
  /// With `protection` every datagram is sealed, there is no HELLO, and whatever is not sealed is dropped.
  Sender(TimePoint now, SenderOptions options, Source& source, CongestionControl& congestion,
         std::optional<Protection> protection = std::nullopt);

  void receive(TimePoint now, ConstBytes datagram, const Peer& from = {});
  /// The transport reports that nobody listens at `peer` (ICMP port unreachable, T_UDERROR_IND).
  void unreachable(TimePoint now, const Peer& peer);
  /// The transport refused a datagram as too large, or an ICMP message says so of one (EMSGSIZE).
  void too_big(TimePoint now);
  /// The transfer fails, for a reason outside of it; the peer is told.
  void stop(TimePoint now, Failure failure);
  /// The user interrupted the transfer.
  void interrupt(TimePoint now) { stop(now, {ExitCode::interrupted, "interrupted"}); }

  /// Replaces what is in `burst` by the next datagrams; left empty: none now.
  void transmit(TimePoint now, Burst& burst);
  /// When to call transmit() if no datagram arrives before. REQUIRES: the last burst was empty.
  [[nodiscard]] TimePoint next_deadline() const;

  std::optional<Event> next_event() { return events_.pop(); }
  /// True when the outcome is known and nothing is left to send.
  [[nodiscard]] bool finished() const { return state_ == State::over && !close_due_; }
  /// REQUIRES: finished().
  [[nodiscard]] ExitCode exit_code() const { return outcome_; }
  /// The largest datagram that is sent now, apart from probes.
  [[nodiscard]] std::size_t datagram_bytes() const {
    const std::size_t before = options_.ip_header_bytes ? PathMtu::base_bytes : options_.tsdu_bytes;
    return path_mtu_ ? path_mtu_->bytes() : before;
  }
  [[nodiscard]] const PathMtu* path_mtu() const { return path_mtu_ ? &*path_mtu_ : nullptr; }
  /// When a report last said that payload arrived.
  [[nodiscard]] TimePoint last_progress_at() const { return last_progress_at_; }
  /// The receiver has said something.
  [[nodiscard]] bool answered() const { return peer_answered_; }
  /// Bytes of files that it has sent, without repairs.
  [[nodiscard]] std::uint64_t sent_bytes() const { return scheduler_ ? scheduler_->sent_bytes() : 0; }
  /// Of kind file: the next file that it has sent to its end. Null: none yet.
  [[nodiscard]] std::optional<Event> next_sent();
  /// Of kind change: the next that the receiver has told. Null: none now.
  [[nodiscard]] std::optional<Event> next_change();
  /// Datagrams that no state accepted, or of another connection.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  /// Bytes of payloads that were sealed on their way from the file to the transport, each in one pass.
  [[nodiscard]] std::uint64_t cipher_bytes() const { return sealed_bytes_; }
  /// Sequences that it remembers: those since the oldest that no report has resolved.
  [[nodiscard]] std::uint64_t remembered() const { return sent_adus_.span(); }

 private:
  enum class State { waiting, greeting, reading, offering, sending, failing, over };

  [[nodiscard]] ConstBytes open(const Envelope& envelope, ConstBytes datagram);
  void on_cookie(TimePoint now, ConstBytes datagram, const Peer& from);
  void begin_reading(TimePoint now);
  void read_on(TimePoint now);
  void begin_offering(TimePoint now);
  [[nodiscard]] bool may_run_ahead() const;
  [[nodiscard]] bool receiver_compares(const Report& report) const;
  void on_knock(TimePoint now, std::size_t bytes, const Peer& from);
  void follow_path(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  [[nodiscard]] bool may_send_data() const;
  void on_report(TimePoint now, ConstBytes datagram);
  void on_have(TimePoint now, ConstBytes datagram);
  void on_changes(TimePoint now, ConstBytes datagram);
  void on_sign(TimePoint now, ConstBytes datagram);
  void take_error(TimePoint now, ConstBytes datagram);
  [[nodiscard]] bool connection_is_lost(TimePoint now);
  [[nodiscard]] bool possible(const Report& report) const;
  void measure(TimePoint now, const Report& report, const SentAdus::Resolved& resolved);
  void follow_phase(TimePoint now, Phase phase);
  void accepted(TimePoint now);
  void done(TimePoint now);
  void fail(TimePoint now, Failure failure);
  void end(TimePoint now, const Failure& failure);

  void tick(TimePoint now);
  [[nodiscard]] bool feedback_needed() const;
  [[nodiscard]] bool may_probe(TimePoint now) const;
  [[nodiscard]] Duration probe_timeout() const;
  [[nodiscard]] bool waits_for_input() const;
  void set_probe_timer(TimePoint now);
  void note_progress(TimePoint now);
  [[nodiscard]] Event event(Event::Kind kind, TimePoint now) const;

  // sender_output.cc
  [[nodiscard]] std::optional<Outgoing> next(TimePoint now, Bytes room);
  [[nodiscard]] std::optional<Outgoing> next_on_path(Bytes room);
  [[nodiscard]] bool may_offer_others() const;
  [[nodiscard]] bool offer_again() const;
  [[nodiscard]] Outgoing control(Bytes out, std::size_t size);
  [[nodiscard]] std::optional<Outgoing> next_hello(TimePoint now, Bytes room);
  [[nodiscard]] std::size_t next_control(TimePoint now, Bytes out);
  [[nodiscard]] std::size_t offer(Bytes out) const;
  /// Where ADUs may change their size, a slot is the least that they may change by.
  [[nodiscard]] std::uint32_t slot_bytes() const {
    return path_mtu_ || compressor_ || options_.delta ? adu_bytes_unit : adu_bytes_;
  }
  [[nodiscard]] std::optional<Outgoing> next_adu(TimePoint now, Bytes room);
  [[nodiscard]] ConstBytes data_front(const Data& data, ConstBytes payload, Bytes room);
  [[nodiscard]] ConstBytes data_rest(ConstBytes payload) const { return protection_ ? ConstBytes() : payload; }
  /// `copy_of`: the sequence that carries this ADU already, 0: none that is open.
  [[nodiscard]] Outgoing put(TimePoint now, const AduScheduler::Adu& adu, bool repair, Bytes room,
                             std::uint64_t copy_of = 0);
  [[nodiscard]] std::optional<AduName> next_repair();
  [[nodiscard]] std::optional<Outgoing> next_copy(TimePoint now, Bytes room);
  void plan_copies(TimePoint now, std::uint64_t sequence, int left);
  [[nodiscard]] std::size_t probe(TimePoint now, Bytes out);
  [[nodiscard]] Stamp stamp() const;
  [[nodiscard]] bool congestion_window_is_full() const;
  [[nodiscard]] bool window_is_full() const;
  /// What a DATA has beside its payload.
  [[nodiscard]] std::size_t framing_bytes() const { return data_header_bytes + (protection_ ? tag_bytes : 0); }

  // sender_run.cc
  [[nodiscard]] std::uint64_t window_room(std::uint64_t payload_bytes) const;
  void add_run(TimePoint now, Burst& burst);

  // sender_path_mtu.cc
  void begin_path_mtu(TimePoint now);
  [[nodiscard]] bool may_probe_path() const;
  [[nodiscard]] std::optional<Outgoing> next_path_probe(TimePoint now, Bytes room);
  void follow_path_mtu(TimePoint now, const Report& report);
  void resize_adus();

  SenderOptions options_;
  Source& source_;
  CongestionControl& congestion_;
  std::optional<Protection> protection_;
  std::uint64_t sealed_bytes_ = 0;
  PathValidation path_;
  std::optional<std::uint64_t> response_due_;
  std::size_t next_other_ = 0;
  Attempts attempts_;                          // without a protection
  std::uint64_t unproven_bytes_ = UINT64_MAX;  // what may go to an address that has proven nothing
  Envelope envelope_;
  EventQueue events_;
  State state_ = State::greeting;
  ExitCode outcome_ = ExitCode::internal;
  Failure failure_;

  TimePoint started_at_;
  TimePoint reachable_since_;  // when it could first be answered
  TimePoint last_received_at_;
  TimePoint last_progress_at_;  // when a report last said that payload arrived
  bool peer_answered_ = false;
  std::uint64_t dropped_ = 0;

  // When to repeat HELLO, OFFER or ERROR, and the interval after that.
  TimePoint repeat_at_;
  Duration repeat_interval_;
  TimePoint asked_at_{};
  int errors_left_ = 3;
  bool close_due_ = false;
  TimePoint alive_at_{};  // when to say that it still reads
  bool taken_due_ = false;

  /// Told and not asked for by the program. What does not fit comes again.
  static constexpr std::size_t changes_kept = 4096;
  std::deque<Change> changes_;
  std::uint64_t noted_ = 0;
  std::uint32_t told_of_ = 0;  // the last entry that the receiver has spoken of, counted from 1
  bool removals_told_ = false;
  bool noted_due_ = false;

  std::uint32_t adu_bytes_;      // of the largest datagram
  std::uint32_t adu_bytes_now_;  // of datagram_bytes()
  std::optional<PathMtu> path_mtu_;
  Cookie cookie_{};
  std::optional<AduCompressor> compressor_;
  std::optional<AduScheduler> scheduler_;  // set when the cookie arrives
  Digest manifest_digest_{};
  SentAdus sent_adus_;
  RttEstimator rtt_estimator_;
  DeliverySampler delivery_sampler_;
  bool application_limited_ = false;  // sent less than allowed since the last datagram
  bool window_limited_ = false;       // the window, not the pacer, held back the next ADU
  bool window_limited_since_report_ = false;
  bool paced_ = false;  // the pacer held back the next ADU
  std::uint32_t window_adus_;
  ReceiveCredit receive_credit_;
  std::uint64_t report_clock_ns_ = 0;

  /// How often who waits for input says that it is there.
  static constexpr Duration alive_interval = std::chrono::seconds(1);
  /// How often an ADU goes again at the end of the data.
  static constexpr int copies_max = 2;
  /// An ADU that is to be sent again at the end, unless it is known to have arrived before.
  struct Copy {
    std::uint64_t sequence = 0;
    TimePoint due{};
    int left = 0;  // with this one
  };
  Ring<Copy> copies_;
  std::size_t offered_again_ = 0;
  std::uint64_t last_adu_ = 0;  // the sequence of the last that put() has sent
  std::uint64_t copied_ = 0;
  std::uint64_t compressed_bytes_ = 0;  // of files, without repairs

  TimePoint probe_at_ = never;
  Duration probe_backoff_{};
  TimePoint progress_at_;
  std::uint64_t repaired_ = 0;
  std::uint64_t repaired_announced_ = 0;
  std::uint64_t out_of_order_ = 0;
};

}  // namespace sluice::ftx
