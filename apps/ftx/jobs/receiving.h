// SPDX-License-Identifier: Apache-2.0
#pragma once

// Receiving: runs a server until it is interrupted or, with `once`, until its first transfer is over.
//
// Borrows everything. Not thread-safe.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/jobs/traffic.h"
#include "apps/ftx/session/server.h"
#include "apps/ftx/transport/session_handlers.h"

namespace sluice::ftx {

class Receiving {
 public:
  Receiving(Host& host, std::unique_ptr<Carrier> carrier, Server& server, Observer& observer, bool once)
      : host_(host),
        carrier_(std::move(carrier)),
        server_(server),
        traffic_(host, *carrier_, server),
        observer_(observer),
        once_(once) {}
  Receiving(Host& host, Transport& transport, Server& server, Observer& observer, bool once)
      : Receiving(host, std::make_unique<UdpCarrier>(host, transport), server, observer, once) {}

  /// Asked each turn: why the transfer cannot go on. With an outcome it is only the end.
  std::function<std::optional<Failure>()> lost = [] { return std::optional<Failure>(); };

  /// What it means that nobody answers; without it the session's own words.
  std::optional<Failure> unanswered{};

  /// As Sending has it.
  std::function<bool()> left{};

  /// How long `once` stays to answer a sender that missed the last report.
  Duration linger = std::chrono::seconds(3);
  /// What events are shown for; empty: the path that the sender offered.
  std::string shown_path{};

  ExitCode run();

 private:
  [[nodiscard]] bool ended() const;
  void stop(const std::optional<Failure>& failure);
  void show_events();

  Host& host_;
  std::unique_ptr<Carrier> carrier_;  // before what borrows it
  Server& server_;
  Traffic<Server, ServerHandler> traffic_;
  Observer& observer_;
  bool once_;
  TimePoint ends_at_ = never;  // set by the first outcome
  ExitCode outcome_ = ExitCode::ok;
  TimePoint now_{};
};

}  // namespace sluice::ftx
