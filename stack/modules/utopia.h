// SPDX-License-Identifier: Apache-2.0
#pragma once

// utopia - messages of any length, without recovery
//
// The packets of `rmpp` (docs/formats/rmpp.md) as they would do on a network that loses nothing: what reliability costs
// is the difference between the two. A message that fits a packet is that packet. A longer one is granted packets by
// the receiver, at most 16 at a time, and over when the last has left: nobody says that it came. What is lost stays
// lost, and with it its message: the receiver hears `lost` when the next message of that node begins, or after the dead
// time.
//
// Accepts and produces
//   As rmpp, but `sent` means that the last packet has left, and `failed` (ETIMEDOUT) that no grant came within the
//   dead time. On a fused path the last packets of a message, those of its last grant, are verified before they go up,
//   since the next message may follow them at once.
//
// Parameters
//   packet_bytes    payload of a packet; 1400 if absent
//   grant_packets   packets granted at once, at most 16; 16 if absent
//   buffers         packets granted to all nodes together; 1024 if absent
//   peers           nodes known at once; 1024 if absent
//   messages        messages that wait to be sent; 1024 if absent
//   message_bytes   longest message either way; 1 GiB if absent
//   dead_ms         after so much silence a node's state is forgotten; 120000 if absent
//
// Counters
//   As rmpp.
//
// Flow control
//   As rmpp; a message that comes while the queue above is full is lost.
//
// Example
//   driver = { kind = "kernel_udp" }
//   push   = ["utopia", "timod"]
//
// Threads: as its stream set's.

#include "stack/core/registry.h"

namespace sluice {

[[nodiscard]] Entry utopia_entry();

}  // namespace sluice
