// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a session has to send now, datagram by datagram.

#include <vector>

#include "apps/ftx/session/endpoint.h"
#include "base/time.h"

namespace sluice::ftx {

/// Calls `take` with each datagram, header and payload in one piece.
template <class Session, class Take>
void transmit_all(Session& session, TimePoint now, Take&& take) {
  Burst burst;
  std::vector<std::byte> whole;
  for (session.transmit(now, burst); !burst.left().empty(); session.transmit(now, burst)) {
    for (const Outgoing& datagram : burst.left()) {
      whole.assign(datagram.front.begin(), datagram.front.end());
      whole.insert(whole.end(), datagram.rest.begin(), datagram.rest.end());
      take(ConstBytes(whole), datagram.to);
    }
  }
}

}  // namespace sluice::ftx
