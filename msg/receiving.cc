// SPDX-License-Identifier: Apache-2.0
// What the module says: packets of messages on their way in, which land where they belong, and what has become of
// messages either way.
#include <algorithm>
#include <cerrno>
#include <new>
#include <string>

#include "msg/connections.h"
#include "msg/endpoint.h"
#include "stack/core/primitive.h"

namespace sluice::msg {

using wire::message::Decision;
using enum wire::tpi::TliError;

/// Reads one indication. False when none waits, or the stream has ended.
bool Endpoint::take_one() {
  if (broken_ != 0) {
    return false;
  }
  std::array<std::byte, Peer::encoded_size_max> address;
  std::array<std::byte, Indication::size> head;
  tli::t_unitdata unit{.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()},
                       .opt = {},
                       .udata = {.maxlen = head.size(), .len = 0, .buf = head.data()}};
  const auto shown = tli_->t_lookudata(unit);
  if (!shown) {
    switch (shown.error().t_errno) {
      case TNODATA:
        return false;
      case TLOOK:
        take_error();
        return true;
      case TSYSERR:
        broken_ = shown.error().system_errno;
        return false;
      default:
        broken_ = EPROTO;
        return false;
    }
  }
  const auto from = Peer::decode(ConstBytes(address).first(unit.addr.len));
  const bool whole = unit.udata.len == head.size();
  const auto said = whole ? Indication::load(head.data()) : std::unexpected(wire::RmppMalformed::short_header);
  if (!from || !said) {
    ++statistics_.stray;
    tli_->t_skipudata();
  } else if (said->kind == Indication::Kind::payload) {
    land(*said, *from, *shown - head.size());
  } else {
    tli_->t_skipudata();
    take(*said, *from);
  }
  return true;
}

/// T_UDERROR_IND: a request that the module did not take. It names the peer, for whom the module has one.
void Endpoint::take_error() {
  std::array<std::byte, Peer::encoded_size_max> address;
  tli::t_uderr error{.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()}, .opt = {}, .error = 0};
  const auto taken = tli_->t_rcvuderr(&error);
  const auto peer = Peer::decode(ConstBytes(address).first(error.addr.len));
  const auto queue = taken && peer ? outbound_.find(*peer) : outbound_.end();
  if (queue == outbound_.end() || !queue->second.front()->handed_over) {
    ++statistics_.stray;
    return;
  }
  ended(*queue->second.front(), error.error != 0 ? error.error : EIO);
}

/// What has become of a message.
void Endpoint::take(const Indication& said, const Peer& from) {
  const bool of_send = said.kind == Indication::Kind::sent || said.kind == Indication::Kind::failed;
  if (of_send) {
    const auto found = sends_.find(said.handle);
    if (found == sends_.end() || !found->second->handed_over || found->second->outcome) {
      ++statistics_.stray;
      return;
    }
    const bool sent = said.kind == Indication::Kind::sent;
    return ended(*found->second, sent ? 0 : said.error != 0 ? said.error : EIO);
  }
  const auto inbound = current(said, from);
  if (inbound == inbound_.end()) {
    ++statistics_.stray;
  } else if (said.kind == Indication::Kind::received) {
    finish(inbound);
  } else {
    lose(inbound);
  }
}

/// A packet, to where its message goes. What has come before, of a message that begins again, is overwritten.
void Endpoint::land(const Indication& said, const Peer& from, std::size_t payload_bytes) {
  auto inbound = current(said, from);
  if (inbound == inbound_.end()) {
    inbound = begin_message(said, from);
  }
  const std::uint64_t total = inbound->total_bytes;
  const bool fits_message = said.offset <= total && payload_bytes <= total - said.offset;
  const Bytes place = place_of(*inbound);
  const std::size_t start = std::min<std::uint64_t>(said.offset, place.size());
  const std::size_t wanted = std::min(payload_bytes, place.size() - start);
  if (!fits_message || (wanted == 0 && payload_bytes > 0)) {
    statistics_.stray += fits_message ? 0 : 1;
    tli_->t_skipudata();
    return;
  }
  std::array<std::byte, Indication::size> head;
  discarded_.resize(std::max(discarded_.size(), payload_bytes - wanted));
  const std::array<tli::t_iovec, 3> parts = {tli::t_iovec{head.data(), head.size()},
                                             tli::t_iovec{place.data() + start, wanted},
                                             tli::t_iovec{discarded_.data(), payload_bytes - wanted}};
  // A packet whose check does not hold has not come, for the module either: it comes again, or the message is lost.
  static_cast<void>(tli_->t_landudata(parts));
}

/// Where the message belongs: shorter than it where the receive's buffer is, and empty where it is refused.
Bytes Endpoint::place_of(Inbound& inbound) {
  if (inbound.held != nullptr) {
    return {inbound.held.get(), static_cast<std::size_t>(inbound.total_bytes)};
  }
  return inbound.receive != nullptr ? inbound.receive->buffer : Bytes();
}

/// The message on its way in that is meant, if it is known.
Endpoint::InboundList::iterator Endpoint::current(const Indication& said, const Peer& from) {
  const auto found = latest_.find(from);
  const bool same =
      found != latest_.end() && found->second->incarnation == said.incarnation && found->second->number == said.number;
  return same ? found->second : inbound_.end();
}

/// What is first known of a message decides which receive it goes to. Where none accepts it, and it cannot be held, it
/// is marked as refused.
Endpoint::InboundList::iterator Endpoint::admit(Inbound made) {
  inbound_.push_back(std::move(made));
  const auto inbound = std::prev(inbound_.end());
  const auto accepting = std::ranges::find_if(
      posted_, [&](const Receive* receive) { return receive->match.accepts(inbound->peer, inbound->bits); });
  if (accepting != posted_.end()) {
    (*accepting)->matched = true;
    inbound->receive = *accepting;
    posted_.erase(accepting);
  } else if (!hold(*inbound)) {
    ++statistics_.refused;
    inbound->refused = true;
  }
  return inbound;
}

/// The first packet of a message.
Endpoint::InboundList::iterator Endpoint::begin_message(const Indication& said, const Peer& from) {
  if (const auto former = latest_.find(from); former != latest_.end()) {
    lose(former->second);  // its end was not said: the pool can never have memory for that
  }
  const auto inbound = admit({.peer = from,
                              .incarnation = said.incarnation,
                              .number = said.number,
                              .bits = said.tag,
                              .total_bytes = said.total_bytes});
  latest_.emplace(from, inbound);
  tell({.kind = inbound->refused ? Decision::Kind::refuses : Decision::Kind::accepts,
        .peer = from,
        .incarnation = said.incarnation,
        .number = said.number});
  return inbound;
}

/// A message that had a place has none any more; the sender is told. What comes of it lands nowhere.
void Endpoint::refuse(Inbound& inbound) {
  inbound.refused = true;
  inbound.receive = nullptr;
  if (connections_) {
    connections_->refuse(inbound);  // what the stream shows of the held memory moves away first
    return release_held(inbound);
  }
  release_held(inbound);
  tell({.kind = Decision::Kind::refuses,
        .peer = inbound.peer,
        .incarnation = inbound.incarnation,
        .number = inbound.number});
}

/// The module acts on it at once; what it says then waits in the stream.
void Endpoint::tell(const Decision& decision) {
  untold_.push_back(decision);
  static_cast<void>(tell_untold());
}

/// One of each message on its way in at most, and those without memory.
bool Endpoint::tell_untold() {
  bool told = false;
  while (!untold_.empty()) {
    Message message = primitive_message(stream().set().pool(), untold_.front(), MessageType::ctl);
    if (!message) {
      break;
    }
    untold_.pop_front();
    stream().head().write_queue().put_next(std::move(message));
    told = true;
  }
  return told;
}

/// Threat: a stranger's first packet claims any length. What that takes is within the bounds, or the message is not
/// held.
bool Endpoint::hold(Inbound& inbound) {
  const bool room = statistics_.unexpected_messages < options_.unexpected_messages_max &&
                    statistics_.unexpected_bytes <= options_.unexpected_bytes_max &&
                    inbound.total_bytes <= options_.unexpected_bytes_max - statistics_.unexpected_bytes;
  if (room) {
    inbound.held.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(inbound.total_bytes)]);
  }
  if (inbound.held == nullptr) {
    return false;
  }
  inbound.unexpected = true;
  statistics_.unexpected_bytes += static_cast<std::size_t>(inbound.total_bytes);
  ++statistics_.unexpected_messages;
  return true;
}

Completion Endpoint::completion_of(const Inbound& inbound, std::size_t bytes, int error) {
  return {
      .error = error, .peer = inbound.peer, .bits = inbound.bits, .bytes = bytes, .total_bytes = inbound.total_bytes};
}

/// All of the message is here.
void Endpoint::deliver(const Inbound& inbound, Receive& receive) {
  const std::size_t bytes = std::min<std::uint64_t>(inbound.total_bytes, receive.buffer.size());
  if (inbound.held != nullptr) {
    std::copy(inbound.held.get(), inbound.held.get() + bytes, receive.buffer.data());
  }
  const bool truncated = bytes < inbound.total_bytes;
  statistics_.truncated += truncated ? 1 : 0;
  finish(receive, completion_of(inbound, bytes, truncated ? EMSGSIZE : 0));
}

void Endpoint::finish(Receive& receive, const Completion& done) {
  receive.done = done;
  list(receive.handle);
}

void Endpoint::finish(InboundList::iterator inbound) {
  latest_.erase(inbound->peer);
  inbound->whole = true;
  if (inbound->receive != nullptr) {
    deliver(*inbound, *inbound->receive);
  }
  if (inbound->receive != nullptr || !inbound->unexpected) {
    erase(inbound);
  }
}

void Endpoint::lose(InboundList::iterator inbound) {
  latest_.erase(inbound->peer);
  statistics_.lost += inbound->refused ? 0 : 1;
  if (inbound->receive != nullptr) {
    finish(*inbound->receive, completion_of(*inbound, 0, ECONNABORTED));
  }
  erase(inbound);
}

void Endpoint::release_held(Inbound& inbound) {
  if (std::exchange(inbound.unexpected, false)) {
    statistics_.unexpected_bytes -= static_cast<std::size_t>(inbound.total_bytes);
    --statistics_.unexpected_messages;
  }
  inbound.held.reset();
}

void Endpoint::erase(InboundList::iterator inbound) {
  release_held(*inbound);
  inbound_.erase(inbound);
}

}  // namespace sluice::msg
