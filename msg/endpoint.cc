// SPDX-License-Identifier: Apache-2.0
// Opening, and what a program asks about its receives and sends. sending.cc and receiving.cc move messages.
#include "msg/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "msg/connections.h"
#include "msg/failure.h"

namespace sluice::msg {

using tli::t_bind;

Result<std::unique_ptr<Endpoint>> Endpoint::open(std::unique_ptr<Stream> stream, const Options& options) {
  const bool has_module = stream->find("rmpp") || stream->find("utopia");
  auto opened = tli::Endpoint::t_open(std::move(stream), nullptr);
  if (!opened) {
    return failed_in("t_open", opened.error());
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint(options));
  endpoint->tli_ = std::move(*opened);
  if (!has_module && endpoint->tli_->info().servtype != wire::tpi::T_COTS_ORD) {
    return fail(EINVAL,
                "the stream makes no connections, and has neither rmpp nor utopia: push one of them below timod");
  }
  if (!has_module) {
    if (!options.another_stream) {
      return fail(EINVAL, "messages over connections need a stream each: Options::another_stream opens them");
    }
    endpoint->connections_ = std::make_unique<Connections>(*endpoint);
  }
  if (Status ready = endpoint->learn_limits(); !ready) {
    return std::unexpected(std::move(ready.error()));
  }
  if (Status bound = endpoint->bind(); !bound) {
    return std::unexpected(std::move(bound.error()));
  }
  endpoint->stream().set_nonblocking(true);  // whoever waits does so in wait()
  if (has_module) {
    endpoint->tell({.kind = wire::message::Decision::Kind::decides});
  }
  return endpoint;
}

Endpoint::Endpoint(const Options& options) : options_(options) {}

/// Closing the stream gives back what is lent. What another stream shows outlives the endpoint.
Endpoint::~Endpoint() {
  connections_.reset();
  tli_.reset();
  orphan_lent();
}

Status Endpoint::learn_limits() {
  if (connections_) {
    message_bytes_max_ = options_.connection_message_bytes_max;
    return {};
  }
  const std::int32_t unit = tli_->info().tsdu;
  if (unit < static_cast<std::int32_t>(wire::message::Request::size)) {
    return fail(EMSGSIZE,
                "the provider's data units are too small for the module's packets: set a smaller packet_bytes");
  }
  message_bytes_max_ = static_cast<std::uint64_t>(unit) - wire::message::Request::size;
  return {};
}

Status Endpoint::bind() {
  std::array<std::byte, Peer::encoded_size_max> wanted;
  std::array<std::byte, Peer::encoded_size_max> bytes;
  t_bind request{.addr = {.maxlen = 0, .len = 0, .buf = wanted.data()},
                 .qlen = connections_ ? Connections::calls_waiting_max : 0};
  t_bind bound{.addr = {.maxlen = bytes.size(), .len = 0, .buf = bytes.data()}, .qlen = 0};
  if (options_.local) {
    request.addr.len = options_.local->encode(wanted);
  }
  if (const auto done = tli_->t_bind(&request, &bound); !done) {
    return failed_in("t_bind", done.error());
  }
  const auto address = Peer::decode(ConstBytes(bytes).first(bound.addr.len));
  if (!address) {
    return fail(EINVAL, "the provider is bound to an address that is none of IP and port");
  }
  address_ = *address;
  return {};
}

Result<Handle> Endpoint::post(Bytes buffer, const Match& match) {
  if (receives_.size() >= options_.receives_max) {
    return fail(ENOBUFS, std::to_string(receives_.size()) + " receives are posted or not asked for: wait for some");
  }
  const Handle handle = next_handle();
  auto made = std::make_unique<Receive>(Receive{.handle = handle, .match = match, .buffer = buffer});
  Receive& receive = *made;
  receives_.emplace(handle.value, std::move(made));
  const auto waiting = std::ranges::find_if(inbound_, [&match](const Inbound& inbound) {
    return inbound.unexpected && inbound.receive == nullptr && match.accepts(inbound.peer, inbound.bits);
  });
  if (waiting == inbound_.end()) {
    posted_.push_back(&receive);
    return handle;
  }
  receive.matched = true;
  waiting->receive = &receive;
  if (waiting->whole) {
    deliver(*waiting, receive);
    erase(waiting);
  }
  return handle;
}

Result<Completion> Endpoint::test(Handle handle) {
  if (const auto found = receives_.find(handle.value); found != receives_.end()) {
    if (!found->second->done) {
      return fail(broken_ != 0 ? broken_ : EAGAIN);
    }
    const Completion done = *found->second->done;
    receives_.erase(found);
    return done;
  }
  const auto found = sends_.find(handle.value);
  if (found == sends_.end()) {
    return fail(EINVAL, "no receive or send has this handle: it is done, or was cancelled");
  }
  const Send& send = *found->second;
  if (!send.outcome || send.lent != nullptr) {
    return fail(broken_ != 0 ? broken_ : EAGAIN);
  }
  const Completion done{.error = *send.outcome,
                        .peer = send.peer,
                        .bits = send.bits,
                        .bytes = send.data.size(),
                        .total_bytes = send.data.size()};
  sends_.erase(found);
  return done;
}

Result<Completion> Endpoint::wait(Handle handle, TimePoint deadline) {
  auto done = wait_any(std::span(&handle, 1), deadline);
  return done ? Result<Completion>(done->second) : std::unexpected(std::move(done.error()));
}

Result<std::pair<std::size_t, Completion>> Endpoint::wait_any(std::span<const Handle> handles, TimePoint deadline) {
  for (bool in_time = true;;) {
    const bool moved = progress();
    auto done = test_any(*this, handles);
    if (done || done.error().code != EAGAIN) {
      return done;
    }
    if (moved) {
      continue;
    }
    if (!in_time || stream().waiter() == nullptr) {
      return fail(in_time ? EAGAIN : ETIME);
    }
    in_time = stream().waiter()->wait(deadline);
  }
}

std::optional<Unexpected> Endpoint::probe(const Match& match) const {
  for (const Inbound& inbound : inbound_) {
    if (inbound.unexpected && inbound.receive == nullptr && match.accepts(inbound.peer, inbound.bits)) {
      return Unexpected{
          .peer = inbound.peer, .bits = inbound.bits, .total_bytes = inbound.total_bytes, .whole = inbound.whole};
    }
  }
  return std::nullopt;
}

bool Endpoint::cancel(Handle handle) {
  if (const auto found = receives_.find(handle.value); found != receives_.end()) {
    Receive* const receive = found->second.get();
    if (receive->done) {
      return false;
    }
    if (receive->matched) {
      refuse(*std::ranges::find(inbound_, receive, &Inbound::receive));
    }
    posted_.remove(receive);
    receives_.erase(found);
    return true;
  }
  const auto found = sends_.find(handle.value);
  if (found == sends_.end() || found->second->handed_over || found->second->outcome) {
    return false;
  }
  if (connections_) {
    const bool taken_back = connections_->withdraw(*found->second);
    if (taken_back) {
      sends_.erase(found);
    }
    return taken_back;
  }
  const auto queue = outbound_.find(found->second->peer);
  std::erase(queue->second, found->second.get());
  if (queue->second.empty()) {
    outbound_.erase(queue);
  }
  sends_.erase(found);
  return true;
}

bool Endpoint::progress() {
  if (connections_) {
    return connections_->progress();
  }
  bool moved = false;
  for (std::size_t turn = 0; turn < indications_a_turn_max && take_one(); ++turn) {
    moved = true;
  }
  moved |= tell_untold();
  return hand_over_stalled() || moved;
}

}  // namespace sluice::msg
