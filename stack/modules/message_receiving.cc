// SPDX-License-Identifier: Apache-2.0
// The receiving direction of rmpp::Protocol: what a packet is, whether it is believed, and what its message does.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/data_unit_primitive.h"
#include "stack/modules/message_protocol.h"
#include "stack/wire/tpi.h"

namespace sluice::rmpp {
namespace {

constexpr std::uint32_t bits(std::uint64_t count) { return (std::uint32_t{1} << count) - 1; }

/// Whether `left` comes after `right`, where numbers wrap around.
constexpr bool after(std::uint32_t left, std::uint32_t right) { return static_cast<std::int32_t>(left - right) > 0; }
constexpr bool after(std::uint16_t left, std::uint16_t right) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(left - right)) > 0;
}

/// Whether both are about the same message.
bool agree(const wire::RmppHeader& left, const wire::RmppHeader& right) {
  return left.packet_bytes == right.packet_bytes && left.total_bytes == right.total_bytes && left.tag == right.tag &&
         left.flags == right.flags;
}

}  // namespace

/// One packet after the other: what one has completed is over, and has been said, before the next is looked at.
void Protocol::rput(Batch&& batch) {
  Batch up;
  Batch* const outer = std::exchange(upward_, &up);  // an answer may bring more packets at once
  while (Message message = batch.pop()) {
    if (receive(message)) {
      up.push(std::move(message));
    }
    attend();
  }
  upward_ = outer;
  if (outer != nullptr) {
    outer->splice(std::move(up));
  } else if (!up.empty()) {
    read_queue().put_next(std::move(up));
  }
}

void Protocol::rsrv() {
  attend();
  for (std::size_t turns = withheld_.size(); turns > 0 && !withheld_.empty() && has_room(); --turns) {
    const auto found = by_id_.find(withheld_.front());
    withheld_.pop_front();
    if (found != by_id_.end()) {
      receive_event(*found->second, ReceiveEvent::room);
    }
  }
  // Looks for back-enabling: an empty queue that has been asked and found empty.
  static_cast<void>(read_queue().dequeue());
}

void Protocol::drop(Message& message, Counter& counter) {
  if (materialize(message, Side::read) == TransformResult::done) {
    ++counter;
  }
  message = {};
}

/// Whether the message passes on: all but packets do, and of these the payload of those that are wanted.
bool Protocol::receive(Message& message) {
  if (is_data_unit(message, Kind::transport_error, wire::tpi::T_UDERROR_IND)) {
    ++provider_errors_;  // as a loss: the timer notices
    return false;
  }
  if (!is_data_unit(message, Kind::transport_indication, wire::tpi::T_UNITDATA_IND)) {
    tell_limits(message);
    return true;
  }
  const auto unitdata = native_of<DataUnit>(message, Kind::transport_indication);
  if (!unitdata) {
    drop(message, unitdata.error().malformed ? *malformed_[0] : no_memory_);
    return false;
  }
  const wire::TransportAddress from{(*unitdata)->peer, (*unitdata)->peer_port};
  std::array<std::byte, Header::size> scratch;
  const std::byte* const front = message.front(Header::size, scratch.data());
  const auto parsed = front == nullptr ? std::unexpected(Malformed::short_header)
                                       : Header::parse({front, Header::size}, message.data_size());
  if (!parsed) {
    drop(message, *malformed_[static_cast<std::size_t>(parsed.error())]);
    return false;
  }
  const Header header = *parsed;
  Peer* peer = find(from);
  const bool carries = header.type == Type::request || header.type == Type::data;
  // Who is new, or has changed, is believed only when all of his packet has been verified; so is what carries nothing,
  // or begins a message before the last one is whole. What will be dropped is counted only then.
  if (!carries || peer == nullptr || header.source_incarnation != peer->incarnation || !is_welcome(*peer, header) ||
      is_of_unacknowledged_end(*peer, header)) {
    if (materialize(message, Side::read) == TransformResult::failed) {
      return false;
    }
  }
  const bool counted = !message.unverified();
  packets_in_ += counted ? 1 : 0;
  if (peer == nullptr) {
    if (header.type != Type::request) {
      ++strangers_;
      return false;
    }
    peer = find_or_make(from);
    if (peer == nullptr) {
      ++peers_refused_;
      return false;
    }
  }
  if (!carries) {
    control(*peer, header);
    return false;
  }
  if (!owed_.empty()) {
    ++no_memory_;
    return false;
  }
  const bool wanted = admit(*peer, header) &&
                      (header.type == Type::request ? request_received(*peer, header) : data_received(*peer, header));
  if (!wanted) {
    return false;
  }
  const std::uint32_t id = peer->id;
  const std::uint32_t index = header.index;
  const std::uint32_t round = peer->receive.round;
  message.trim_data_front(Header::size);
  const Bytes place = message.prepend_data(Indication::size);
  if (place.empty()) {
    ++no_memory_;
    return false;
  }
  Indication{.kind = Indication::Kind::payload,
             .incarnation = header.source_incarnation,
             .number = header.number,
             .tag = header.tag,
             .total_bytes = header.total_bytes,
             .offset = header.offset()}
      .store(place.data());
  message.when_verified(handle(), [this, id, index, round, counted] {
    packets_in_ += counted ? 0 : 1;
    verified(id, index, round, counted);
  });
  return !message.failed();
}

/// Whether a packet is from the process that is known, and for this one.
bool Protocol::admit(Peer& peer, const Header& header) {
  if (is_for_another(header)) {
    ++stale_;
    if (header.type == Type::request) {
      answer(peer, header, Type::refuse);
    }
    return false;
  }
  if (header.source_incarnation == peer.incarnation) {
    peer.last_heard = set().now();
    return true;
  }
  // Another process. Only a request makes it known, and one that has been before does not come back.
  if (header.type != Type::request || header.source_incarnation == 0 ||
      std::ranges::find(peer.former_incarnations, header.source_incarnation) != peer.former_incarnations.end()) {
    ++stale_;
    return false;
  }
  meet(peer, header.source_incarnation);
  peer.last_heard = set().now();
  return true;
}

/// Answers and the discard: they act at once, and go no further.
void Protocol::control(Peer& peer, const Header& header) {
  if (header.type == Type::discard) {
    if (admit(peer, header)) {
      if (peer.has_number && header.number == peer.receive.header.number) {
        receive_event(peer, ReceiveEvent::discard);
      } else {
        ++stale_;
      }
    }
    return;
  }
  if (header.destination_incarnation != incarnation_ || !answers(peer, header)) {
    ++stale_;
    return;
  }
  SendSide& side = peer.send;
  peer.last_heard = set().now();
  if (header.type == Type::end && side.state == SendState::idle) {
    return send_event(peer, SendEvent::end, &header);
  }
  if (side.state == SendState::idle || header.number != side.number || after(header.attempt, side.attempt)) {
    ++stale_;
    return;
  }
  const bool is_another = side.to != 0 && side.to != peer.incarnation;
  side.to = peer.incarnation;
  if (header.type == Type::refuse) {
    send_event(peer, is_another ? SendEvent::refusal : SendEvent::declined);
  } else if (header_of(peer, header.type).total_bytes != header.total_bytes ||
             header.flags != flags_of(options_.recovery) || header.packet_bytes != options_.packet_bytes) {
    ++contradictions_;
    return;
  } else if (header.type == Type::end) {
    if (!side.all_left) {
      ++stray_;  // a lie: nobody can have all of it
      return;
    }
    send_event(peer, SendEvent::end, &header);
  } else if (header.attempt != side.attempt) {
    ++stale_;
    return;
  } else {
    grant_received(peer, header);
  }
  start(peer);
}

/// Whether an answer comes from the process that the message went to; it may be the first that is heard of it.
bool Protocol::answers(Peer& peer, const Header& header) {
  const SendSide& side = peer.send;
  if (header.source_incarnation == 0 ||
      std::ranges::find(peer.former_incarnations, header.source_incarnation) != peer.former_incarnations.end()) {
    return false;
  }
  if (header.source_incarnation != peer.incarnation) {
    const bool first = peer.incarnation == 0 && side.to == 0;
    if (side.state == SendState::idle || header.number != side.number || !(first || header.type == Type::refuse)) {
      return false;
    }
    meet(peer, header.source_incarnation);
  }
  return header.type == Type::refuse || side.to == 0 || side.to == peer.incarnation;
}

/// The node has a new process.
void Protocol::meet(Peer& peer, std::uint32_t incarnation) {
  if (peer.incarnation != 0) {
    std::shift_right(peer.former_incarnations.begin(), peer.former_incarnations.end(), 1);
    peer.former_incarnations[0] = peer.incarnation;
    receive_event(peer, ReceiveEvent::expired);
  }
  peer.has_number = false;
  peer.incarnation = incarnation;
}

/// Whether the request's payload goes up.
bool Protocol::request_received(Peer& peer, const Header& header) {
  ReceiveSide& side = peer.receive;
  if (!peer.has_number || after(header.number, side.header.number)) {
    if (header.total_bytes > options_.message_bytes_max) {
      ++too_long_;
      return false;
    }
    if (!read_queue().can_put_next()) {
      ++head_full_;
      return false;
    }
    peer.has_number = true;
    receive_event(peer, ReceiveEvent::request_new, &header);
    return true;
  }
  const bool over = side.state == ReceiveState::none || side.state == ReceiveState::ended;
  if (header.number != side.header.number || (over && !side.delivered) || after(side.header.attempt, header.attempt)) {
    ++stale_;
    return false;
  }
  if (!agree(header, side.header)) {
    ++contradictions_;
    return false;
  }
  if (over && header.flags == Header::unacknowledged) {
    ++stale_;  // a duplicate; nobody waits for an answer
    return false;
  }
  // A selective message that has nothing but its request, which was damaged, begins as if it were new.
  const bool damaged = (header.flags & Header::selective) != 0 && side.state == ReceiveState::gathering &&
                       side.base == 0 && side.granted == 1 && side.held == 0;
  const bool restart = damaged || after(header.attempt, side.header.attempt);
  receive_event(peer, restart ? ReceiveEvent::request_restart : ReceiveEvent::request_again, &header);
  return restart && side.state == ReceiveState::gathering;
}

/// Whether a data packet of the message at hand is granted, has not come, and follows what has.
bool Protocol::is_wanted(const ReceiveSide& side, const Header& header) {
  const std::uint64_t place = std::uint64_t{header.index} - side.base;
  if (side.state != ReceiveState::gathering || header.index < side.base || place >= Header::granted_packets_max) {
    return false;
  }
  const std::uint32_t bit = 1U << place;
  const bool in_turn = (header.flags & Header::selective) != 0 || side.seen == bits(place);
  return (side.granted & bit) != 0 && (side.seen & bit) == 0 && in_turn;
}

/// Whether a packet that carries payload will go up and ends nothing, so that it need not be verified here.
bool Protocol::is_welcome(const Peer& peer, const Header& header) {
  if (!owed_.empty() || is_for_another(header)) {
    return false;
  }
  const ReceiveSide& side = peer.receive;
  if (header.type == Type::request) {
    const bool is_new = !peer.has_number || after(header.number, side.header.number);
    const bool replaces = side.state == ReceiveState::gathering || side.state == ReceiveState::withheld;
    return is_new && !replaces && header.total_bytes <= options_.message_bytes_max && read_queue().can_put_next();
  }
  return peer.has_number && header.number == side.header.number && header.attempt == side.header.attempt &&
         agree(header, side.header) && is_wanted(side, header);
}

/// Whether a packet is one of the last of a message that nobody acknowledges. Its sender may send the next one at once,
/// whose request ends what has not been verified by then; so these packets do not wait for the user's read.
bool Protocol::is_of_unacknowledged_end(const Peer& peer, const Header& header) {
  if ((header.flags & Header::unacknowledged) == 0) {
    return false;
  }
  const ReceiveSide& side = peer.receive;
  const std::uint64_t granted_end =
      header.type == Type::request ? 1 : side.base + static_cast<std::uint64_t>(std::bit_width(side.granted));
  return granted_end == header.packets();
}

/// Whether the packet's payload goes up.
bool Protocol::data_received(Peer& peer, const Header& header) {
  ReceiveSide& side = peer.receive;
  if (!peer.has_number || header.number != side.header.number || header.attempt != side.header.attempt) {
    ++stale_;
    return false;
  }
  if (!agree(header, side.header)) {
    ++contradictions_;
    return false;
  }
  const bool wanted = is_wanted(side, header);
  receive_event(peer, wanted ? ReceiveEvent::data : ReceiveEvent::data_other);
  if (wanted) {
    side.seen |= 1U << (header.index - side.base);
  }
  return wanted;
}

/// A packet that went up has turned out to be good.
void Protocol::verified(std::uint32_t id, std::uint32_t index, std::uint32_t round, bool at_once) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  ReceiveSide& side = found->second->receive;
  const std::uint64_t place = std::uint64_t{index} - side.base;
  if (side.state != ReceiveState::gathering || side.round != round) {
    return;  // it may yet be overwritten by what has been asked for since
  }
  // Of a faithful message only what follows what is there counts: before this one another may have been refused.
  if ((side.header.flags & Header::selective) == 0 && side.held != bits(place)) {
    // One that came verified may follow some that the user has yet to read: it counts when they have proved good.
    if (at_once) {
      side.early |= 1U << place;
    } else {
      ++out_of_order_;
    }
    return;
  }
  side.held |= (1U << place) & side.granted;
  while ((side.early & (side.held + 1)) != 0) {
    side.held |= side.held + 1;
  }
  if (side.held == side.granted && !side.attention) {
    side.attention = true;
    attention_.push_back(id);
    read_queue().enable();
  }
}

void Protocol::attend() {
  while (!attention_.empty()) {  // each peer is there once
    const std::vector<std::uint32_t> now = std::exchange(attention_, {});
    for (const std::uint32_t id : now) {
      if (const auto found = by_id_.find(id); found != by_id_.end()) {
        attend(*found->second);
      }
    }
  }
}

/// A window has come.
void Protocol::attend(Peer& peer) {
  ReceiveSide& side = peer.receive;
  side.attention = false;
  if (side.state != ReceiveState::gathering || side.held != side.granted) {
    return;
  }
  const std::uint64_t end = side.base + static_cast<std::uint64_t>(std::bit_width(side.granted));
  const bool whole = end == side.header.packets();
  // Of the end of an unacknowledged message nobody is told.
  const bool tells_sender = !whole || (side.header.flags & Header::unacknowledged) == 0;
  if (user_decides_ && !side.accepted && tells_sender) {
    return;  // decide() comes back to it
  }
  if (whole) {
    return receive_event(peer, ReceiveEvent::message_held);
  }
  release_buffers(side);
  receive_event(peer, has_room() ? ReceiveEvent::window_held : ReceiveEvent::window_held_full);
}

/// The user has looked at the first payload of a message. What it says of one that is over comes too late.
void Protocol::decide(const wire::message::Decision& decision) {
  if (decision.kind == wire::message::Decision::Kind::decides) {
    user_decides_ = true;
    return;
  }
  Peer* const peer = find(decision.peer);
  if (peer == nullptr || peer->incarnation != decision.incarnation || !peer->has_number ||
      peer->receive.header.number != decision.number) {
    return;
  }
  if (decision.kind == wire::message::Decision::Kind::refuses) {
    receive_event(*peer, ReceiveEvent::refused);
    return;
  }
  peer->receive.accepted = true;
  attend(*peer);
}

/// Whether more packets may be granted. At least one message goes on whatever `buffers` is.
bool Protocol::has_room() {
  return read_queue().can_put_next() && (granted_packets_ < options_.buffers || granted_packets_ == 0);
}

void Protocol::release_buffers(ReceiveSide& side) {
  granted_packets_ -= std::exchange(side.reserved, 0);
  if (!withheld_.empty()) {
    read_queue().enable();
  }
}

void Protocol::begin_window(Peer& peer, std::uint64_t base, std::uint32_t granted) {
  ReceiveSide& side = peer.receive;
  side.base = base;
  side.granted = granted;
  side.seen = 0;
  side.held = 0;
  side.early = 0;
  ++side.round;
}

/// Clear to send: the window that comes next.
void Protocol::grant(Peer& peer) {
  ReceiveSide& side = peer.receive;
  const std::uint64_t base = side.base + static_cast<std::uint64_t>(std::bit_width(side.granted));
  const std::uint64_t lacking = side.header.packets() - base;
  const std::uint64_t room = granted_packets_ < options_.buffers ? options_.buffers - granted_packets_ : 1;
  const auto count = static_cast<std::uint32_t>(std::min({lacking, room, std::uint64_t{options_.grant_packets_max}}));
  begin_window(peer, base, bits(count));
  side.reserved = count;
  granted_packets_ += count;
  answer(peer, side.header, Type::clear);
}

/// What is lacking of the window is granted once more. What has gone up and was not verified is among it.
void Protocol::grant_again(Peer& peer) {
  ReceiveSide& side = peer.receive;
  if ((side.header.flags & Header::selective) == 0 || side.granted == side.held ||
      (side.base == 0 && side.granted == 1)) {
    ++out_of_order_;
    return;
  }
  side.seen = side.held;
  ++side.round;
  answer(peer, side.header, Type::clear);
}

void Protocol::receive_event(Peer& peer, ReceiveEvent event, const Header* header) {
  ReceiveSide& side = peer.receive;
  const ReceiveRow taken = row(side.state, event);
  side.state = taken.next;
  switch (taken.action) {
    case ReceiveAction::ignore:
      ++out_of_order_;
      break;
    case ReceiveAction::none:
      if (event == ReceiveEvent::window_held_full) {
        withheld_.push_back(peer.id);
      }
      break;
    case ReceiveAction::replace:
      lose(peer);
      [[fallthrough]];
    case ReceiveAction::open:
      side.delivered = false;
      side.accepted = false;
      [[fallthrough]];
    case ReceiveAction::reopen:
      release_buffers(side);
      side.header = *header;
      begin_window(peer, 0, 1);
      side.seen = 1;
      break;
    case ReceiveAction::again:
      grant_again(peer);
      break;
    case ReceiveAction::take:
      break;
    case ReceiveAction::grant:
      grant(peer);
      break;
    case ReceiveAction::end:
      release_buffers(side);
      side.delivered = true;
      ++messages_received_;
      indicate_end(peer, Indication::Kind::received, 0);
      if ((side.header.flags & Header::unacknowledged) == 0) {
        answer(peer, side.header, Type::end);
      }
      break;
    case ReceiveAction::end_again:
      if (header != nullptr) {
        answer(peer, *header, Type::end);
      }
      break;
    case ReceiveAction::refuse:
      release_buffers(side);
      ++messages_refused_;
      indicate_end(peer, Indication::Kind::lost, EXFULL);
      answer(peer, side.header, Type::refuse);
      break;
    case ReceiveAction::refuse_again:
      if (header != nullptr) {
        answer(peer, *header, Type::refuse);
      }
      break;
    case ReceiveAction::forget:
      break;
    case ReceiveAction::lose:
      release_buffers(side);
      lose(peer);
      break;
  }
}

/// The user hears that the message on its way in will not be whole.
void Protocol::lose(Peer& peer) {
  ++messages_lost_;
  indicate_end(peer, Indication::Kind::lost, ECONNABORTED);
}

/// The message on its way in is over.
void Protocol::indicate_end(const Peer& peer, Indication::Kind kind, int error) {
  const ReceiveSide& side = peer.receive;
  indicate(peer, {.kind = kind,
                  .incarnation = peer.incarnation,
                  .number = side.header.number,
                  .error = error,
                  .tag = side.header.tag,
                  .total_bytes = side.header.total_bytes});
}

}  // namespace sluice::rmpp
