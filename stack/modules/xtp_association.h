// SPDX-License-Identifier: Apache-2.0
#pragma once

// One association of `xtp`: what it does with a packet, a call of its user's, and the passing of time. It knows no
// queue and no clock: packets come in as headers with their segments, and what it has to send waits in take_packets();
// so everything about it can be simulated.
//
//     arrive(), on_timer(), send(), finish(), ...  ──►  take_packets(), take(), take_news(), next_deadline()
//
// What has come is told by control packets: rseq, before which all has, and spans behind it. They come when the sender
// asks (SREQ at once, DREQ when the user has read), and with FASTNAK when a gap opens. `sync` numbers what is sent, and
// a control packet echoes the last that has come: so what was sent no later than that, and has not come, is lost, and
// what has been sent again since is not asked for twice.
//
// WTIMER: an answer is awaited. When it does not come, a control packet with SREQ asks again (the synchronizing
// handshake), less often each time; nothing is sent again before the peer has said what it lacks. CTIMER: nothing has
// been heard for long; the same question. RTIMER: the next burst may leave.
//
// Threat: the peer, who knows the keys, may say anything; so may whoever sees its packets. What contradicts what was
// sent or said before changes nothing and is counted. What is kept is bounded by the allocation that the peer was
// given, by Inbox, and by packets_under_way_max. An answer is never for more packets than one.
//
// Ownership: owns what it has been given to send, and what came. Threads: one.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/time.h"
#include "stack/core/message.h"
#include "stack/modules/stream_position.h"
#include "stack/modules/stream_send_buffer.h"
#include "stack/modules/xtp_inbox.h"
#include "stack/modules/xtp_states.h"
#include "stack/wire/address.h"
#include "stack/wire/xtp.h"

namespace sluice::xtp {

struct Options {
  std::size_t send_buffer_bytes = std::size_t{512} * 1024;
  std::size_t receive_buffer_bytes = std::size_t{512} * 1024;
  std::uint32_t packet_bytes = 1400;  // data in a packet
  std::uint32_t status_packets = 16;  // after so many a status is asked for
  bool selective = true;              // what comes behind a gap is kept
  bool error_control = true;          // false: NOERR
  bool flow_control = true;           // false: NOFLOW
  bool fast_nak = true;               // FASTNAK
  bool checksum = true;               // false: NOCHECK
  std::uint32_t rate = 0;             // bytes a second; 0: no limit
  std::uint32_t burst = 0;            // bytes at once
  std::uint32_t in_rate = 0;          // what the peer is asked to keep
  std::uint32_t in_burst = 0;
  Duration wtimer_min = std::chrono::milliseconds(20);
  Duration ctimer = std::chrono::seconds(60);
  unsigned attempts = 10;  // unanswered in a row, before the association is given up
};

/// A packet as it came: its checksum holds.
struct Packet {
  wire::TransportAddress from;
  wire::XtpHeader header;
  wire::XtpControl control;  // of a control packet
  Message data;              // of a data packet; without blocks where there is none
};

/// A call that came: FIRST.
struct Call {
  wire::TransportAddress from;
  std::uint64_t key = 0;
  Position first = 0;
  std::uint32_t sync = 0;
  wire::XtpTraffic traffic;
};

class Association {
 public:
  /// Not to be guessed by others.
  struct Secrets {
    std::uint64_t key = 1;  ///< 1 .. 2^63 - 1
    Position first = 1;     ///< of what is sent; below 2^32
  };
  /// What the user is to be told.
  struct News {
    bool opened = false;
    bool acknowledged = false;  ///< send_room() has grown
    std::optional<int> closed;  ///< it is over: 0, or an errno
  };
  struct Statistics {
    std::uint64_t sent = 0;
    std::uint64_t again = 0;
    std::uint64_t controls = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t duplicates = 0;
    std::uint64_t behind_gaps = 0;  ///< go-back-N: dropped
    std::uint64_t beyond = 0;       ///< beyond the allocation, or no room
    std::uint64_t skipped = 0;      ///< bytes that will never come (NOERR)
    std::uint64_t contradictions = 0;
    std::uint64_t strangers = 0;  ///< from another address than the peer's
    std::uint64_t no_memory = 0;
  };

  static constexpr std::size_t packets_under_way_max = 8192;
  static constexpr Duration wtimer_initial = std::chrono::milliseconds(250);
  static constexpr Duration wtimer_max = std::chrono::seconds(5);
  static constexpr Duration over_time = std::chrono::seconds(10);

  Association(BufferPool& pool, const wire::TransportAddress& local, const wire::TransportAddress& remote,
              const Options& options, const Secrets& secrets);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is_closed() const { return state_ == State::closed; }
  [[nodiscard]] std::uint64_t key() const { return secrets_.key; }
  [[nodiscard]] std::uint64_t peer_key() const { return peer_key_; }
  [[nodiscard]] const wire::TransportAddress& remote() const { return remote_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }

  // What happens to it.

  /// REQUIRES: new.
  void connect(TimePoint now);
  /// REQUIRES: new; remote() is where the call came from.
  void accept(const Call& call, TimePoint now);
  /// REQUIRES: no FIRST and no DIAG.
  void arrive(Packet packet, TimePoint now);
  /// DIAG, or what the network says.
  void refused(int error, TimePoint now);
  void on_timer(TimePoint now);

  // What its user does.

  [[nodiscard]] bool may_send() const { return !finishing_ && state_ != State::closed && state_ != State::opening; }
  [[nodiscard]] std::size_t send_room() const {
    return sent_.size() < options_.send_buffer_bytes ? options_.send_buffer_bytes - sent_.size() : 0;
  }
  /// The stretches in which data leaves that comes behind so many bytes of its message: packets end where the whole
  /// ones of their message would end, also where some are cut.
  [[nodiscard]] Stretches stretches(std::uint64_t before) const {
    return {.first = data_bytes_max_ - before % data_bytes_max_, .each = data_bytes_max_};
  }
  /// Data to be sent, of any size: send_room() is advice. REQUIRES: M_DATA of the pool's memory, not empty, nothing is
  /// owed to it; may_send().
  void send(Message data, bool ends_message, TimePoint now);
  /// The user sends no more.
  void finish(TimePoint now);
  /// Ends it, and tells the peer.
  void abort(TimePoint now);
  [[nodiscard]] bool has_ready() const { return inbox_ && inbox_->has_ready(); }
  /// REQUIRES: has_ready().
  [[nodiscard]] Inbox::Piece take(TimePoint now);
  /// Whether data that begins there is the next of the message that the user is reading; how many bytes, of those that
  /// are ready, come before it.
  [[nodiscard]] std::optional<std::size_t> waiting_before(Position begin) const {
    const bool comes_next = inbox_ && !inbox_->has_gap() && begin == inbox_->next() && !inbox_->ends_message();
    return comes_next ? std::optional(inbox_->ready_bytes()) : std::nullopt;
  }
  /// The peer has ended, and everything has been taken.
  [[nodiscard]] bool has_ended() const { return peer_finished_ && !has_ready(); }

  // What comes of it.

  /// Packets to be sent: M_DATA that begins with the header, whose checksum is 0 and still to be made.
  [[nodiscard]] Batch take_packets() { return std::move(packets_); }
  [[nodiscard]] News take_news() { return std::exchange(news_, News{}); }
  [[nodiscard]] TimePoint next_deadline() const;
  /// Everything that was given has arrived, the end included.
  [[nodiscard]] bool is_done() const { return state_ == State::over || state_ == State::closed; }
  [[nodiscard]] bool all_acknowledged() const { return under_way_.empty() && next_ == sent_.end(); }

 private:
  using Header = wire::XtpHeader;
  using Control = wire::XtpControl;

  struct UnderWay {
    Range range;
    std::uint32_t sync = 0;
    bool ends_message = false;
    bool held = false;  // by the peer, behind a gap
    bool lost = false;
  };
  /// What may be sent next: something lost, or what lies behind next_.
  struct Choice {
    Range range;
    std::optional<std::size_t> again;  // index in under_way_
    bool ends_message = false;
  };

  void happens(Event event, TimePoint now, int error = 0);
  [[nodiscard]] bool is_established() const { return state_ >= State::open && state_ <= State::ending; }

  // Arriving (xtp_arriving.cc)
  [[nodiscard]] bool established_by(const Packet& packet, TimePoint now);
  void adopt(const wire::XtpTraffic& traffic);
  [[nodiscard]] bool contradicts(const Packet& packet) const;
  void control_arrived(const Control& control, TimePoint now);
  void release_to(Position received);
  void mark(const Control& control);
  void measure(std::uint32_t echo, TimePoint now);
  void data_arrived(Packet& packet);
  void note_taken();

  // Sending (xtp_sending.cc)
  void output(TimePoint now);
  [[nodiscard]] std::optional<Choice> choose() const;
  [[nodiscard]] std::optional<Choice> choose_new() const;
  void choose_done(const Choice& choice);
  [[nodiscard]] bool affords(std::uint64_t bytes, TimePoint now) const;
  void spend(std::uint64_t bytes, TimePoint now);
  [[nodiscard]] std::uint64_t burst() const;
  [[nodiscard]] bool transmit(const Choice& choice, TimePoint now);
  [[nodiscard]] std::uint32_t status_request(bool last);
  void time_from(std::uint32_t sync, TimePoint now);
  void send_control(Header::Type type, std::uint32_t options, TimePoint now);
  void send_status(TimePoint now);
  void send_first(TimePoint now);
  void ask(TimePoint now);
  void emit(const Header& header, Message packet);
  [[nodiscard]] wire::XtpTraffic traffic() const;
  [[nodiscard]] Header header_of(Header::Type type) const;
  [[nodiscard]] Position allocation() const;
  [[nodiscard]] bool is_blocked() const;
  [[nodiscard]] bool awaits_answer() const;
  void watch(TimePoint now);
  [[nodiscard]] Duration wtimer() const;
  void wtimer_due(TimePoint now);

  BufferPool& pool_;
  wire::TransportAddress local_;
  wire::TransportAddress remote_;
  Options options_;
  Secrets secrets_;
  State state_ = State::closed;
  std::uint64_t peer_key_ = 0;  // 0: not known yet
  Batch packets_;
  News news_;
  Statistics statistics_;

  // Sending.
  byte_stream::SendBuffer sent_;
  Position next_;                  // the first that has never been sent
  Position message_begin_;         // of the message that this is part of
  std::deque<Position> messages_;  // ends of those that have not left
  std::deque<UnderWay> under_way_;
  std::size_t lost_ = 0;          // of them
  Position peer_allocation_ = 0;  // where the peer has us stop
  std::uint32_t sync_ = 0;
  std::uint32_t data_bytes_max_;
  std::uint32_t since_status_ = 0;  // packets
  bool finishing_ = false;          // the user has ended
  std::uint64_t credit_ = 0;        // of this burst
  TimePoint refill_at_{};
  bool waits_for_refill_ = false;
  bool starved_ = false;  // of memory

  // Receiving.
  std::optional<Inbox> inbox_;
  Position offered_ = 0;  // alloc, as the peer was told
  std::uint32_t echo_ = 0;
  std::optional<Position> peer_end_;
  bool peer_finished_ = false;
  std::optional<Position> tell_when_taken_;  // DREQ
  Position nak_sent_ = 0;                    // go-back-N: for this next()
  bool status_due_ = false;

  // Time.
  Duration smoothed_{};
  Duration variation_{};
  std::optional<std::uint32_t> timed_sync_;
  TimePoint timed_at_{};
  TimePoint status_at_ = never;  // WTIMER
  TimePoint last_heard_{};
  TimePoint over_at_ = never;
  bool probing_ = false;  // CTIMER has asked
  unsigned unanswered_ = 0;
  unsigned backoff_ = 0;
};

}  // namespace sluice::xtp
