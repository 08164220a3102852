// SPDX-License-Identifier: Apache-2.0
// The sending direction of rmpp::Protocol: messages of the user's, their packets, and what grants and timers do.
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

using wire::message::Decision;
using wire::message::Request;

}  // namespace

void Protocol::wput(Batch&& batch) {
  const auto step = [](const Message& message) {
    const bool ours =
        message.type() == MessageType::ctl || is_data_unit(message, Kind::transport_request, wire::tpi::T_UNITDATA_REQ);
    return ours ? Batch::Step::stop : Batch::Step::keep;
  };
  write_queue().pass_on(std::move(batch), step, [this](Message& message) {
    if (message.type() != MessageType::ctl) {
      return request(message);
    }
    const auto decision = Decision::decode(std::as_const(message).bytes());
    if (decision) {
      decide(*decision);
    }
    return !decision;
  });
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

Protocol::Header Protocol::header_of(const Peer& peer, Type type) const {
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
      transmit(peer, done);
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
    case SendAction::fail_declined:
      finish(peer, Indication::Kind::failed, EXFULL);
      break;
    case SendAction::fail: {
      const Header done = header_of(peer, Type::discard);
      finish(peer, Indication::Kind::failed, ETIMEDOUT);
      transmit(peer, done);
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

void Protocol::send_request(Peer& peer) {
  if (Message packet = packet_of(peer, 0)) {
    write_queue().put_next(std::move(packet));
  }
}

/// A packet of the message in front. Empty without memory: as if it had been lost.
Message Protocol::packet_of(const Peer& peer, std::uint64_t index) {
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
      return {};
    }
  }
  return packet_of(peer, header, std::move(payload));
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

/// Sends what is granted, as far as the device takes it: a grant's packets go down as one batch, so that the device is
/// asked once and not once a packet.
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
    Batch packets;
    for (; side.pending != 0; side.pending &= side.pending - 1) {
      const auto bit = static_cast<std::uint64_t>(std::countr_zero(side.pending));
      if (Message packet = packet_of(peer, side.first + bit)) {
        packets.push(std::move(packet));
      }
    }
    if (!packets.empty()) {
      write_queue().put_next(std::move(packets));
    }
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

}  // namespace sluice::rmpp
