// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bbr: congestion control after BBRv3, draft-ietf-ccwg-bbr-06. Section numbers below are that draft's.
//
// It models the path by the highest delivery rate (max_bw), the lowest round trip (min_rtt) and the volume in flight at
// which losses began (inflight_longterm); it paces at the rate, and bounds what is in flight by a multiple of both.
//
//   startup         doubles the rate each round trip until it stops growing, or until losses say that the queue is full
//   drain           empties the queue that startup built
//   probe_bw_down   sends less than the path delivers until the queue is gone and there is headroom for others
//   probe_bw_cruise sends what the path delivers
//   probe_bw_refill fills the pipe for a round trip, so that probing does not mistake an empty pipe for a full queue
//   probe_bw_up     sends a quarter more, to find out whether the path delivers more
//   probe_rtt       every 5 s: halves what is in flight for 200 ms, to see the round trip without a queue
//
// Deviations from the draft, each because reports come a few times a round trip, or because a link that loses at random
// must not starve a transfer:
//
//   1. Loss counts against what else is known of the queue. The draft takes 2 % loss for a full queue (BBR.LossThresh),
//      and outside of probing any loss; so it collapses on a radio link that loses 3 % whatever is sent: 62 round trips
//      of cruising shrink the rate by 3 % each (section 5.3.3.8.3 does that sum for 1 %). A full queue also delays. So
//        - while the round trip has been an eighth above min_rtt in this round or the last, loss counts as in the
//          draft, but above the loss that was measured while there was no queue (8 % at most);
//        - otherwise only loss above 10 % counts. A policer or a very shallow queue, which do not delay, lose a fifth
//          of what comes when probe_bw_up sends a quarter more, and more than half in startup.
//        - the pacing rate makes up for the loss that was measured while there was no queue;
//        - Startup ends by less than 10 % only after a round with a queue from its beginning to its end (even the least
//          round trip shows it). A pause of a program lengthens some round trips of a round; with random loss beside
//          it, Startup ended long before the path was full, and the next probe came seconds later (measured: 256 MiB
//          at 1 Gbit/s, 50 ms, 5 % loss took 10.2 s once instead of 2.6; simulated, with one to three pauses of at most
//          100 ms: 3 s more in 11 of 400 runs, and with this rule in one).
//      A program that gets no processor in time measures long round trips and low rates, so what it sends counts as
//      without a queue unless the loss is above the threshold. What is sent while draining says nothing of the path, so
//      its losses do not shrink the short-term model. The price: a queue of less than an eighth of a bandwidth-delay
//      product may be kept losing up to 10 %.
//   2. The loss rate is what was lost of what was resolved since the datagram was sent, not of what was in flight then:
//      reports declare losses late, so losses of one and a half round trips come together.
//   3. Events are reports, not packets: what the draft does per lost packet happens once a report, for the newest.
//   4. The offload budget (5.5.8.2) is what may be sent until the programs at both ends get a processor. "The offload
//      budget can be increased by min(Ack-Eliciting Threshold, Requested Max Ack Delay * BBR.max_bw) to account for
//      delayed acknowledgements."
//   5. Startup. A report is up to a quarter of a round trip old, and its sample averages over more than one, so it
//      tells of half the rate that the path delivers already. Startup counts the rate at which datagrams arrive between
//      two reports as well: while a queue is there that is what the path delivers, and without one what it was sent at,
//      so that two or three round trips find the rate. The lower of two in succession counts: a receiver that gets its
//      processor late makes one span shorter, and the one before longer. What went before the first report counts for
//      no more than it paces at once the round trip is known. Startup begins with 256 datagrams, which is what two
//      dozen TCP connections begin with, spread over a third of the round trip that the handshake measured;
//      "nominal_bandwidth = C.InitialCwnd / (C.srtt ? C.srtt : 1ms)" (5.6.2) takes 20 ms for 1, so that where there was
//      no handshake they are no burst. As soon as a queue is evident, beside that round trip, too, it brakes: it paces
//      at 1.25 and holds half a bandwidth-delay product in the queue until the rate stops growing, so that it does not
//      fill a queue of one bandwidth-delay product. Of the first flight the end shows whether there is a queue: its
//      beginning meets a receiver that sets itself up (measured at 1 Gbit/s, 50 ms: round trips of 52 to 55 ms, for
//      which it braked for a round or two; 256 MiB took 2.58 to 2.73 s, and 2.57 to 2.58 with this rule). Losses of
//      Startup do not lower the short-term model that follows: the rate is known. (Measured with a queue of a quarter
//      of that, at 100 Mbit/s and 40 ms: 16 MiB in 1.58 s where samples alone took 2.29 s, of 1.34 that the link
//      takes.)
//   6. While it cruises and a queue is evident, it paces at 0.95 with a window gain of 1.15: what flows that compete
//      have estimated then sums up to more than the path delivers, and they converge to equal shares only as fast as
//      that queue goes.
//   7. There is no undo of spurious loss (5.5.11): reports do not tell that a datagram declared lost came after all.
//   8. A probe is over a round later than in the draft, which takes the losses of the probe for known when what was
//      sent after it arrives: "finishes receiving at least a full round trip of ACK feedback from bandwidth probing
//      without detecting excess packet loss" (5.3.3.6). Reports declare losses half a round trip and more after what
//      was sent later has arrived. Without that round every precautionary probe seemed to do no harm, and the next one
//      followed at once and overflowed the queue, again and again (beside a Cubic flow: 1.65 of an equal share instead
//      of 1.45).
//   9. A round trip within a 64th of the least one matches it: it says as well that the path is still that short. The
//      draft goes into ProbeRTT unless it saw a lower one for 5 s; exactly the same one a clock of nanoseconds never
//      shows. A flow that fills a path alone, without a queue, need not halve what is in flight every 5 s (measured: 3
//      % of its rate at 200 ms).
//  10. Loss lowers the short-term model every 16 rounds at most, unless less than 0.7 of it is delivered: the path has
//      become slower then. The draft lowers it in each round with loss. Beside a flow that does not yield to
//      loss (Linux's TCP BBR is one, and overflows a queue of one bandwidth-delay product every eighth round) that is a
//      way down without an end, until the next probe seconds later (measured: 0.64 of an equal share instead of 0.79);
//      beside one that does, losses come seconds apart.
//  11. After a probe that overflowed the queue it waits for the next one twice as long as the draft. Each such probe
//      takes 0.3 of a Cubic flow's window, which it wants more than five seconds to get back (measured beside Cubic:
//      1.43 of an equal share without, 1.2 with). The price: what others leave is found up to 3 s later.
//  12. While it cruises and no queue is evident, what arrives as fast as it was sent shows no limit of the path but the
//      sender's own rate, which is 0.95 of the path's where a queue was evident a round trip ago (deviation 6). With
//      that for the latest delivery rate a few random losses lowered the short-term model to 0.95 until the next probe,
//      seconds later (measured: 256 MiB at 1 Gbit/s, 50 ms, 0.1 % loss took 2.65 s instead of 2.53 with one seed in
//      three). Likewise in ProbeBW_DOWN, which sends 0.9 of what the path delivers and hears of the losses of the probe
//      before it (measured: 256 MiB at 100 Mbit/s, 200 ms, 0.5 % loss in bursts went at 0.88 of the link for up to 8 of
//      24.2 s; 23.5 to 24.0 with this rule. Simulated, Linux's TCP BBR leaves 0.87 of an equal share instead of 0.80).
//  13. Beside others it cruises at a rate that yields to a standing queue and grows without one (fair_share.h), and
//      does not probe where that has found others a short time ago; the next refill begins at that rate. In the draft,
//      flows whose samples add up to what the path delivers keep the ratio in which they began, but for their probes,
//      each of which takes from the others (measured at 100 Mbit/s, 40 ms, 30 s: the larger of two had 1.27 to 1.34 of
//      an equal share, with it 1.00 to 1.14). A queue stands where even the least round trip of a round shows it, by
//      more than the pacer's bursts: a path whose delay varies is no crowd. Beside somebody who does not yield the
//      wait for the next probe goes on through ProbeRTT. That comes every 5 s there, and the wait is as long after a
//      probe that overflowed the queue, so there would be no more probes (simulated: Linux's TCP BBR left 0.67 of an
//      equal share in the long run, with them 0.79). What several have measured in probes may add up to so much that
//      0.9 of it is no less than the path delivers; so a queue that is still there after 16 rounds of ProbeBW_DOWN is
//      yielded to, too. A round with a queue in which the sender's own program was late says nothing, neither that
//      others made that queue nor that there was none. While it counted as a round without one, nobody who was late now
//      and then was ever pressed, and yielded without an end (measured beside Linux's TCP BBR, 30 s: down to 0.5
//      Mbyte/s of 12.5 between two probes, 0.69 of an equal share, the median of 14 runs; 0.80 with this rule. Beside
//      CUBIC 1.39 instead of 1.13). The price: on a long path what others leave is found later, by a second at 200 ms.
//
// Random numbers (the length of cruising) come from a seed. Reads no clock. Not thread-safe.

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/recovery/fair_share.h"
#include "base/prng.h"

namespace sluice::ftx {

class Bbr final : public CongestionControl {
 public:
  /// `datagram_bytes` is the size of a full DATA datagram. REQUIRES: datagram_bytes > 0.
  Bbr(std::size_t datagram_bytes, std::uint64_t seed);

  void on_datagram_bytes(std::size_t bytes) override { datagram_ = bytes; }
  void on_first_round_trip(Duration round_trip) override;
  [[nodiscard]] std::string_view name() const override { return "bbr"; }
  void on_sent(TimePoint now, std::size_t bytes) override;
  void on_report(TimePoint now, const Delivery& delivery) override;
  [[nodiscard]] std::uint64_t window_bytes() const override { return window_; }
  [[nodiscard]] TimePoint next_send() const override { return pacer_.next_send(); }
  [[nodiscard]] bool behind(TimePoint now) const override { return pacer_.behind(now); }

  enum class State { startup, drain, probe_bw_down, probe_bw_cruise, probe_bw_refill, probe_bw_up, probe_rtt };
  [[nodiscard]] State state() const { return state_; }
  /// Bytes a second.
  [[nodiscard]] std::uint64_t bandwidth() const;
  [[nodiscard]] std::uint64_t pacing_rate() const { return pacer_.rate(); }
  [[nodiscard]] Duration min_round_trip() const { return min_rtt_; }
  /// The volume in flight beyond which losses were seen; `unbounded` if there were none.
  [[nodiscard]] std::uint64_t inflight_longterm() const { return inflight_longterm_; }
  static constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();

 private:
  enum class AckPhase { init, refilling, probe_starting, probe_feedback, probe_stopping, probe_losses };

  // --- The model
  void update_round(const Delivery& delivery);
  void start_round() { next_round_delivered_ = delivered_; }
  void end_round();
  [[nodiscard]] std::uint64_t shown_bandwidth(const Delivery& delivery) const;
  void update_latest_delivery(const Delivery& delivery);
  void update_max_bandwidth(const Delivery& delivery);
  void update_congestion_signals();
  [[nodiscard]] bool time_to_adapt() const;
  void adapt_share(const Delivery& delivery);
  void adapt_lower_bounds();
  void update_aggregation(TimePoint now, const Delivery& delivery);
  void update_min_rtt(TimePoint now, const Delivery& delivery);
  void note_loss(TimePoint now, const Delivery& delivery);
  [[nodiscard]] bool queue_evident() const;
  [[nodiscard]] Duration queue_bound() const;
  [[nodiscard]] double loss_threshold() const;
  [[nodiscard]] double blind_threshold() const;  // where no queue can be seen
  [[nodiscard]] bool loss_is_too_high(const Delivery::AtSend& datagram) const;
  [[nodiscard]] bool limited(const Delivery::AtSend& datagram) const;
  void reset_congestion_signals();
  void reset_short_term_model();

  // --- The states
  void check_full_bandwidth(const Delivery& delivery);
  void reset_full_bandwidth(std::uint64_t baseline);
  void check_startup_high_loss();
  void enter_startup();
  void enter_drain();
  void check_drain_done(TimePoint now);
  void update_cycle(TimePoint now, const Delivery& delivery);
  bool adapt_long_term_model(const Delivery& delivery);
  void pick_probe_wait(TimePoint now);
  void start_down(TimePoint now);
  void end_probe();
  void start_cruise();
  void start_refill();
  void start_up(const Delivery& delivery);
  [[nodiscard]] bool time_to_probe(TimePoint now) const;
  [[nodiscard]] bool time_to_cruise() const;
  [[nodiscard]] bool time_to_go_down(const Delivery& delivery);
  void raise_inflight_slope();
  void probe_inflight_upward(const Delivery& delivery);
  void check_probe_rtt(TimePoint now);
  void handle_probe_rtt(TimePoint now);
  void check_probe_rtt_done(TimePoint now);
  [[nodiscard]] bool in_probe_bw() const;
  [[nodiscard]] bool probing() const;

  // --- What follows from them
  [[nodiscard]] double pacing_gain() const;
  [[nodiscard]] double window_gain() const;
  [[nodiscard]] std::uint64_t max_bandwidth() const { return std::max(max_bw_[0], max_bw_[1]); }
  [[nodiscard]] std::uint64_t bdp(double gain) const;
  [[nodiscard]] std::uint64_t target_inflight() const { return std::min(bdp(1), window_); }
  [[nodiscard]] std::uint64_t drained_inflight() const;
  [[nodiscard]] std::uint64_t inflight_with_headroom() const;
  [[nodiscard]] std::uint64_t extra_acked() const;
  void init_pacing_rate(Duration round_trip);
  void set_pacing_rate(double gain);
  void set_window(const Delivery& delivery);

  std::uint64_t datagram_;  // (C.SMSS)
  Prng prng_;
  Pacer pacer_;
  State state_ = State::startup;
  std::uint64_t window_;  // (C.cwnd)
  std::uint64_t prior_window_ = 0;

  // What the last report said, and what was sent after it.
  std::uint64_t delivered_ = 0;
  std::uint64_t in_flight_ = 0;
  bool sent_since_report_ = false;
  bool started_ = false;

  // Round trips, counted by packets (5.5.1).
  std::uint64_t next_round_delivered_ = 0;
  std::uint64_t round_count_ = 0;
  bool round_start_ = false;
  std::uint64_t rounds_since_probe_up_ = 0;

  // Bandwidth: the highest of this cycle and of the one before (5.5.5, 5.5.6).
  std::array<std::uint64_t, 2> max_bw_{};
  std::uint64_t arrival_rate_ = unbounded;  // of the last report that had one
  std::uint64_t bw_shortterm_ = unbounded;
  std::uint64_t bw_latest_ = 0;
  FairShare share_;                  // of a cruise
  std::uint64_t adapted_round_ = 0;  // when loss lowered the short-term model last

  // Volume.
  std::uint64_t inflight_longterm_ = unbounded;
  std::uint64_t inflight_shortterm_ = unbounded;
  std::uint64_t inflight_latest_ = 0;
  static constexpr std::size_t extra_acked_rounds = 10;
  std::array<std::uint64_t, extra_acked_rounds> extra_acked_{};
  TimePoint extra_acked_since_{};
  std::uint64_t extra_acked_delivered_ = 0;

  // Round trips (5.3.4.3), and the largest of this round and the one before.
  Duration min_rtt_ = Duration::max();
  TimePoint min_rtt_at_{};
  Duration first_rtt_ = Duration::max();  // of the handshake
  Duration probe_rtt_min_ = Duration::max();
  TimePoint probe_rtt_min_at_{};
  bool probe_rtt_expired_ = false;
  std::array<Duration, 2> rtt_max_{};
  Duration round_rtt_min_ = Duration::max();  // the least of this round
  Duration last_rtt_min_ = Duration::max();   // and of the last one
  bool standing_queue_ = false;               // in all of the last round
  bool queue_shrinks_ = false;                // in the last round, against the one before
  Duration last_rtt_{};
  bool crowded_ = false;  // a queue is evident, and it is not for a program that gets no processor that it seems so

  std::uint64_t settled_delivered_ = 0;  // what was sent later was sent after the last probing ended

  // Loss, of this round; and what is lost while there is no queue.
  std::uint64_t round_lost_ = 0;
  std::uint64_t round_resolved_ = 0;
  std::uint64_t round_lost_runs_ = 0;
  double round_loss_rate_ = 0;  // of the last round
  std::uint64_t last_round_lost_runs_ = 0;
  double background_loss_ = 0;
  std::uint64_t background_lost_ = 0;
  std::uint64_t background_resolved_ = 0;
  bool loss_in_round_ = false;
  std::uint64_t loss_round_delivered_ = 0;
  bool loss_round_start_ = false;

  // The full-pipe estimator (5.3.1.2).
  std::uint64_t full_bw_ = 0;
  int full_bw_count_ = 0;
  bool full_bw_now_ = false;
  bool full_bw_reached_ = false;
  std::uint64_t drain_start_round_ = 0;

  // The cycle of ProbeBW.
  AckPhase ack_phase_ = AckPhase::init;
  TimePoint cycle_at_{};
  std::uint64_t down_start_round_ = 0;
  unsigned probe_patience_ = 1;
  Duration probe_wait_{};
  bool probe_sample_ = false;    // (BBR.is_bw_probe_sample)
  bool probe_too_high_ = false;  // (BBR.prev_probe_too_high)
  bool probe_precautionary_ = false;
  std::uint64_t up_rounds_ = 0;
  std::uint64_t up_acked_ = 0;
  std::uint64_t up_acked_per_increment_ = unbounded;

  // ProbeRTT, and samples that were limited by it.
  TimePoint probe_rtt_done_at_ = never;
  bool probe_rtt_round_done_ = false;
  std::uint64_t limited_from_ = 0;
  std::uint64_t limited_to_ = 0;
  bool idle_restart_ = false;
};

std::string_view to_text(Bbr::State state);

}  // namespace sluice::ftx
