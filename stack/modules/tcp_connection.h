// SPDX-License-Identifier: Apache-2.0
#pragma once

// One TCP connection as RFC 9293 has it: what it does with a segment, a call of its user's, and the passing of time. It
// knows no queue, no clock and no address: segments come in as headers with their data, and what it has to send waits
// in take_segments(); so everything about it can be simulated.
//
//     arrive(), settle(), on_timer(), send(), finish(), ...  ──►  take_segments(), take(), news(), next_deadline()
//
// Beyond RFC 9293: window scale and timestamps (RFC 7323), selective acknowledgement (RFC 2018), retransmission by
// time (RFC 6298, RFC 8985), congestion control (RFC 5681; tcp_congestion.h), and what RFC 5961 asks for against blind
// attacks: a reset, a SYN or an acknowledgement counts only where it is exactly in its place, and is questioned
// elsewhere ("challenge ACK").
//
// Threat: whoever sends to this host may send any segment. One that is out of its place changes nothing, and is
// answered: at most challenges_max times a second, but always where it has data or a FIN, whose sender may wait for
// that; nobody who does not see the connection's segments can end it or put bytes into it with fewer tries than its
// window and its sequence numbers ask for. What is kept for a peer is bounded by the window that it was given.
//
// Ownership: owns what it has been given to send, and what came. Threads: one.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "stack/core/message.h"
#include "stack/modules/stream_position.h"
#include "stack/modules/stream_send_buffer.h"
#include "stack/modules/tcp_congestion.h"
#include "stack/modules/tcp_receive_buffer.h"
#include "stack/modules/tcp_round_trip.h"
#include "stack/modules/tcp_scoreboard.h"
#include "stack/modules/tcp_segment.h"
#include "stack/wire/address.h"
#include "stack/wire/connection_info.h"
#include "stack/wire/tcp.h"

namespace sluice::tcp {

using namespace byte_stream;  // positions and buffers, which other transports have, too

/// RFC 9293 section 3.3.2, without LISTEN: that is its module's.
enum class State : std::uint8_t {
  closed,
  syn_sent,
  syn_received,
  established,
  fin_wait_1,
  fin_wait_2,
  close_wait,
  closing,
  last_ack,
  time_wait,
};

class Connection {
 public:
  /// RFC 9293 section 3.8.4: "it MUST NOT interpret failure to respond to any specific probe as a dead connection
  /// (MUST-29)": so many in a row, that far apart, as hosts have it.
  static constexpr unsigned keep_alive_probes_max = 9;
  static constexpr Duration keep_alive_pause = std::chrono::seconds(75);
  struct KeepAlive {
    Duration after{};  ///< so long without a segment; 0: off
    Duration pause = keep_alive_pause;
    unsigned probes_max = keep_alive_probes_max;
  };
  struct Settings {
    std::size_t send_buffer_bytes = std::size_t{512} * 1024;
    std::size_t receive_buffer_bytes = std::size_t{512} * 1024;
    /// The largest segment that the path takes, without options: what is announced, and what is sent at most.
    std::uint16_t segment_bytes = 1460;
    bool no_delay = false;  ///< RFC 9293 section 3.7.4: "there MUST be a way for an application to disable the Nagle
                            ///< algorithm on an individual connection (MUST-17)"
    /// Most bytes of data that go down together, as one message that stands for several full segments; 0: each goes
    /// alone.
    std::size_t together_bytes = 0;
    /// RFC 9293 section 3.8.4: "If keep-alives are included, the application MUST be able to turn them on or off for
    /// each TCP connection (MUST-24), and they MUST default to off (MUST-25)."
    KeepAlive keep_alive{};
  };
  /// Not to be guessed by others (RFC 6528; RFC 7323 section 5.4).
  struct Secrets {
    std::uint32_t first_sequence_number = 0;
    std::uint32_t timestamp_offset = 0;
  };
  /// What the user is to be told.
  struct News {
    bool opened = false;        ///< it is established
    bool ended = false;         ///< the peer has ended sending, and take() has given all that it sent
    bool acknowledged = false;  ///< send_room() has grown
    std::optional<int> closed;  ///< it is over: 0, or an errno
  };
  struct Statistics {
    std::uint64_t segments_sent = 0;
    std::uint64_t segments_again = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t challenges = 0;
    std::uint64_t unacceptable = 0;  ///< segments that came outside of the window, or too old
    std::uint64_t no_memory = 0;     ///< segments not made or not kept
  };

  /// RFC 9293 section 3.4.2: "For this specification the MSL is taken to be 2 minutes. This is an engineering choice";
  /// half a minute here, as hosts have it today.
  static constexpr Duration segment_life_max = std::chrono::seconds(30);
  /// RFC 9293 section 3.8.6.3: "an ACK should not be excessively delayed; in particular, the delay MUST be less than
  /// 0.5 seconds (MUST-40)".
  static constexpr Duration acknowledgement_delay = std::chrono::milliseconds(40);
  /// RFC 5681 section 4.2: "an ACK SHOULD be generated for at least every second full-sized segment". Of segments that
  /// come together, every eighth: RFC 9293 section 3.8.6.3 notes "several current practices that further lead to a
  /// reduced number of ACKs, including generic receive offload (GRO)", and RFC 9406 section 4.3 lets a sender count
  /// eight segments for one acknowledgement in slow start.
  static constexpr unsigned segments_unacknowledged_max = 2;
  static constexpr unsigned segments_together_max = 8;
  /// RFC 9293 section 3.8.3: "R2 for a SYN segment MUST be set large enough to provide retransmission of the segment
  /// for at least 3 minutes", "The value of R2 SHOULD correspond to at least 100 seconds"; section 3.9.1.1: "The
  /// present global default is five minutes."
  static constexpr Duration opening_time_max = std::chrono::minutes(3);
  static constexpr Duration silence_max = std::chrono::minutes(5);
  /// A path may drop what is too large and say nothing (a black hole). RFC 4821 section 7.7: "a full-stop timeout (also
  /// known as a 'persistent timeout' in other documents) SHOULD be taken as an indication of some significantly
  /// disruptive event in the network": when so many retransmissions of the same segment have timed out, which is R1 of
  /// RFC 9293 section 3.8.3, "at least 3 retransmissions", and nothing that was sent meanwhile has arrived.
  static constexpr unsigned black_hole_retransmissions = 3;
  /// Section 7.7 again: "set eff_pmtu to search_low", here packets of 1024 bytes (IPv4) or 1280, less the headers;
  /// "Upon additional successive timeouts, search_low and eff_pmtu SHOULD be halved", but not below what every host
  /// takes (segment_bytes_default_v4): a peer that does not answer at all is not to get tiny segments when he does.
  static constexpr std::uint16_t black_hole_segment_bytes = 1024 - 40;
  /// Then a larger segment is tried, one at a time (RFC 4821 section 7.5), and when it arrives all are as large. RFC
  /// 8899 section 5.1.1: PROBE_TIMER "MUST NOT be smaller than 1 second and SHOULD be larger than 15 seconds"; section
  /// 5.1.2: after MAX_PROBES that were lost, "The default value of MAX_PROBES is 3", there is rest until
  /// PMTU_RAISE_TIMER, "a period of 600 seconds".
  static constexpr Duration path_probe_pause = std::chrono::seconds(16);
  static constexpr unsigned path_probes_max = 3;
  static constexpr Duration path_raise_pause = std::chrono::seconds(600);
  /// What is tried alternately with what the path is said to take: packets of Ethernet's 1500 bytes, less the headers.
  static constexpr std::uint16_t path_probe_bytes_v4 = 1500 - 40;
  static constexpr std::uint16_t path_probe_bytes_v6 = 1500 - 60;
  /// RFC 5961 section 7: so many in a second, so that they cost no more than that.
  static constexpr unsigned challenges_max = 10;
  /// RFC 7323 section 5.5: a connection may be idle for longer than the peer's timestamps take to go half around, which
  /// is 24.8 days where they count milliseconds.
  static constexpr Duration stamp_life_max = std::chrono::days(24);
  /// RFC 7323 section 2.3: the window's shift count is at most 14.
  static constexpr unsigned scale_max = 14;
  /// What a peer or a path may ask for at least: less would be all header.
  static constexpr std::uint16_t segment_bytes_min = 64;
  /// RFC 9293 section 3.7.1: "If an MSS Option is not received at connection setup, TCP implementations MUST assume a
  /// default send MSS of 536 [...] for IPv4 or 1220 [...] for IPv6 (MUST-15)".
  static constexpr std::uint16_t segment_bytes_default_v4 = 536;
  static constexpr std::uint16_t segment_bytes_default_v6 = 1220;

  /// RFC 7323 section 5.4: a clock of milliseconds, from where nobody knows.
  [[nodiscard]] static std::uint32_t timestamp_at(TimePoint now, std::uint32_t offset);
  /// The window that a SYN of ours offers, unscaled; and the scale of those that follow.
  [[nodiscard]] static std::uint16_t syn_window_of(std::size_t receive_buffer_bytes);
  [[nodiscard]] static unsigned scale_for(std::size_t receive_buffer_bytes);

  Connection(BufferPool& pool, const Ends& ends, const Settings& settings, const Secrets& secrets);

  [[nodiscard]] const Ends& ends() const { return ends_; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is_closed() const { return state_ == State::closed; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] wire::ConnectionInfo info() const;
  void set_no_delay(bool no_delay) { settings_.no_delay = no_delay; }
  void set_keep_alive(const KeepAlive& wanted, TimePoint now);
  /// The window that was offered is not taken back, and its scale stays what the SYN has said.
  void set_buffers(std::size_t send_bytes, std::size_t receive_bytes, TimePoint now);
  /// Likewise, but the peer is not told before the next segment that he gets.
  void bound_receive_buffer(std::size_t bytes) { settings_.receive_buffer_bytes = bytes; }
  /// RFC 9293 section 3.7.1: Eff.snd.MSS, what a segment carries at most.
  [[nodiscard]] std::uint64_t segment_data_max() const;

  // What happens to it.

  /// Opens it: sends a SYN. REQUIRES: new.
  void connect(TimePoint now);
  /// Answers a SYN to a port that listens. REQUIRES: new; a SYN without ACK and RST.
  void answer(const Segment& syn, TimePoint now);
  /// As answer(), where that was answered long before (tcp_cookie.h): sends nothing. What arrives next acknowledges the
  /// answer.
  void answered(const Segment& syn, TimePoint now);
  /// A segment came. What it makes this end send may wait for settle(), but what a peer needs at once does not. Of many
  /// that come together each is told of by arrive(), and all by one settle().
  void arrive(Segment segment, TimePoint now);
  /// Nothing more came at this time. Acknowledges what came, and sends what it has made room for.
  void settle(TimePoint now);
  void on_timer(TimePoint now);
  /// The network says that what was sent did not arrive: an errno, of an ICMP error or of this host's. RFC 5461: such
  /// an error ends a connection that this end is opening, and no other.
  void network_failed(int error);
  /// The path takes segments up to this size, without options.
  void set_path(std::uint16_t bytes, TimePoint now);
  /// From now on so many bytes go down together (Settings::together_bytes).
  void set_together(std::size_t bytes) { settings_.together_bytes = bytes; }

  /// Whether what begins with that sequence number has been sent, and not acknowledged.
  [[nodiscard]] bool is_under_way(std::uint32_t sequence) const {
    const Position at = position_near(next_, sequence);
    return acknowledged_ <= at && at < next_;
  }

  /// How many bytes in order wait to be taken before those of a segment with this sequence number. Nothing where its
  /// data would not come next.
  [[nodiscard]] std::optional<std::size_t> waiting_before(std::uint32_t sequence) const;

  // What its user does.

  [[nodiscard]] std::size_t send_room() const;
  /// The stretches in which data sent behind `waiting` bytes more is expected to leave.
  [[nodiscard]] Stretches stretches(std::size_t waiting) const {
    return sent_.stretches(std::min(next_, sent_.end()), waiting, static_cast<std::size_t>(segment_data_max()));
  }
  /// Data to be sent, of any size: send_room() is advice. REQUIRES: M_DATA of the pool's memory, nothing is owed to it;
  /// may_send().
  void send(Message data, TimePoint now);
  [[nodiscard]] bool may_send() const { return !finishing_ && (is_open() || state_ == State::close_wait); }
  /// The user sends no more: a FIN behind everything.
  void finish(TimePoint now);
  /// Ends it with a reset.
  void abort();
  /// What came in order, up to `bytes_max` of it; empty when there is nothing. The window opens accordingly.
  [[nodiscard]] Message take(TimePoint now, std::size_t bytes_max = SIZE_MAX);
  [[nodiscard]] std::size_t ready_bytes() const { return received_ ? received_->ready_bytes() : 0; }
  [[nodiscard]] bool has_ready() const { return ready_bytes() > 0; }

  // What comes of it.

  /// Segments to be sent: M_DATA that begins with the header, its checksum done or owed; several that go down together
  /// with a descriptor in front (make_segments()).
  [[nodiscard]] Batch take_segments() { return std::move(segments_); }
  [[nodiscard]] News take_news();
  [[nodiscard]] TimePoint next_deadline() const;
  /// Everything that was to be sent has arrived, the FIN included: nobody waits for this end any more.
  [[nodiscard]] bool is_done() const { return state_ == State::time_wait || state_ == State::closed; }
  [[nodiscard]] bool has_unsent() const { return next_ < sent_.end() || (finishing_ && !fin_sent_); }
  /// Everything that was given has been acknowledged.
  [[nodiscard]] bool all_acknowledged() const { return board_.empty() && !has_unsent(); }

 private:
  [[nodiscard]] bool is_open() const {
    return state_ == State::established || state_ == State::syn_received || state_ == State::syn_sent;
  }
  [[nodiscard]] bool is_synchronized() const { return state_ >= State::established; }

  // Arriving (tcp_arriving.cc)
  void arrive_in_syn_sent(Segment& segment, TimePoint now);
  void arrive_synchronized(Segment& segment, TimePoint now);
  void unacceptable_arrived(Segment& segment, Position at, TimePoint now);
  void read_handshake(const Segment& syn, TimePoint now);
  [[nodiscard]] bool lacks_stamp(const Segment& segment) const;
  [[nodiscard]] bool is_too_old(const Segment& segment, TimePoint now) const;
  [[nodiscard]] bool is_acceptable(const Segment& segment, Position at) const;
  void reset_arrived(Position at, TimePoint now);
  void challenge(TimePoint now);
  [[nodiscard]] bool acknowledgement_arrived(const Segment& segment, Position at, TimePoint now);
  /// SEG.WND, in bytes.
  [[nodiscard]] std::uint64_t window_of(const Segment& segment) const {
    return std::uint64_t{segment.header.window} << peer_scale_;
  }
  void advance(const Segment& segment, Position at, Position acknowledged, TimePoint now);
  void update_window(const Segment& segment, Position at, Position acknowledged);
  [[nodiscard]] std::optional<Duration> echoed(const Segment& segment, Position acknowledged, TimePoint now) const;
  void repair(bool duplicate, TimePoint now);
  void fin_acknowledged(TimePoint now);
  void data_arrived(Segment& segment, Position at, TimePoint now);
  void keep_data(Segment& segment, Position at, Position end, TimePoint now);
  void fin_arrived(TimePoint now);

  // Sending (tcp_sending.cc)
  void output(TimePoint now);
  [[nodiscard]] bool send_lost(TimePoint now);
  [[nodiscard]] bool send_next(TimePoint now);
  [[nodiscard]] bool send_new(std::uint64_t window, bool overdue, TimePoint now);
  [[nodiscard]] std::uint64_t size_together(std::uint64_t available, std::uint64_t room, bool fin_fits) const;
  void note_sent(Range range, TimePoint now);
  [[nodiscard]] bool is_worth_sending(std::uint64_t size, std::uint64_t available) const;
  void probe(TimePoint now);
  [[nodiscard]] bool transmit(Range range, TimePoint now);
  void acknowledged_all();
  void send_acknowledgement(TimePoint now);
  void send_syn(TimePoint now);
  void send_reset(std::uint32_t sequence);
  [[nodiscard]] std::uint32_t timestamp(TimePoint now) const { return timestamp_at(now, secrets_.timestamp_offset); }
  void stamp(wire::TcpOptions& options, TimePoint now) const;
  [[nodiscard]] std::uint16_t syn_window() const { return syn_window_of(settings_.receive_buffer_bytes); }
  /// Where the window ends that the peer may send into.
  [[nodiscard]] Position offered_end() const { return std::max(offered_until_, received_->next()); }
  [[nodiscard]] Position window_end() const;
  [[nodiscard]] bool window_opens() const;
  [[nodiscard]] std::uint16_t window_field(bool of_syn);
  [[nodiscard]] bool emit(std::uint32_t sequence, std::uint8_t flags, const wire::TcpOptions& options, Message data);
  [[nodiscard]] Position fin_position() const { return sent_.end(); }

  // How large segments are (tcp_path.cc)
  void set_segment_bytes(std::uint16_t bytes);
  void avoid_black_hole(TimePoint now);
  [[nodiscard]] std::uint16_t path_probe_bytes() const;
  [[nodiscard]] bool wants_path_probe(TimePoint now) const;
  [[nodiscard]] bool probe_path(TimePoint now);
  void path_probe_arrived(TimePoint now);
  void path_probe_lost(TimePoint now);
  [[nodiscard]] bool is_path_probe_lost_alone() const;

  // Timers and the end (tcp_connection.cc)
  [[nodiscard]] bool has_waited_too_long(TimePoint now) const;
  void retransmission_due(TimePoint now);
  void probe_due(TimePoint now);
  void keep_alive_due(TimePoint now);
  void open_window(TimePoint now);
  void arm_timers(TimePoint now);
  void establish(TimePoint now);
  void wait_out(TimePoint now);
  void close(int error);

  BufferPool& pool_;
  Ends ends_;
  Settings settings_;
  Secrets secrets_;
  State state_ = State::closed;
  Batch segments_;
  News news_;
  Statistics statistics_;

  // Sending.
  Position first_;         // ISS
  Position next_;          // SND.NXT; SND.UNA is the board's front, or this
  Position acknowledged_;  // SND.UNA
  SendBuffer sent_;        // from SND.UNA on
  Scoreboard board_;
  std::uint64_t peer_window_ = 0;      // SND.WND, in bytes
  std::uint64_t peer_window_max_ = 0;  // the largest that it ever was
  Position window_sequence_ = 0;       // SND.WL1
  unsigned peer_scale_ = 0;            // Snd.Wind.Shift
  std::uint16_t peer_segment_bytes_;   // SendMSS
  Congestion congestion_;
  RoundTrip round_trip_;
  std::optional<Position> recovering_until_;  // RFC 6582: recover
  Position recovered_until_ = 0;              // and where that was last
  bool repair_now_ = false;                   // the first that is lost waits for no window
  bool window_limited_ = false;               // the congestion window was what kept more from leaving
  TimePoint last_sent_{};
  TimePoint waiting_since_ = never;  // for an acknowledgement of anything
  bool timed_out_ = false;           // and it began with a timeout
  unsigned timeouts_in_a_row_ = 0;   // of a segment that had left, with nothing heard of any other
  /// Segments are smaller than the path is said to take.
  struct BlackHole {
    std::uint16_t path_segment_bytes = 0;  // which is this
    TimePoint probe_at{};                  // when a larger one is tried next
    unsigned probes_lost = 0;              // since one arrived
    Position probe_end = 0;                // where that ends which is under way; 0: none is
    std::uint16_t probe_bytes = 0;         // and how large all are if it arrives
  };
  std::optional<BlackHole> black_hole_;
  bool finishing_ = false;  // the user has ended
  bool fin_sent_ = false;

  // Receiving.
  std::optional<ReceiveBuffer> received_;  // since the peer's SYN
  std::uint64_t offered_until_ = 0;        // RCV.NXT + RCV.WND, as the peer was told
  unsigned scale_ = 0;                     // Rcv.Wind.Shift
  std::optional<Position> fin_at_;         // the peer's
  bool fin_received_ = false;
  bool end_told_ = false;
  unsigned unacknowledged_segments_ = 0;  // with data

  // Both.
  bool scales_ = false;  // both ends do
  bool selective_ = false;
  bool stamps_ = false;
  std::uint32_t recent_stamp_ = 0;  // TS.Recent
  TimePoint recent_stamp_at_{};     // when it was noted
  Position stamped_until_ = 0;      // Last.ACK.sent
  bool acknowledge_now_ = false;

  // Timers.
  TimePoint retransmit_at_ = never;
  TimePoint acknowledge_at_ = never;
  TimePoint probe_at_ = never;
  TimePoint reordering_at_ = never;
  TimePoint over_at_ = never;  // TIME-WAIT
  TimePoint keep_alive_at_ = never;
  TimePoint heard_at_{};      // the last segment of the peer's, or the last probe that asked for one
  unsigned keep_alives_ = 0;  // probes since the last segment
  unsigned probes_ = 0;
  unsigned challenges_ = 0;
  TimePoint challenges_since_{};
};

}  // namespace sluice::tcp
