// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/message_protocol.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/tpi.h"

namespace sluice::rmpp {
namespace {

using wire::DataUnit;
using wire::RmppHeader;
using wire::RmppMalformed;
using wire::message::Indication;
using wire::message::Request;
using Kind = DataUnit::Kind;
using Type = RmppHeader::Type;

/// Room in front of a packet for the headers below.
constexpr std::size_t headroom_below = 128;

constexpr std::uint32_t bits(std::uint64_t count) { return (std::uint32_t{1} << count) - 1; }

/// Whether `left` comes after `right`, where numbers wrap around.
constexpr bool after(std::uint32_t left, std::uint32_t right) { return static_cast<std::int32_t>(left - right) > 0; }
constexpr bool after(std::uint16_t left, std::uint16_t right) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(left - right)) > 0;
}

bool is(const Message& message, Kind kind, std::int32_t primitive) {
  if (const DataUnit* const unitdata = message.native<DataUnit>()) {
    return unitdata->kind == kind;
  }
  return is_protocol(message.type()) && wire::tpi::primitive_of(message.bytes()) == primitive;
}

/// Whether both are about the same message.
bool agree(const RmppHeader& left, const RmppHeader& right) {
  return left.packet_bytes == right.packet_bytes && left.total_bytes == right.total_bytes && left.tag == right.tag &&
         left.flags == right.flags;
}

std::uint8_t flags_of(Recovery recovery) {
  switch (recovery) {
    case Recovery::none:
      return RmppHeader::unacknowledged;
    case Recovery::selective:
      return RmppHeader::selective;
    case Recovery::message:
      break;
  }
  return 0;
}

constexpr std::array<std::string_view, static_cast<std::size_t>(RmppMalformed::count_)> malformed_meanings = {
    "packets shorter than a header",
    "packets of another version",
    "packets whose header's checksum is wrong",
    "packets of which a key field and its copy differ",
    "packets of no type there is",
    "packets with unknown flags",
    "packets whose payload is not as long as they say",
    "packets of messages that cannot be cut as they say",
    "packets that lie outside of their message",
    "grants of nothing, or beyond the message"};

}  // namespace

Protocol::Protocol(std::string_view name, const Options& options) : Module(name, Services::both), options_(options) {
  for (std::size_t at = 0; at < malformed_meanings.size(); ++at) {
    malformed_.push_back(
        std::make_unique<Counter>(*this, wire::name_of(static_cast<RmppMalformed>(at)), malformed_meanings[at]));
  }
}

Status Protocol::open() {
  incarnation_ = static_cast<std::uint32_t>(set().prng().below(0xffff'ffff)) + 1;  // never 0
  collector_ = std::make_unique<Timer>(set().scheduler(), [this] { collect(); });
  return {};
}

// ---- Nodes ----

Protocol::Peer* Protocol::find(const wire::TransportAddress& address) {
  const auto found = peers_.find(address);
  return found == peers_.end() ? nullptr : found->second.get();
}

Protocol::Peer* Protocol::find_or_make(const wire::TransportAddress& address) {
  if (Peer* const known = find(address)) {
    return known;
  }
  if (peers_.size() >= options_.peers_max) {
    return nullptr;
  }
  auto made = std::make_unique<Peer>();
  Peer& peer = *made;
  peer.address = address;
  peer.id = next_peer_id_++;
  peer.last_heard = set().now();
  peer.send.timer = std::make_unique<Timer>(set().scheduler(), [this, &peer] { timed_out(peer); });
  peers_.emplace(address, std::move(made));
  by_id_.emplace(peer.id, &peer);
  if (!collector_->armed()) {
    collector_->arm_after(options_.dead_time / 4);
  }
  return &peer;
}

/// Nodes that have been silent for the dead time, and to which nothing is to be sent, are forgotten.
void Protocol::collect() {
  for (auto at = peers_.begin(); at != peers_.end();) {
    Peer& peer = *at->second;
    const bool silent = set().now() - peer.last_heard >= options_.dead_time;
    if (silent) {
      receive_event(peer, ReceiveEvent::expired);
    }
    if (silent && peer.send.state == SendState::idle && peer.send.waiting.empty()) {
      ++collected_;
      by_id_.erase(peer.id);
      at = peers_.erase(at);
    } else {
      ++at;
    }
  }
  attend();
  if (!peers_.empty()) {
    collector_->arm_after(options_.dead_time / 4);
  }
}

bool Protocol::transmit(const Peer& peer, const Header& header, Message payload) {
  Message packet = Message::of_native(
      set().pool(),
      DataUnit{.kind = Kind::transport_request, .peer = peer.address.address, .peer_port = peer.address.port});
  Message data = Message::of_size(set().pool(), Header::size, headroom_below, 0);
  if (!packet || !data) {
    ++no_memory_;
    return false;
  }
  header.emit(data.bytes());
  if (payload) {
    data.link(std::move(payload));
  }
  defer_if_fused(data);
  packet.link(std::move(data));
  ++packets_out_;
  write_queue().put_next(std::move(packet));
  return true;
}

void Protocol::indicate(const Peer& peer, const Indication& indication) {
  Message message = Message::of_native(
      set().pool(),
      DataUnit{.kind = Kind::transport_indication, .peer = peer.address.address, .peer_port = peer.address.port});
  Message data = Message::of_size(set().pool(), Indication::size, 0, 0);
  if (!message || !data) {
    ++no_memory_;
    return;
  }
  indication.store(data.bytes().data());
  message.link(std::move(data));
  read_queue().put_next(std::move(message));
}

// ---- Sending ----

void Protocol::wput(Batch&& batch) {
  const auto step = [](const Message& message) {
    return is(message, Kind::transport_request, wire::tpi::T_UNITDATA_REQ) ? Batch::Step::stop : Batch::Step::keep;
  };
  write_queue().pass_on(std::move(batch), step, [this](Message& message) { return request(message); });
}

/// TPI, T_UNITDATA_REQ: "If a non-fatal error occurs, it is the responsibility of the transport provider to report it
/// via the T_UDERROR_IND indication."
void Protocol::refuse(Message message, int error) {
  ++requests_refused_;
  if (message.has_data()) {
    static_cast<void>(message.unlink());
  }
  const auto unitdata = native_of<DataUnit>(message, Kind::transport_request);
  if (unitdata) {
    (*unitdata)->kind = Kind::transport_error;
    (*unitdata)->error = error;
    read_queue().put_next(std::move(message));
  }
}

/// A message of the user's is taken. Never passes on.
bool Protocol::request(Message& message) {
  const auto unitdata = native_of<DataUnit>(message, Kind::transport_request);
  if (!unitdata) {
    refuse(std::move(message), EINVAL);
    return false;
  }
  const wire::TransportAddress to{(*unitdata)->peer, (*unitdata)->peer_port};
  const std::size_t size = message.data_size();
  std::array<std::byte, Request::size> front;
  if (size < Request::size || (*unitdata)->segment_size != 0) {
    refuse(std::move(message), EINVAL);
    return false;
  }
  const std::uint64_t total = size - Request::size;
  if (total > options_.message_bytes_max) {
    refuse(std::move(message), EMSGSIZE);
    return false;
  }
  // What the user lends for the call alone is copied here, what is lent until it is released stays where it is.
  if (keep(message, Side::write) == TransformResult::failed || !message.copy_data_to(0, front)) {
    refuse(std::move(message), ENOBUFS);
    return false;
  }
  Peer* const peer = messages_waiting_ < options_.messages_max ? find_or_make(to) : nullptr;
  if (peer == nullptr) {
    refuse(std::move(message), ENOBUFS);
    return false;
  }
  const Request asked = Request::load(front.data());
  message.trim_data_front(Request::size);
  ++messages_waiting_;
  peer->send.waiting.push_back(
      {.data = message.unlink(), .total_bytes = total, .tag = asked.tag, .handle = asked.handle});
  start(*peer);
  return false;
}

Protocol::Header Protocol::header_of(const Peer& peer, Header::Type type) const {
  const Outgoing& message = peer.send.waiting.front();
  return {.type = type,
          .flags = flags_of(options_.recovery),
          .source_incarnation = incarnation_,
          .destination_incarnation = peer.send.to,
          .number = peer.send.number,
          .attempt = peer.send.attempt,
          .packet_bytes = options_.packet_bytes,
          .total_bytes = message.total_bytes,
          .tag = message.tag};
}

/// Begins the next message, if none is on its way.
void Protocol::start(Peer& peer) {
  SendSide& side = peer.send;
  // utopia's messages are over when they have left: the loop is bounded by what waits, and ends where the device does.
  while (side.state == SendState::idle && !side.waiting.empty() && write_queue().can_put_next()) {
    ++side.number;
    side.to = peer.incarnation;
    side.attempt = 0;
    side.attempts = 0;
    side.all_left = false;
    const bool is_short = Header::packets_of(side.waiting.front().total_bytes, options_.packet_bytes) == 1;
    send_event(peer, is_short ? SendEvent::start_short : SendEvent::start_long);
    if (is_short && options_.recovery == Recovery::none) {
      send_event(peer, SendEvent::all_left_unacknowledged);
    }
  }
}

void Protocol::arm(Peer& peer) {
  constexpr std::uint32_t doublings_max = 6;
  peer.send.timer->arm_after(options_.recovery == Recovery::none
                                 ? options_.dead_time
                                 : options_.timeout * (1 << std::min(peer.send.attempts, doublings_max)));
}

void Protocol::timed_out(Peer& peer) {
  SendSide& side = peer.send;
  if (side.state == SendState::idle) {
    return;
  }
  const bool last = options_.recovery == Recovery::none || side.attempts + 1 >= options_.attempts_max;
  if (last && side.state != SendState::sending) {
    send_event(peer, SendEvent::exhausted);
    return start(peer);
  }
  ++side.attempts;
  const bool is_short = Header::packets_of(side.waiting.front().total_bytes, options_.packet_bytes) == 1;
  if (side.state != SendState::sending && options_.recovery == Recovery::message) {
    ++side.attempt;
  }
  send_event(peer, is_short || options_.recovery == Recovery::selective ? SendEvent::timeout_same
                                                                        : SendEvent::timeout_restart);
}

void Protocol::send_event(Peer& peer, SendEvent event, const Header* header) {
  SendSide& side = peer.send;
  const SendRow taken = row(side.state, event);
  side.state = taken.next;
  switch (taken.action) {
    case SendAction::ignore:
      ++stray_;
      break;
    case SendAction::request:
      if (event == SendEvent::timeout_same || event == SendEvent::timeout_restart) {
        ++repeated_;
      }
      if (event != SendEvent::timeout_same) {
        side.next = 1;
        side.all_left |= event == SendEvent::start_short;
      }
      send_request(peer);
      arm(peer);
      break;
    case SendAction::packets:
      side.timer->cancel();
      pump(peer);
      break;
    case SendAction::wait:
      arm(peer);
      break;
    case SendAction::finish: {
      const Header done = header_of(peer, Type::discard);
      finish(peer, Indication::Kind::sent, 0);
      static_cast<void>(transmit(peer, done, {}));
      break;
    }
    case SendAction::finish_quietly:
      finish(peer, Indication::Kind::sent, 0);
      break;
    case SendAction::discard:
      answer(peer, *header, Type::discard);
      break;
    case SendAction::fail_refused:
      finish(peer, Indication::Kind::failed, ECONNRESET);
      break;
    case SendAction::fail: {
      const Header done = header_of(peer, Type::discard);
      finish(peer, Indication::Kind::failed, ETIMEDOUT);
      static_cast<void>(transmit(peer, done, {}));
      break;
    }
  }
}

/// The message in front is over.
void Protocol::finish(Peer& peer, Indication::Kind kind, int error) {
  SendSide& side = peer.send;
  side.timer->cancel();
  side.pending = 0;
  const Outgoing done = std::move(side.waiting.front());
  side.waiting.pop_front();
  --messages_waiting_;
  ++(kind == Indication::Kind::sent ? messages_sent_ : messages_failed_);
  indicate(peer, {.kind = kind,
                  .incarnation = side.to,
                  .number = side.number,
                  .error = error,
                  .tag = done.tag,
                  .total_bytes = done.total_bytes,
                  .handle = done.handle});
}

void Protocol::send_request(Peer& peer) { static_cast<void>(send_packet(peer, 0)); }

/// False where there was no memory: as if it had been lost.
bool Protocol::send_packet(Peer& peer, std::uint64_t index) {
  const Outgoing& message = peer.send.waiting.front();
  Header header = header_of(peer, index == 0 ? Type::request : Type::data);
  header.index = static_cast<std::uint32_t>(index);
  header.length =
      static_cast<std::uint16_t>(std::min<std::uint64_t>(options_.packet_bytes, message.total_bytes - header.offset()));
  Message payload;
  if (header.length > 0) {
    payload = slice(message.data, header.offset(), header.length);
    if (!payload) {
      ++no_memory_;
      return false;
    }
  }
  return transmit(peer, header, std::move(payload));
}

/// A message that shows a part of another one. REQUIRES: it has that part. Empty when the pool is exhausted.
Message Protocol::slice(const Message& data, std::uint64_t offset, std::size_t size) {
  Message part;
  for (const Block* block = data.data_block(); block != nullptr && size > 0; block = block->cont) {
    if (offset >= block->size()) {
      offset -= block->size();
      continue;
    }
    Block* const shown = set().pool().duplicate(*block);
    if (shown == nullptr) {
      return {};
    }
    shown->rptr += offset;
    shown->wptr = shown->rptr + std::min(size, shown->size());
    shown->first_data = nullptr;
    shown->data_bytes = Block::facts_unknown;
    size -= shown->size();
    offset = 0;
    Message next(shown);
    if (part) {
      part.link(std::move(next));
    } else {
      part = std::move(next);
    }
  }
  return part;
}

/// Sends what is granted, as far as the device takes it.
void Protocol::pump(Peer& peer) {
  SendSide& side = peer.send;
  while (side.state == SendState::sending) {
    if (side.pending == 0) {
      const std::uint64_t packets = Header::packets_of(side.waiting.front().total_bytes, options_.packet_bytes);
      side.all_left |= side.next >= packets;
      send_event(peer, side.next < packets                   ? SendEvent::window_left
                       : options_.recovery == Recovery::none ? SendEvent::all_left_unacknowledged
                                                             : SendEvent::all_left);
      break;
    }
    if (!write_queue().can_put_next()) {
      return;  // wsrv() goes on
    }
    const int bit = std::countr_zero(side.pending);
    side.pending &= side.pending - 1;
    static_cast<void>(send_packet(peer, side.first + static_cast<std::uint64_t>(bit)));
  }
}

void Protocol::wsrv() {
  for (const auto& [address, peer] : peers_) {
    pump(*peer);
    start(*peer);
  }
}

/// Clear to send. A faithful receiver grants what comes next, and nothing else.
void Protocol::grant_received(Peer& peer, const Header& header) {
  SendSide& side = peer.send;
  const bool whole = (header.grant & (header.grant + 1U)) == 0;
  const std::uint64_t end = header.index + static_cast<std::uint64_t>(std::bit_width(header.grant));
  const bool fits = options_.recovery == Recovery::selective ? header.index <= side.next && end > 1
                                                             : whole && header.index == side.next;
  if (side.state == SendState::sending) {
    send_event(peer, SendEvent::grant);  // one is being worked on
    return;
  }
  if (!fits) {
    ++bad_grants_;
    return;
  }
  side.first = header.index;
  side.pending = header.grant;
  if (end > side.next) {
    side.next = end;
    side.attempts = options_.recovery == Recovery::selective ? 0 : side.attempts;
  }
  send_event(peer, SendEvent::grant);
}

// ---- Receiving ----

void Protocol::rput(Batch&& batch) {
  read_queue().pass_on(std::move(batch), [this](Message& message) { return receive(message); });
  attend();
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
  if (is(message, Kind::transport_error, wire::tpi::T_UDERROR_IND)) {
    ++provider_errors_;  // as a loss: the timer notices
    return false;
  }
  if (!is(message, Kind::transport_indication, wire::tpi::T_UNITDATA_IND)) {
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
  const auto parsed = front == nullptr ? std::unexpected(RmppMalformed::short_header)
                                       : Header::parse({front, Header::size}, message.data_size());
  if (!parsed) {
    drop(message, *malformed_[static_cast<std::size_t>(parsed.error())]);
    return false;
  }
  const Header header = *parsed;
  Peer* peer = find(from);
  const bool carries = header.type == Type::request || header.type == Type::data;
  // Who is new, or has changed, is believed only when all of his packet has been verified; so is what carries nothing,
  // and what will be dropped is counted only then.
  if (!carries || peer == nullptr || header.source_incarnation != peer->incarnation || !is_welcome(*peer, header)) {
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
    verified(id, index, round);
  });
  return !message.failed();
}

/// Whether a packet is from the process that is known, and for this one.
bool Protocol::admit(Peer& peer, const Header& header) {
  if (header.destination_incarnation != 0 && header.destination_incarnation != incarnation_) {
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
  side.to = peer.incarnation;
  if (header.type == Type::refuse) {
    send_event(peer, SendEvent::refusal);
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

/// Whether a packet that carries payload will go up, so that it need not be verified here.
bool Protocol::is_welcome(const Peer& peer, const Header& header) {
  const ReceiveSide& side = peer.receive;
  if (header.type == Type::request) {
    return !peer.has_number || after(header.number, side.header.number);
  }
  return peer.has_number && header.number == side.header.number && header.attempt == side.header.attempt &&
         agree(header, side.header) && is_wanted(side, header);
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
void Protocol::verified(std::uint32_t id, std::uint32_t index, std::uint32_t round) {
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
    ++out_of_order_;
    return;
  }
  side.held |= (1U << place) & side.granted;
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
  if (end == side.header.packets()) {
    return receive_event(peer, ReceiveEvent::message_held);
  }
  release_buffers(side);
  receive_event(peer, has_room() ? ReceiveEvent::window_held : ReceiveEvent::window_held_full);
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

/// An answer about a message, which says again what its packet said of it.
void Protocol::answer(const Peer& peer, const Header& about, Header::Type type) {
  Header header = about;
  header.type = type;
  header.source_incarnation = incarnation_;
  header.destination_incarnation = about.source_incarnation;
  header.index = 0;
  header.length = 0;
  header.grant = 0;
  if (type == Type::clear) {
    const ReceiveSide& side = peer.receive;
    const std::uint32_t lacking = side.granted & ~side.held;
    const int skipped = std::countr_zero(lacking);
    header.index = static_cast<std::uint32_t>(side.base) + static_cast<std::uint32_t>(skipped);
    header.grant = static_cast<std::uint16_t>(lacking >> skipped);
  }
  static_cast<void>(transmit(peer, header, {}));
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
      indicate(peer, {.kind = Indication::Kind::received,
                      .incarnation = peer.incarnation,
                      .number = side.header.number,
                      .tag = side.header.tag,
                      .total_bytes = side.header.total_bytes});
      if ((side.header.flags & Header::unacknowledged) == 0) {
        answer(peer, side.header, Type::end);
      }
      break;
    case ReceiveAction::end_again:
      if (header != nullptr) {
        answer(peer, *header, Type::end);
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
  const ReceiveSide& side = peer.receive;
  ++messages_lost_;
  indicate(peer, {.kind = Indication::Kind::lost,
                  .incarnation = peer.incarnation,
                  .number = side.header.number,
                  .error = ECONNABORTED,
                  .tag = side.header.tag,
                  .total_bytes = side.header.total_bytes});
}

// ---- Parameters ----

std::vector<ParameterSpec> parameter_specs() {
  using enum ParameterSpec::Type;
  return {
      {.name = "packet_bytes",
       .type = integer,
       .meaning = "Payload of a packet, in bytes; 1400 if absent.",
       .minimum = RmppHeader::packet_bytes_min,
       .maximum = 65000},
      {.name = "grant_packets",
       .type = integer,
       .meaning = "Packets granted at once, at most; 16 if absent.",
       .minimum = 1,
       .maximum = RmppHeader::granted_packets_max},
      {.name = "buffers",
       .type = integer,
       .meaning = "Packets granted to all nodes together, at most; 1024 if absent.",
       .minimum = 1,
       .maximum = 1 << 20},
      {.name = "peers",
       .type = integer,
       .meaning = "Nodes known at once; 1024 if absent.",
       .minimum = 1,
       .maximum = 65536},
      {.name = "messages",
       .type = integer,
       .meaning = "Messages that wait to be sent, to all nodes together; 1024 if absent.",
       .minimum = 1,
       .maximum = 1 << 20},
      {.name = "message_bytes",
       .type = integer,
       .meaning = "Longest message, in bytes; 1073741824 if absent.",
       .minimum = 0,
       .maximum = 2147483647},
      {.name = "dead_ms",
       .type = integer,
       .meaning = "After so many ms of silence a node's state is forgotten; 120000 if absent.",
       .minimum = 100,
       .maximum = 3600000},
  };
}

Options options_of(const Parameters& parameters, Recovery recovery) {
  Options options;
  options.recovery = recovery;
  options.packet_bytes = static_cast<std::uint16_t>(parameters.integer("packet_bytes", options.packet_bytes));
  options.grant_packets_max =
      static_cast<std::uint32_t>(parameters.integer("grant_packets", options.grant_packets_max));
  options.buffers = static_cast<std::uint32_t>(parameters.integer("buffers", options.buffers));
  options.peers_max = static_cast<std::size_t>(parameters.integer("peers", 1024));
  options.messages_max = static_cast<std::size_t>(parameters.integer("messages", 1024));
  options.message_bytes_max = static_cast<std::uint64_t>(parameters.integer("message_bytes", 1 << 30));
  options.timeout = std::chrono::milliseconds(parameters.integer("timeout_ms", 20));
  options.attempts_max = static_cast<std::uint32_t>(parameters.integer("attempts", options.attempts_max));
  options.dead_time = std::chrono::milliseconds(parameters.integer("dead_ms", 120'000));
  return options;
}

}  // namespace sluice::rmpp
