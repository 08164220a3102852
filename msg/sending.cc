// SPDX-License-Identifier: Apache-2.0
// Messages on their way from the program: one a peer is with the module, the others wait for it.
#include <cerrno>
#include <string>

#include "msg/endpoint.h"
#include "stack/wire/data_unit.h"

namespace sluice::msg {

using wire::DataUnit;
using wire::message::Request;

/// Why a program's bytes are shown: for the callback that runs when nobody does any more. It may outlive the endpoint.
struct Endpoint::Lent {
  Endpoint* endpoint;
  Send* send;
};

void Endpoint::released(void* lent, ConstBytes /*memory*/) {
  const std::unique_ptr<Lent> ended(static_cast<Lent*>(lent));
  if (ended->send != nullptr) {
    ended->send->lent = nullptr;
    if (ended->send->outcome) {
      ended->endpoint->list(ended->send->handle);
    }
  }
}

void Endpoint::orphan_lent() {
  for (const auto& [handle, send] : sends_) {
    if (send->lent != nullptr) {
      send->lent->send = nullptr;
    }
  }
}

Result<Handle> Endpoint::send(const Peer& to, std::uint64_t bits, ConstBytes data) {
  if (broken_ != 0) {
    return fail(broken_);
  }
  if (data.size() > message_bytes_max_) {
    return fail(EMSGSIZE, "a message of " + std::to_string(data.size()) + " bytes is longer than the " +
                              std::to_string(message_bytes_max_) + " that the stream's module takes (message_bytes)");
  }
  if (sends_.size() >= options_.sends_max) {
    return fail(ENOBUFS, std::to_string(sends_.size()) + " sends are not done or not asked for: wait for some");
  }
  if (Waiter* const waiter = stream().waiter(); waiter != nullptr) {
    stream().set().scheduler().advance(waiter->now());  // the module's timers begin now, not when the loop last ran
  }
  const Handle handle = next_handle();
  auto made = std::make_unique<Send>(Send{.handle = handle, .peer = to, .bits = bits, .data = data});
  std::deque<Send*>& queue = outbound_[to];
  queue.push_back(made.get());
  const bool first = queue.size() == 1;
  sends_.emplace(handle.value, std::move(made));
  if (first) {
    hand_over(to);
  }
  return handle;
}

/// The module's request for a message; empty without memory.
Message Endpoint::request_of(Send& send) {
  BufferPool& pool = stream().set().pool();
  Message message = Message::of_native(
      pool,
      DataUnit{.kind = DataUnit::Kind::transport_request, .peer = send.peer.address, .peer_port = send.peer.port});
  Message data = Message::of_size(pool, Request::size, 0, 0);
  if (!message || !data) {
    return {};
  }
  Request{.tag = send.bits, .handle = send.handle.value}.store(data.bytes().data());
  if (!send.data.empty()) {
    auto lent = std::make_unique<Lent>(Lent{this, &send});
    // Nothing writes to it: it is read-only for the stack.
    const Bytes memory(const_cast<std::byte*>(send.data.data()), send.data.size());
    Block* const shown = pool.allocate_external(memory, true, &Endpoint::released, lent.get());
    if (shown == nullptr) {
      return {};
    }
    send.lent = lent.release();
    data.link(Message(shown));
  }
  message.link(std::move(data));
  return message;
}

/// Gives the module the next message for a peer, unless it has one.
void Endpoint::hand_over(const Peer& peer) {
  const auto found = outbound_.find(peer);
  if (found == outbound_.end()) {
    return;
  }
  std::deque<Send*>& queue = found->second;
  while (!queue.empty()) {
    Send& send = *queue.front();
    if (send.outcome) {
      queue.pop_front();
      continue;
    }
    if (send.handed_over) {
      return;
    }
    if (!stream().can_put()) {
      stalled_.insert(peer);
      return;
    }
    Message request = request_of(send);
    if (!request) {
      decide(send, ENOBUFS);
      continue;
    }
    send.handed_over = true;
    stream().head().write_queue().put_next(std::move(request));
  }
  outbound_.erase(found);
}

bool Endpoint::hand_over_stalled() {
  if (stalled_.empty() || !stream().can_put()) {
    return false;
  }
  for (const Peer& peer : std::exchange(stalled_, {})) {
    hand_over(peer);
  }
  return true;
}

void Endpoint::decide(Send& send, int outcome) {
  send.outcome = outcome;
  if (send.lent == nullptr) {
    list(send.handle);
  }
}

/// The module has told how it went.
void Endpoint::ended(Send& send, int outcome) {
  decide(send, outcome);
  const Peer peer = send.peer;
  hand_over(peer);
}

}  // namespace sluice::msg
