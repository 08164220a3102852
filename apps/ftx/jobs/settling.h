// SPDX-License-Identifier: Apache-2.0
#pragma once

// SettlingCarrier: UDP that carries a session and, beside it, the end of the handshake that it follows: the client's
// last flight until the server has it, and what the server says against it. So a session begins a round trip earlier
// than if it waited for that word.
//
// Borrows all it is given. Not thread-safe.

#include <functional>
#include <utility>

#include "apps/ftx/jobs/carrier.h"
#include "apps/ftx/session/client_handshake.h"

namespace sluice::ftx {

class SettlingCarrier final : public Carrier {
 public:
  /// `answered`: the session's peer has, so the server took the client.
  SettlingCarrier(Host& host, Transport& transport, ClientHandshake& handshake, std::function<bool()> answered)
      : host_(host), below_(host, transport), handshake_(handshake), answered_(std::move(answered)) {}

  void attend(std::function<bool()> turn) override { below_.attend(std::move(turn)); }
  void unattend() override { below_.unattend(); }
  bool receive(DatagramHandler& handler) override;
  bool send(Burst& burst) override { return carry() && below_.send(burst); }
  [[nodiscard]] bool can_send() override { return below_.can_send(); }
  [[nodiscard]] TimePoint next_deadline() const override { return handshake_.next_deadline(); }
  void drain(Duration time) override { below_.drain(time); }

 private:
  /// Sends what the handshake has to say. False: the transport is full.
  bool carry();

  Host& host_;
  UdpCarrier below_;
  ClientHandshake& handshake_;
  std::function<bool()> answered_;
  Burst burst_;
};

}  // namespace sluice::ftx
