// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sender: the sending side of one transfer, from HELLO to CLOSE. Sans-I/O (apps/ftx/session/endpoint.h says how to
// drive it).
//
//   greeting   sends HELLO until a COOKIE arrives
//   offering   sends OFFER and the manifest's ADUs until the receiver accepts
//   sending    sends files and digests, retransmissions first; a PROBE when nothing else may go and no report arrives
//   failing    sends ERROR, three times at most, until the receiver closes
//   over       has nothing more to send
//
// Timers: it repeats HELLO and OFFER with doubling intervals. The probe timer sends a PROBE when a report is overdue,
// so neither a lost last ADU nor a lost report stalls the transfer. After `idle_timeout` without progress, that is
// without a report that more payload arrived, the transfer fails.
//
// Threat: a receiver that lies. A REPORT that says "finished" before everything was sent, or names sequences that were
// not, is dropped; the window it announces is bounded; reports that bring nothing do not keep the transfer alive.
//
// Borrows Source and CongestionControl. Not thread-safe.

#include <memory>
#include <optional>
#include <string>

#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/recovery/delivery_sampler.h"
#include "apps/ftx/recovery/rtt_estimator.h"
#include "apps/ftx/recovery/sent_adus.h"
#include "apps/ftx/session/adu_scheduler.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/event.h"

namespace sluice::ftx {

struct SenderOptions {
  Peer peer;         // where datagrams go
  std::string path;  // what the user wrote after ftx://HOST:PORT/
  std::size_t tsdu_bytes = 1472;
  std::uint64_t seed = 0;  // of the connection identifier; unpredictable outside of tests
  Duration connect_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(30);
  Duration progress_interval = std::chrono::milliseconds(500);
};

class Sender {
 public:
  /// REQUIRES: adu_bytes_for(options.tsdu_bytes) > 0; is_relative_path(options.path); path within path_bytes_max.
  Sender(TimePoint now, SenderOptions options, Source& source, CongestionControl& congestion);

  void receive(TimePoint now, ConstBytes datagram);
  /// The transport reports that nobody listens there (ICMP port unreachable, T_UDERROR_IND).
  void unreachable(TimePoint now);
  /// The user interrupted the transfer.
  void interrupt(TimePoint now);

  /// Replaces what is in `burst` by the next datagrams; left empty: none now.
  void transmit(TimePoint now, Burst& burst);
  /// When to call transmit() if no datagram arrives before. REQUIRES: the last burst was empty.
  [[nodiscard]] TimePoint next_deadline() const;

  std::optional<Event> next_event() { return events_.pop(); }
  /// True when the outcome is known and nothing is left to send.
  [[nodiscard]] bool finished() const { return state_ == State::over && !close_due_; }
  /// REQUIRES: finished().
  [[nodiscard]] ExitCode exit_code() const { return outcome_; }
  /// Datagrams that no state accepted, or of another connection.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  enum class State { greeting, offering, sending, failing, over };

  void on_cookie(TimePoint now, ConstBytes datagram);
  void on_report(TimePoint now, ConstBytes datagram);
  void take_error(TimePoint now, ConstBytes datagram);
  [[nodiscard]] bool connection_is_lost(TimePoint now);
  [[nodiscard]] bool possible(const Report& report) const;
  void measure(TimePoint now, const Report& report, const SentAdus::Resolved& resolved);
  void follow_phase(TimePoint now, Phase phase);
  void done(TimePoint now);
  void fail(TimePoint now, Failure failure);
  void end(TimePoint now, const Failure& failure);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<Outgoing> next(TimePoint now, Bytes header);
  [[nodiscard]] Outgoing control(Bytes out, std::size_t size) const { return {options_.peer, out.first(size), {}}; }
  [[nodiscard]] std::size_t next_control(TimePoint now, Bytes out);
  [[nodiscard]] std::size_t offer(Bytes out) const;
  [[nodiscard]] std::optional<Outgoing> next_adu(TimePoint now, Bytes header);
  [[nodiscard]] Outgoing put(TimePoint now, const AduScheduler::Adu& adu, bool repair, Bytes header);
  [[nodiscard]] std::size_t probe(TimePoint now, Bytes out);
  [[nodiscard]] Stamp stamp(TimePoint now) const;
  [[nodiscard]] bool window_is_full() const;
  [[nodiscard]] bool feedback_needed() const;
  [[nodiscard]] bool may_probe(TimePoint now) const;
  [[nodiscard]] Duration probe_timeout() const;
  void note_progress(TimePoint now);
  [[nodiscard]] Event event(Event::Kind kind, TimePoint now) const;

  SenderOptions options_;
  Source& source_;
  CongestionControl& congestion_;
  Envelope envelope_;
  EventQueue events_;
  State state_ = State::greeting;
  ExitCode outcome_ = ExitCode::internal;
  Failure failure_;

  TimePoint started_at_;
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

  std::uint32_t adu_bytes_;
  Cookie cookie_{};
  std::optional<AduScheduler> scheduler_;  // set when the cookie arrives
  Digest manifest_digest_{};
  SentAdus sent_adus_;
  RttEstimator rtt_estimator_;
  DeliverySampler delivery_sampler_;
  bool application_limited_ = false;  // sent less than allowed since the last datagram
  bool window_limited_ = false;       // the window, not the pacer, held back the next ADU
  bool window_limited_since_report_ = false;
  std::uint32_t window_adus_ = 64;
  std::uint64_t report_clock_ns_ = 0;

  TimePoint probe_at_ = never;
  Duration probe_backoff_{};
  TimePoint progress_at_;
  std::uint64_t repaired_ = 0;
  std::uint64_t repaired_announced_ = 0;
  std::uint64_t out_of_order_ = 0;
};

}  // namespace sluice::ftx
