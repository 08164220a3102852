// SPDX-License-Identifier: Apache-2.0
#pragma once

// DatagramHandler: what a Transport does with each datagram that it receives.
//
// A payload may land in one pass. Transport shows the handler the header first; the handler names memory for the
// payload; Transport then copies, verifies and, where it is sealed, opens it in that pass and calls on_placed(). A
// datagram without a place goes to on_datagram() whole. Datagrams that came together and owe nothing are shown where
// they lie: on_run().

#include <span>

#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/payload_place.h"
#include "base/bytes.h"

namespace sluice::ftx {

class DatagramHandler {
 public:
  virtual ~DatagramHandler() = default;
  /// False: what it has to answer is to be sent before it takes more.
  [[nodiscard]] virtual bool takes_more() const { return true; }
  /// The memory for the payload behind `header`, exactly as long as the payload, and what opens it; empty: none.
  /// Nothing has verified the datagram yet, so the handler must not act on it.
  [[nodiscard]] virtual PayloadPlace place(ConstBytes header, std::size_t datagram_bytes, const Peer& from) {
    static_cast<void>(header), static_cast<void>(datagram_bytes), static_cast<void>(from);
    return {};
  }
  /// The datagram verified, and its payload is in the memory that place() named last.
  virtual void on_placed(ConstBytes header, std::size_t datagram_bytes, const Peer& from) {
    static_cast<void>(header), static_cast<void>(datagram_bytes), static_cast<void>(from);
  }
  /// The datagram verified, but what place() said would open its payload did not: it was forged.
  virtual void on_forged() {}
  /// A whole, verified datagram.
  virtual void on_datagram(ConstBytes datagram, const Peer& from) = 0;
  /// Whole, verified datagrams from one sender, which may be changed until the call returns.
  virtual void on_run(std::span<const Bytes> datagrams, const Peer& from) {
    for (const Bytes datagram : datagrams) {
      on_datagram(datagram, from);
    }
  }
  /// The host of `peer` reports that nobody listens there.
  virtual void on_refused(const Peer& peer) = 0;
  /// A datagram was larger than the interface takes, or an ICMP message says so of the path.
  virtual void on_too_big() {}
};

}  // namespace sluice::ftx
