// SPDX-License-Identifier: Apache-2.0
#pragma once

// Traffic: a session on a transport, what all jobs do alike. What arrives is received in the loop; the job sends.
//
// Borrows host, transport and session. Not thread-safe.

#include <optional>

#include "apps/ftx/cli/host.h"
#include "apps/ftx/session/event.h"
#include "apps/ftx/transport/transport.h"

namespace sluice::ftx {

/// `Handler` is the session's datagram handler (apps/ftx/transport/session_handlers.h).
template <class Session, class Handler>
class Traffic {
 public:
  Traffic(Host& host, Transport& transport, Session& session)
      : host_(host), transport_(transport), session_(session), handler_(session) {
    host_.loop().attend(transport_.stream(), [this] {
      handler_.now = host_.loop().now();
      return transport_.receive(handler_);
    });
  }

  ~Traffic() { end(); }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// The loop receives no more.
  void end() { host_.loop().unattend(transport_.stream()); }

  /// Sends as much as may go before the program receives again; answers when to send again.
  TimePoint send(TimePoint now) {
    for (std::size_t sent = 0; sent < burst_max; sent += burst_.left().size()) {
      if (!transport_.send(burst_) || !transport_.can_send()) {
        return now + full_wait_max;
      }
      session_.transmit(now, burst_);
      if (burst_.left().empty()) {
        return session_.next_deadline();
      }
    }
    return transport_.send(burst_) ? now : now + full_wait_max;
  }

  /// The session's next event.
  std::optional<Event> next_event() {
    auto event = session_.next_event();
    if (event) {
      event->loaded_bytes = host_.touches().loaded_bytes;
      event->stored_bytes = host_.touches().stored_bytes;
    }
    return event;
  }

 private:
  /// How long to wait when the transport is full. The wait ends earlier when the transport has room again.
  static constexpr Duration full_wait_max = std::chrono::milliseconds(100);
  /// Datagrams sent before the program receives again.
  static constexpr std::size_t burst_max = 64;

  Host& host_;
  Transport& transport_;
  Session& session_;
  Handler handler_;
  Burst burst_;  // what a full transport has not taken is sent first
};

}  // namespace sluice::ftx
