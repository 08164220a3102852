// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which message belongs to which receive. A message carries 64 matching bits that its sender chose; a receive names
// the bits that it is for, those of them that it does not look at, and perhaps the sender. The rules are those of
// Portals and MPI: a message goes to the first posted receive that accepts it; a receive that is posted late takes
// the first unexpected message that it accepts; messages of one sender are considered in the order in which they were
// sent. So two messages that the same receives accept never overtake each other.
//
// Plain values; thread-safe as such.

#include <cstdint>
#include <optional>

#include "stack/wire/address.h"

namespace sluice::msg {

/// A process that sends and receives messages: the address that its endpoint is bound to.
using Peer = wire::TransportAddress;

struct Match {
  std::uint64_t bits = 0;
  std::uint64_t ignore = 0;       ///< bits that are not compared; ~0 accepts any message
  std::optional<Peer> from = {};  ///< nothing: any sender

  [[nodiscard]] bool accepts(const Peer& sender, std::uint64_t message_bits) const {
    return ((message_bits ^ bits) & ~ignore) == 0 && (!from || *from == sender);
  }
};

}  // namespace sluice::msg
