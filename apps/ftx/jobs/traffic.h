// SPDX-License-Identifier: Apache-2.0
#pragma once

// Traffic: a session on its carrier, what all jobs do alike. What arrives is received in the loop; the job sends.
//
// Borrows host, carrier and session. Not thread-safe.

#include <algorithm>
#include <optional>

#include "apps/ftx/jobs/carrier.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/reach.h"
#include "apps/ftx/session/event.h"

namespace sluice::ftx {

/// `Handler` is the session's datagram handler (apps/ftx/transport/session_handlers.h).
template <class Session, class Handler>
class Traffic {
 public:
  Traffic(Host& host, Carrier& carrier, Session& session)
      : host_(host), carrier_(carrier), session_(session), handler_(session) {
    carrier_.attend([this] {
      handler_.now = host_.loop().now();
      return carrier_.receive(handler_);
    });
  }

  ~Traffic() { end(); }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// The loop receives no more.
  void end() { carrier_.unattend(); }

  /// Sends as much as may go before the program receives again; answers when to send again.
  TimePoint send(TimePoint now) {
    for (std::size_t sent = 0; sent < burst_max; sent += burst_.left().size()) {
      if (!carrier_.send(burst_) || !carrier_.can_send()) {
        return now + full_wait_max;
      }
      session_.transmit(now, burst_);
      if (burst_.left().empty()) {
        return std::min(session_.next_deadline(), carrier_.next_deadline());
      }
    }
    return carrier_.send(burst_) ? now : now + full_wait_max;
  }

  /// The session's next event.
  std::optional<Event> next_event() {
    auto event = session_.next_event();
    if (event) {
      event->loaded_bytes = host_.touches().loaded_bytes + session_.cipher_bytes();
      event->stored_bytes = host_.touches().stored_bytes + session_.cipher_bytes();
      event->address = text_of(event->peer);
    }
    return event;
  }

 private:
  /// How long to wait when the carrier is full. The wait ends earlier when it has room again.
  static constexpr Duration full_wait_max = std::chrono::milliseconds(100);
  /// Datagrams sent before the program receives again.
  static constexpr std::size_t burst_max = 64;

  Host& host_;
  Carrier& carrier_;
  Session& session_;
  Handler handler_;
  Burst burst_;  // what a full carrier has not taken is sent first
};

}  // namespace sluice::ftx
