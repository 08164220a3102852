// SPDX-License-Identifier: Apache-2.0
#pragma once

// The sessions of the two sides as takers of what a transport receives. Whoever drives them sets `now` first.
//
// Borrow their session. Not thread-safe.

#include "apps/ftx/sender.h"
#include "apps/ftx/server.h"
#include "apps/ftx/transport.h"

namespace sluice::ftx {

class ToSender final : public Transport::Taker {
 public:
  explicit ToSender(Sender& sender) : sender_(sender) {}

  void take(ConstBytes datagram, const Peer&) override { sender_.receive(now, datagram); }
  void refused(const Peer&) override { sender_.unreachable(now); }

  TimePoint now{};

 private:
  Sender& sender_;
};

/// Payloads that have a place in memory get there in the transport's pass; the server hears of them when they have
/// proved right.
class ToServer final : public Transport::Taker {
 public:
  explicit ToServer(Server& server) : server_(server) {}

  [[nodiscard]] Bytes place(ConstBytes header, std::size_t datagram_bytes, const Peer& from) override {
    memory_ = server_.memory_for(header, datagram_bytes, from);
    return memory_;
  }
  void placed(ConstBytes header, std::size_t datagram_bytes, const Peer& from) override {
    server_.placed(now, header, datagram_bytes, from, memory_);
  }
  void take(ConstBytes datagram, const Peer& from) override { server_.receive(now, datagram, from); }
  void refused(const Peer&) override {}

  TimePoint now{};

 private:
  Server& server_;
  Bytes memory_;  // named last
};

}  // namespace sluice::ftx
