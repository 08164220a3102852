// SPDX-License-Identifier: Apache-2.0

// An association of `xtp`: what leaves.

#include <algorithm>
#include <limits>
#include <utility>

#include "stack/modules/xtp_association.h"

namespace sluice::xtp {
namespace {

/// Room in front of a packet for the headers below.
constexpr std::size_t headroom_below = 128;

}  // namespace

/// Sends what is to be sent and may be: a status that is due, what is lost, what is new, and the end.
void Association::output(TimePoint now) {
  if (state_ == State::closed) {
    return;
  }
  if (std::exchange(status_due_, false)) {
    send_status(now);
  }
  waits_for_refill_ = false;
  while (const auto choice = choose()) {
    if (!affords(choice->range.size(), now)) {
      waits_for_refill_ = true;
      break;
    }
    if (!transmit(*choice, now)) {
      ++statistics_.no_memory;
      starved_ = true;
      break;
    }
  }
  if (finishing_ && next_ == sent_.end() && (state_ == State::open || state_ == State::writing)) {
    happens(Event::finish, now);
  }
  watch(now);
}

// ---- What next ----

std::optional<Association::Choice> Association::choose() const {
  if (!is_established()) {
    return std::nullopt;
  }
  if (lost_ > 0) {
    const auto first = std::ranges::find_if(under_way_, [](const UnderWay& one) { return one.lost; });
    return Choice{.range = first->range,
                  .again = static_cast<std::size_t>(first - under_way_.begin()),
                  .ends_message = first->ends_message};
  }
  return choose_new();
}

/// The next packet of new data. Where the peer's allocation ends within it, it is cut only if nothing else is under
/// way; the one behind a cut is the rest of it.
std::optional<Association::Choice> Association::choose_new() const {
  if (next_ == sent_.end() || under_way_.size() >= packets_under_way_max) {
    return std::nullopt;
  }
  const Position message_end = messages_.empty() ? sent_.end() : messages_.front();
  const Position whole_end = next_ + data_bytes_max_ - (next_ - message_begin_) % data_bytes_max_;
  Position end = std::min({whole_end, sent_.end(), message_end});
  if (options_.flow_control && end > peer_allocation_) {
    if (peer_allocation_ <= next_ || !under_way_.empty()) {
      return std::nullopt;
    }
    end = peer_allocation_;
  }
  return Choice{.range = {next_, end}, .again = {}, .ends_message = !messages_.empty() && end == message_end};
}

/// There is data, and the peer's allocation does not admit it.
bool Association::is_blocked() const { return is_established() && next_ < sent_.end() && lost_ == 0 && !choose_new(); }

// ---- RTIMER ----

std::uint64_t Association::burst() const { return options_.burst != 0 ? options_.burst : data_bytes_max_; }

/// A packet that is larger than a burst is one.
bool Association::affords(std::uint64_t bytes, TimePoint now) const {
  return options_.rate == 0 || now >= refill_at_ || credit_ >= bytes;
}

void Association::spend(std::uint64_t bytes, TimePoint now) {
  if (options_.rate == 0) {
    return;
  }
  if (now >= refill_at_) {
    const auto period = Duration(static_cast<std::int64_t>(std::max(burst(), bytes) * 1'000'000'000U / options_.rate));
    const bool behind = now - refill_at_ >= period;
    refill_at_ = (behind ? now : refill_at_) + period;
    credit_ = std::max(burst(), bytes);
  }
  credit_ -= bytes;
}

// ---- Data ----

/// False without memory: nothing has changed then.
bool Association::transmit(const Choice& choice, TimePoint now) {
  Message packet = Message::of_size(pool_, Header::size, headroom_below, 0);
  Message shown = sent_.show(choice.range);
  if (!packet || !shown) {
    return false;
  }
  spend(choice.range.size(), now);
  choose_done(choice);
  const auto following = choose();
  Header header = header_of(Header::Type::data);
  header.options |= status_request(!following || !affords(following->range.size(), now));
  header.options |= choice.ends_message ? Header::end_of_message : 0U;
  header.length = static_cast<std::uint32_t>(choice.range.size());
  header.sequence = choice.range.begin;
  if (header.has(Header::status_now)) {
    time_from(header.sync, now);
  }
  packet.link(std::move(shown));
  ++statistics_.sent;
  emit(header, std::move(packet));
  if (!options_.error_control) {
    sent_.release_to(next_);
    news_.acknowledged = true;
  }
  return true;
}

/// Notes that the packet leaves, under the next sync.
void Association::choose_done(const Choice& choice) {
  ++sync_;
  if (choice.again) {
    UnderWay& one = under_way_[*choice.again];
    one.lost = false;
    one.sync = sync_;
    --lost_;
    ++statistics_.again;
    return;
  }
  next_ = choice.range.end;
  if (choice.ends_message) {
    messages_.pop_front();
    message_begin_ = next_;
  }
  if (options_.error_control) {
    under_way_.push_back({.range = choice.range, .sync = sync_, .ends_message = choice.ends_message});
  }
}

/// SREQ in the last packet that may be sent now, and in every so many; where the allocation is at its end, DREQ too,
/// since it goes on when the user reads. Without error control all that is asked for is the allocation.
std::uint32_t Association::status_request(bool last) {
  if (is_blocked() && options_.flow_control) {
    since_status_ = 0;
    return Header::status_now | Header::status_on_read;
  }
  if (!options_.error_control && !options_.flow_control) {
    return 0;
  }
  const bool due = ++since_status_ >= options_.status_packets || (last && options_.error_control);
  since_status_ = due ? 0 : since_status_;
  return due ? Header::status_now : 0U;
}

// ---- Control ----

/// What a control packet says of the other direction goes with everything that is said.
void Association::send_control(Header::Type type, std::uint32_t options, TimePoint now) {
  Control control;
  if (inbox_) {
    offered_ = allocation();
    control.received = inbox_->next();
    control.allocated = offered_;
    control.echo = echo_;
  }
  if (type == Header::Type::ecntl) {
    control.span_count = inbox_->spans(control.spans);
  } else if (type == Header::Type::tcntl) {
    control.exchanged_key = secrets_.key;
    control.traffic = traffic();
  }
  // In memory for the longest one: so there is some for the next, whatever it says, when data has taken all the rest.
  const std::size_t segment_size = control.encoded_size(type);
  Message packet =
      Message::of_size(pool_, Header::size + segment_size, headroom_below, Control::size_max - segment_size);
  if (!packet) {
    ++statistics_.no_memory;
    starved_ = true;
    return;
  }
  sync_ += (options & Header::status_now) != 0 ? 1U : 0U;
  Header header = header_of(type);
  header.options |= options;
  header.length = static_cast<std::uint32_t>(segment_size);
  header.sequence = next_;
  if (header.has(Header::status_now)) {
    time_from(header.sync, now);
  }
  control.emit(packet.bytes().subspan(Header::size), type);
  ++statistics_.controls;
  emit(header, std::move(packet));
}

void Association::send_status(TimePoint now) {
  status_due_ = false;
  send_control(inbox_->has_gap() ? Header::Type::ecntl : Header::Type::cntl, 0, now);
}

/// The synchronizing handshake's question.
void Association::ask(TimePoint now) {
  send_control(inbox_->has_gap() ? Header::Type::ecntl : Header::Type::cntl, Header::status_now, now);
}

void Association::send_first(TimePoint now) {
  const wire::XtpFirst first{.to = remote_, .from = local_, .traffic = traffic()};
  const std::size_t segment_size = first.encoded_size();
  Message packet = Message::of_size(pool_, Header::size + segment_size, headroom_below, 0);
  if (!packet) {
    ++statistics_.no_memory;
    starved_ = true;
    return;
  }
  ++sync_;
  Header header = header_of(Header::Type::first);
  header.length = static_cast<std::uint32_t>(segment_size);
  header.sequence = next_;
  time_from(header.sync, now);
  first.emit(packet.bytes().subspan(Header::size));
  ++statistics_.controls;
  emit(header, std::move(packet));
}

wire::XtpTraffic Association::traffic() const {
  return {.data_bytes = options_.packet_bytes,
          .in_rate = options_.in_rate,
          .in_burst = options_.in_burst,
          .out_rate = options_.rate,
          .out_burst = options_.burst};
}

/// The allocation never goes back.
Position Association::allocation() const {
  const std::size_t ready = inbox_->is_full() ? options_.receive_buffer_bytes : inbox_->ready_bytes();
  return std::max(offered_,
                  inbox_->next() + options_.receive_buffer_bytes - std::min(options_.receive_buffer_bytes, ready));
}

void Association::time_from(std::uint32_t sync, TimePoint now) {
  if (!timed_sync_) {
    timed_sync_ = sync;
    timed_at_ = now;
  }
}

Association::Header Association::header_of(Header::Type type) const {
  Header header{.key = peer_key_ != 0 ? peer_key_ | Header::return_key : secrets_.key, .type = type, .sync = sync_};
  header.options = (options_.checksum ? 0U : Header::no_check) | (options_.error_control ? 0U : Header::no_error) |
                   (options_.flow_control ? 0U : Header::no_flow) | (options_.fast_nak ? Header::fast_nak : 0U);
  if (header.is_control()) {
    const bool finished = state_ == State::closing || state_ == State::reading || state_ == State::ending;
    header.options |= finished || state_ == State::over ? Header::write_closed : 0U;
    header.options |= peer_finished_ && state_ != State::closed ? Header::read_closed : 0U;
    header.options |= state_ == State::over ? Header::end : 0U;
  }
  return header;
}

void Association::emit(const Header& header, Message packet) {
  header.emit(packet.bytes());
  packets_.push(std::move(packet));
}

}  // namespace sluice::xtp
