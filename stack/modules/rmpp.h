// SPDX-License-Identifier: Apache-2.0
#pragma once

// rmpp - messages of any length, delivered whole, once and in order
//
// After the Reliable Message Passing Protocol of Riesen and Maccabe (Cplant): simple, end-to-end flow control, and no
// congestion control, for networks that lose next to nothing. A message begins with a request to send that carries its
// first packet. One that fits ends there: message end from the receiver, discard state from the sender, three packets.
// For a longer one the receiver grants up to 16 packets at a time (clear to send) until all has come. What follows a
// gap is ignored; when nothing comes in time, the message begins again. docs/formats/rmpp.md has the packets, and
// tools/wireshark/sluice.lua (installed in share/sluice/wireshark) shows them in Wireshark.
//
// Accepts and produces
//   Down: a T_UNITDATA_REQ is a message for its address; its data is 16 bytes of matching bits and a handle
//   (wire::message::Request, stack/wire/rmpp.h), then the message. One that cannot be taken is answered with
//   T_UDERROR_IND: EINVAL (no such 16 bytes), EMSGSIZE (longer than message_bytes), ENOBUFS (too many messages or
//   nodes, no memory). Below that, a T_UNITDATA_REQ a packet. The data stays where it is until the receiver has it:
//   what the user lends for the call is copied once, external memory is shown by reference, and its release says the
//   same as `sent`.
//
//   Up: a T_UNITDATA_IND has 48 bytes in front (wire::message::Indication): of which message of which process, what of
//   it. `payload` is one packet's bytes and their offset, so that they can be landed in their place as they are
//   (t_lookudata, t_landudata); it may be repeated, and means nothing before `received`, which comes once a message, in
//   the order in which the sender sent. `lost` ends a message that will not be whole. `sent` and `failed` are about the
//   user's own: failed with ETIMEDOUT or ECONNRESET means that it may not have arrived, with EXFULL that the receiver's
//   user refused it. On a fused path a packet is
//   verified by the user's read, so grants wait for that, and a reader slower than timeout_ms makes the sender repeat.
//
//   Down, in M_CTL: a wire::message::Decision. A user who has said `decides` says of each message, when its first
//   payload is there, whether it accepts or refuses it. Until then nothing more is granted, and the sender is not told
//   that it has come. What is refused ends with `lost` (EXFULL) here, and as `failed` at the sender's. Without
//   `decides` every message is accepted, and `refuses` comes too late where all has come.
//
//   T_INFO_ACK, and the same in T_CAPABILITY_ACK: TSDU_size becomes that of the longest message with its 16 bytes, or
//   T_INVALID where the provider's is too small for a packet. Everything else passes unchanged.
//
// Parameters
//   recovery        "message": after a loss the whole message again; "selective" (our own form): only what lacks;
//                   "message" if absent
//   packet_bytes    payload of a packet; 1400 if absent
//   grant_packets   packets granted at once, at most 16; 16 if absent
//   buffers         packets granted to all nodes together; 1024 if absent. Whoever asks beyond waits for his turn
//   peers           nodes known at once; 1024 if absent
//   messages        messages that wait to be sent; 1024 if absent
//   message_bytes   longest message either way; 1 GiB if absent
//   timeout_ms      when nothing has come after so long the request is sent again; 20 if absent, doubled each time
//   attempts        how often, before the message fails; 16 if absent
//   dead_ms         after so much silence a node's state is forgotten; 120000 if absent
//
// Counters
//   packets_out, packets_in, repeated             packets, and requests sent again
//   messages_sent, messages_received, messages_failed, messages_lost, messages_refused
//   short_header, bad_version, bad_checksum, bad_copy, bad_type, bad_flags, bad_length, bad_total, bad_index, bad_grant
//                                                 packets dropped, since their header is malformed
//   out_of_order, stale, contradictions, stray, bad_grants, strangers, peers_refused, head_full, too_long
//                                                 packets dropped, since they do not fit what is known
//   requests_refused, provider_errors, no_memory, collected
//
// Flow control
//   Down: packets go while can_put_next() allows, and the write service procedure goes on. Messages wait here, up to
//   `messages`. Up: grants follow the reader. While the queue above is full nothing is granted and no new message is
//   taken; the sender asks again.
//
// Threats
//   Packets come from anybody who can reach the port; nothing here authenticates a peer. A stranger can make one entry
//   an address (bounded by `peers`) and one message on its way in each, of which nothing is kept but counters and a
//   window of 16 bits. Processes are told apart by a number drawn at random; the last four of a node are remembered, so
//   that their packets, delayed or replayed, are stale. A message is delivered at most once to one process: when the
//   first message that a node sends to a process is repeated while that restarts, the new process may get it, too.
//
// Example
//   driver = { kind = "kernel_udp" }
//   push   = ["rmpp", "timod"]
//   rmpp   = { packet_bytes = 8192 }
//
// Why so. Alternatives: (1) modules that assemble messages and deliver them whole would need memory for what nobody has
// asked for, and another copy; (2) a primitive of its own for payloads would be unknown to timod, capture and TLI,
// whereas data with a header in front is what t_lookudata() is for; (3) several messages at a time between two nodes
// would hide a round trip, and need numbers to be put in order again at the other end: left out, as in the faithful
// form order comes from sending one after the other.
//
// Threads: as its stream set's.

#include "stack/core/registry.h"

namespace sluice {

[[nodiscard]] Entry rmpp_entry();

}  // namespace sluice
