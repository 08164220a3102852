// SPDX-License-Identifier: Apache-2.0
#pragma once

// The datagram handlers of both sides: SenderHandler feeds a Sender, ServerHandler a Server. The run loop sets `now`
// before it calls Transport::receive().
//
// Borrow their session. Not thread-safe.

#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "apps/ftx/transport/datagram_handler.h"

namespace sluice::ftx {

class SenderHandler final : public DatagramHandler {
 public:
  explicit SenderHandler(Sender& sender) : sender_(sender) {}

  void on_datagram(ConstBytes datagram, const Peer& from) override { sender_.receive(now, datagram, from); }
  void on_refused(const Peer& peer) override { sender_.unreachable(now, peer); }
  void on_too_big() override { sender_.too_big(now); }

  TimePoint now{};

 private:
  Sender& sender_;
};

/// Lands payloads that have a place in memory in the transport's pass. The server acts on a datagram only after it has
/// verified.
class ServerHandler final : public DatagramHandler {
 public:
  explicit ServerHandler(Server& server) : server_(server) {}

  [[nodiscard]] bool takes_more() const override { return !server_.answers_wait(); }

  [[nodiscard]] PayloadPlace place(ConstBytes header, std::size_t datagram_bytes, const Peer& from) override {
    const PayloadPlace place = server_.memory_for(header, datagram_bytes, from);
    memory_ = place.memory;
    return place;
  }
  void on_placed(ConstBytes header, std::size_t datagram_bytes, const Peer& from) override {
    server_.placed(now, header, datagram_bytes, from, memory_);
  }
  void on_forged() override { server_.forged(); }
  void on_datagram(ConstBytes datagram, const Peer& from) override { server_.receive(now, datagram, from); }
  void on_run(std::span<const Bytes> datagrams, const Peer& from) override {
    server_.receive_run(now, datagrams, from);
  }
  void on_refused(const Peer& peer) override { server_.unreachable(now, peer); }
  void on_too_big() override { server_.too_big(now); }

  TimePoint now{};

 private:
  Server& server_;
  Bytes memory_;  // what place() named last
};

}  // namespace sluice::ftx
