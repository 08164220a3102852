// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/settling.h"

namespace sluice::ftx {
namespace {

/// Gives the handshake what is its own, and the session all else.
class Sorter final : public DatagramHandler {
 public:
  Sorter(DatagramHandler& session, ClientHandshake& handshake, TimePoint now)
      : session_(session), handshake_(handshake), now_(now) {}

  [[nodiscard]] PayloadPlace place(ConstBytes header, std::size_t datagram_bytes, const Peer& from) override {
    return session_.place(header, datagram_bytes, from);
  }
  void on_placed(ConstBytes header, std::size_t datagram_bytes, const Peer& from) override {
    session_.on_placed(header, datagram_bytes, from);
  }
  void on_forged() override { session_.on_forged(); }
  void on_datagram(ConstBytes datagram, const Peer& from) override {
    const auto envelope = parse_envelope(datagram);
    if (envelope && handshake_.owns(*envelope)) {
      handshake_.receive(now_, datagram, from);
    } else {
      session_.on_datagram(datagram, from);
    }
  }
  void on_refused(const Peer& peer) override { session_.on_refused(peer); }
  void on_too_big() override { session_.on_too_big(); }

 private:
  DatagramHandler& session_;
  ClientHandshake& handshake_;
  TimePoint now_;
};

}  // namespace

bool SettlingCarrier::receive(DatagramHandler& handler) {
  if (handshake_.settled()) {
    return below_.receive(handler);
  }
  Sorter sorter(handler, handshake_, host_.loop().now());
  return below_.receive(sorter);
}

bool SettlingCarrier::carry() {
  if (handshake_.settled()) {
    return true;
  }
  if (answered_()) {
    handshake_.settle();
    return true;
  }
  const TimePoint now = host_.loop().now();
  while (below_.send(burst_)) {
    handshake_.transmit(now, burst_);
    if (burst_.left().empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace sluice::ftx
