// SPDX-License-Identifier: Apache-2.0
// What both directions of messages over connections have in common. connections_incoming.cc: the connections that
// others have made; connections_outgoing.cc: those that this endpoint makes.
#include "msg/connections.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "msg/failure.h"

namespace sluice::msg {

using enum wire::tpi::TliError;

/// A stream like the endpoint's own, for one connection.
Result<std::unique_ptr<tli::Endpoint>> Endpoint::Connections::open_another() {
  auto stream = endpoint_.options_.another_stream();
  if (!stream) {
    return std::unexpected(std::move(stream.error()));
  }
  (*stream)->set_waiter(endpoint_.stream().waiter());
  auto opened = tli::Endpoint::t_open(std::move(*stream), nullptr);
  if (!opened) {
    return failed_in("t_open", opened.error());
  }
  (*opened)->stream().set_nonblocking(true);
  return std::move(*opened);
}

/// Whether what failed is to be tried again: the provider is busy, an event comes first, or the pool is exhausted, for
/// which no connection ends. "TSYSERR with ENOSR" leaves everything as it was.
bool Endpoint::Connections::passes(const tli::Failure& failure) {
  if (failure.t_errno == TSYSERR && failure.system_errno == ENOSR) {
    memory_awaited_.arm_after(memory_retry);
    return true;
  }
  return failure.t_errno == TFLOW || failure.t_errno == TLOOK || failure.t_errno == TNODATA;
}

/// At the endpoint's address, and any port.
tli::Outcome<void> Endpoint::Connections::bind_any(tli::Endpoint& stream) {
  std::array<std::byte, Peer::encoded_size_max> here;
  const tli::t_bind bind{
      .addr = {.maxlen = 0, .len = Peer{endpoint_.address_.address, 0}.encode(here), .buf = here.data()}, .qlen = 0};
  return stream.t_bind(&bind, nullptr);
}

Endpoint::Connections::~Connections() {
  farewell();
  for (Incoming& incoming : incoming_) {
    if (incoming.now) {
      end(incoming);
    }
  }
}

/// What has been answered must arrive, and what comes back be read: a connection that is closed earlier is reset, and
/// takes with it what its other end has not read.
void Endpoint::Connections::farewell() {
  Waiter* const waiter = endpoint_.stream().waiter();
  for (auto& [to, outgoing] : outgoing_) {
    if (outgoing.open && outgoing.waiting.empty() && outgoing.left.empty()) {
      static_cast<void>(outgoing.tli->t_sndrel());
    }
  }
  const auto speaks = [](const Incoming& incoming) {
    return incoming.tli->t_getstate() == tli::T_DATAXFER && incoming.number > 0 && !incoming.now;
  };
  for (Incoming& incoming : incoming_) {
    if (speaks(incoming) && incoming.answers.empty()) {
      static_cast<void>(incoming.tli->t_sndrel());
    }
  }
  if (waiter == nullptr) {
    return;
  }
  const TimePoint end_time = waiter->now() + farewell_time;
  const auto waits = [this] {
    return std::ranges::any_of(incoming_, [](Incoming& incoming) {
      const auto event = incoming.tli->t_look();
      if (event && *event == tli::T_ORDREL) {
        static_cast<void>(incoming.tli->t_rcvrel());
      }
      return incoming.tli->t_getstate() == tli::T_OUTREL && event && *event != tli::T_DISCONNECT;
    });
  };
  while (waits() && waiter->now() < end_time && waiter->wait(end_time)) {
  }
}

bool Endpoint::Connections::progress() {
  bool moved = accept();
  for (auto at = incoming_.begin(); at != incoming_.end();) {
    if (std::exchange(at->expired, false)) {
      malformed(*at);
    }
    moved |= !at->ended && read(*at);
    moved |= !at->ended && write_answers(*at);
    at = at->ended ? incoming_.erase(at) : std::next(at);
  }
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    moved |= advance(at->second);
    at = at->second.ended != 0 ? outgoing_.erase(at) : std::next(at);
  }
  return moved;
}

}  // namespace sluice::msg
