// SPDX-License-Identifier: Apache-2.0

// A TCP connection: what it sends, and when.

#include <algorithm>
#include <array>
#include <utility>

#include "stack/modules/tcp_connection.h"
#include "stack/wire/network.h"

namespace sluice::tcp {

using namespace wire;  // tcp_syn and the other flags

/// Sends what may leave: first what is lost, then what is new; and the acknowledgement that is owed, where nothing
/// carried it.
void Connection::output(TimePoint now) {
  const bool synchronized = is_synchronized();
  if (synchronized) {
    if (board_.empty() && now - last_sent_ > round_trip_.timeout()) {
      congestion_.restarted();
    }
    while (send_lost(now) || send_next(now)) {
    }
    window_limited_ = board_.bytes_under_way() + segment_data_max() > congestion_.window();
  }
  if (acknowledge_now_) {
    send_acknowledgement(now);
  }
  if (synchronized) {
    arm_timers(now);
  }
}

/// Into a window of zero nothing goes but probes.
bool Connection::send_lost(TimePoint now) {
  std::optional<Range> lost = board_.first_lost();
  const std::uint64_t under_way = board_.bytes_under_way();
  if (!lost || peer_window_ == 0 ||
      (under_way > 0 && under_way + lost->size() > congestion_.window() && !repair_now_)) {
    return false;
  }
  lost->end = std::min(lost->end, lost->begin + segment_data_max());
  if (!transmit(*lost, now)) {
    return false;
  }
  board_.sent_again(*lost, now);
  repair_now_ = false;
  ++statistics_.segments_again;
  return true;
}

/// What is new; where a larger segment is to be tried, that waits until it has room.
bool Connection::send_next(TimePoint now) {
  return wants_path_probe(now) ? probe_path(now) : send_new(peer_window_, false, now);
}

/// RFC 5681 section 2: "a TCP MUST NOT send data with a sequence number higher than the sum of the highest acknowledged
/// sequence number and the minimum of cwnd and rwnd" - counted here as what is under way. `overdue`: however little.
bool Connection::send_new(std::uint64_t window, bool overdue, TimePoint now) {
  if (!has_unsent() || fin_sent_) {
    return false;
  }
  const Position window_end = acknowledged_ + window;
  const std::uint64_t window_room = window_end > next_ ? window_end - next_ : 0;
  const std::uint64_t under_way = board_.bytes_under_way();
  const std::uint64_t available = sent_.end() - next_;
  std::uint64_t size = std::min({available, segment_data_max(), window_room});
  if (under_way > 0 && under_way + size > congestion_.window()) {
    return false;
  }
  if (size == segment_data_max() && size < settings_.together_bytes) {
    const std::uint64_t window_left = congestion_.window() - std::min(congestion_.window(), under_way);
    const bool fin_fits = finishing_ && window_room > available;
    size = std::max(size, size_together(available, std::min(window_room, window_left), fin_fits));
  }
  const bool with_fin = finishing_ && size == available && window_room > size;
  if (!with_fin && (size == 0 || (!overdue && !is_worth_sending(size, available)))) {
    return false;
  }
  const Range range{next_, next_ + size + (with_fin ? 1 : 0)};
  if (!transmit(range, now)) {
    return false;
  }
  note_sent(range, now);
  return true;
}

/// Each segment is acknowledged, and lost, for itself; a FIN belongs to the last.
void Connection::note_sent(Range range, TimePoint now) {
  const Position data_end = std::min(range.end, sent_.end());
  while (range.begin + segment_data_max() < data_end) {
    board_.sent({range.begin, range.begin + segment_data_max()}, now);
    range.begin += segment_data_max();
  }
  board_.sent(range, now);
  next_ = range.end;
}

/// How many bytes of `available` go down together, into a window with `room`: so many as would go one segment after the
/// other. The last is a smaller one only where it would not have to wait for what is under way (is_worth_sending()), or
/// the FIN goes with it.
std::uint64_t Connection::size_together(std::uint64_t available, std::uint64_t room, bool fin_fits) const {
  const std::uint64_t most = std::min<std::uint64_t>(room, settings_.together_bytes);
  const bool to_the_end = available <= most && (settings_.no_delay || fin_fits);
  return to_the_end ? available : std::min(available, most) / segment_data_max() * segment_data_max();
}

/// RFC 9293 section 3.8.6.2.1, the sender's silly window avoidance: "(1) if a maximum-sized segment can be sent", "(2)
/// or if the data is pushed and all queued data can be sent now", with section 3.7.4, the Nagle algorithm: "If there
/// is unacknowledged data [...] then the sending TCP endpoint buffers all user data"; "(3) or if at least a fraction Fs
/// of the maximum window can be sent", which is a half.
bool Connection::is_worth_sending(std::uint64_t size, std::uint64_t available) const {
  return size >= segment_data_max() || (size == available && (settings_.no_delay || board_.empty())) ||
         (size < available && size >= peer_window_max_ / 2);
}

/// RFC 9293 section 3.8.6.1: "The sending TCP peer must regularly transmit at least one octet of new data (if
/// available), or retransmit to the receiving TCP peer even if the send window is zero". Where it is not, but was not
/// worth sending for, this is section 3.8.6.2.1's "(4) or if the override timeout occurs": all that fits.
void Connection::probe(TimePoint now) {
  if (board_.empty()) {
    static_cast<void>(send_new(std::max<std::uint64_t>(peer_window_, 1), true, now));
    return;
  }
  const Position begin = board_.front().range.begin;
  if (const Range range{begin, begin + 1}; transmit(range, now)) {
    board_.front_sent_again(range, now);
  }
}

/// Sends `range` of what the user has given, the FIN behind it included.
bool Connection::transmit(Range range, TimePoint now) {
  const Position data_end = std::min(range.end, sent_.end());
  const bool fin = range.end > sent_.end();
  Message data;
  if (range.begin < data_end) {
    data = sent_.show({range.begin, data_end});
    if (!data) {
      ++statistics_.no_memory;
      return false;
    }
  }
  TcpOptions options;
  stamp(options, now);
  const auto flags = static_cast<std::uint8_t>(tcp_ack | (data_end == sent_.end() ? tcp_psh : 0) | (fin ? tcp_fin : 0));
  if (!emit(sequence_number(range.begin), flags, options, std::move(data))) {
    return false;
  }
  fin_sent_ = fin_sent_ || fin;
  last_sent_ = now;
  if (black_hole_ && range.begin < black_hole_->probe_end) {
    path_probe_lost(now);
  }
  if (!received_->has_gap()) {  // else an acknowledgement says what there is behind it
    acknowledged_all();
  }
  return true;
}

void Connection::acknowledged_all() {
  acknowledge_now_ = false;
  acknowledge_at_ = never;
  unacknowledged_segments_ = 0;
}

void Connection::send_acknowledgement(TimePoint now) {
  TcpOptions options;
  stamp(options, now);
  if (selective_) {
    // RFC 2018 section 3: "A SACK option that specifies n blocks will have a length of 8*n+2 bytes, so the 40 bytes
    // available for TCP options can specify a maximum of 4 blocks", three beside timestamps.
    std::array<Range, TcpOptions::sack_blocks_max> runs;
    options.sack_count = received_->runs(std::span(runs).first(stamps_ ? 3 : 4));
    for (std::size_t run = 0; run < options.sack_count; ++run) {
      options.sack[run] = {sequence_number(runs[run].begin), sequence_number(runs[run].end)};
    }
  }
  if (emit(sequence_number(next_), tcp_ack, options, {})) {
    acknowledged_all();
  } else {
    acknowledge_now_ = false;
    acknowledge_at_ = now + acknowledgement_delay;
  }
}

/// A SYN, or its answer; what the peer's SYN did not offer the answer does not have.
void Connection::send_syn(TimePoint now) {
  const bool answers = state_ == State::syn_received;
  TcpOptions options;
  options.segment_bytes_max = settings_.segment_bytes;
  if (!answers || scales_) {
    options.window_scale = static_cast<std::uint8_t>(scale_);
  }
  options.sack_permitted = !answers || selective_;
  if (!answers || stamps_) {
    options.timestamps = {.value = timestamp(now), .echo = answers ? recent_stamp_ : 0};
  }
  static_cast<void>(
      emit(sequence_number(first_), static_cast<std::uint8_t>(tcp_syn | (answers ? tcp_ack : 0)), options, {}));
  retransmit_at_ = now + round_trip_.timeout();
}

/// RFC 7323 section 3.2 would have a stamp in it, but a reset is good without.
void Connection::send_reset(std::uint32_t sequence) { static_cast<void>(emit(sequence, tcp_rst, {}, {})); }

std::uint64_t Connection::segment_data_max() const {
  constexpr std::uint64_t stamp_bytes = 12;
  return std::min(settings_.segment_bytes, peer_segment_bytes_) - (stamps_ ? stamp_bytes : 0);
}

void Connection::stamp(TcpOptions& options, TimePoint now) const {
  if (stamps_) {
    options.timestamps = {.value = timestamp(now), .echo = recent_stamp_};
  }
}

// ---- The window ----

/// Where it would end now, as far as the field can say it. RFC 9293 section 3.8.6: "A TCP receiver SHOULD NOT shrink
/// the window".
Position Connection::window_end() const {
  const std::size_t capacity = settings_.receive_buffer_bytes;
  const std::size_t free =
      std::min(capacity - std::min(capacity, received_->ready_bytes()), std::size_t{UINT16_MAX} << scale_);
  return std::max(received_->next() + free, offered_until_);
}

/// RFC 9293 section 3.8.6.2.2: "The suggested SWS avoidance algorithm for the receiver is to keep RCV.NXT+RCV.WND fixed
/// until the reduction satisfies: RCV.BUFF - RCV.USER - RCV.WND >= min( Fr * RCV.BUFF, Eff.snd.MSS )", of which Fr is a
/// half; two segments here, so that a reader of small pieces costs no more acknowledgements than one of large ones.
bool Connection::window_opens() const {
  const std::uint64_t step = std::min<std::uint64_t>(settings_.receive_buffer_bytes / 2, 2 * settings_.segment_bytes);
  return window_end() >= offered_until_ + step;
}

std::uint16_t Connection::window_field(bool of_syn) {
  const unsigned scale = of_syn ? 0 : scale_;
  const Position begin = received_->next();
  const Position end = std::max(of_syn || window_opens() ? window_end() : offered_until_, begin);
  const auto field = static_cast<std::uint16_t>(std::min<std::uint64_t>((end - begin) >> scale, UINT16_MAX));
  offered_until_ = std::max(offered_until_, begin + (std::uint64_t{field} << scale));
  return field;
}

// ---- Segments ----

bool Connection::emit(std::uint32_t sequence, std::uint8_t flags, const TcpOptions& options, Message data) {
  TcpHeader header{.sequence = sequence, .flags = flags};
  const bool syn = header.has(tcp_syn);
  if (header.has(tcp_ack)) {
    stamped_until_ = received_->next();
    header.acknowledgment = sequence_number(stamped_until_);
    header.window = window_field(syn);
  } else if (syn) {
    header.window = syn_window();
  }
  const std::uint64_t size = data ? data.data_size() : 0;
  const auto full = static_cast<std::uint16_t>(segment_data_max());
  Message segment = size > full ? make_segments(pool_, ends_, header, options, std::move(data), full)
                                : make_segment(pool_, ends_, header, options, std::move(data));
  if (!segment) {
    ++statistics_.no_memory;
    return false;
  }
  statistics_.segments_sent += network::segments_in(size, full);
  segments_.push(std::move(segment));
  return true;
}

}  // namespace sluice::tcp
