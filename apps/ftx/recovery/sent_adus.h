// SPDX-License-Identifier: Apache-2.0
#pragma once

// SentAdus: the sender's record of which ADU each sequence number carried, until a report acknowledges the sequence or
// declares it lost.
//
// A lost sequence puts its ADU into the retransmit queue, once. The retransmission gets a sequence of its own, so only
// a report that declares that new sequence lost causes another one. An old, repeated or duplicated report therefore
// never causes a second retransmission.
//
// Invariants: oldest() is unresolved or equals next().
// Not thread-safe. Amortised O(1) a sequence; no allocation in steady state.

#include <cstdint>
#include <optional>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/retransmit_queue.h"
#include "apps/ftx/recovery/ring.h"

namespace sluice::ftx {

class SentAdus {
 public:
  /// The sequence of the next datagram.
  [[nodiscard]] std::uint64_t next() const { return oldest_ + entries_.size(); }
  /// The oldest sequence that no report has resolved.
  [[nodiscard]] std::uint64_t oldest() const { return oldest_; }
  /// Sequences from oldest() to next(): what the receiver must remember.
  [[nodiscard]] std::uint64_t span() const { return entries_.size(); }

  /// Payload bytes sent after the highest sequence that is known to have arrived: what the network may still hold.
  /// (Forward acknowledgement: Mathis and Mahdavi, "Forward Acknowledgement", SIGCOMM 1996.)
  [[nodiscard]] std::uint64_t in_flight_bytes() const { return sent_bytes_ - passed_bytes_; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }

  /// Records the datagram with sequence next().
  void on_sent(const AduName& adu);
  /// A probe has a sequence but no ADU.
  void on_probe_sent() { on_sent(AduName{}); }

  /// What a report resolved.
  struct Resolved {
    std::uint64_t arrived = 0;
    std::uint64_t arrived_bytes = 0;  // payload; a probe has none
    std::uint64_t lost = 0;           // ADUs that went into the retransmit queue
  };
  /// Null: the report names sequences that were never sent.
  [[nodiscard]] std::optional<Resolved> on_report(const Report& report);

  [[nodiscard]] RetransmitQueue& retransmit_queue() { return retransmit_queue_; }
  [[nodiscard]] const RetransmitQueue& retransmit_queue() const { return retransmit_queue_; }

 private:
  struct Entry {
    AduName adu;
    std::uint64_t sent_bytes = 0;  // of all datagrams up to and including this one
    bool resolved = false;
  };

  void resolve(std::uint64_t first, std::uint64_t last, bool arrived, Resolved& resolved);
  void forget_resolved();

  Ring<Entry> entries_;
  RetransmitQueue retransmit_queue_;
  std::uint64_t oldest_ = 1;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t passed_bytes_ = 0;
};

}  // namespace sluice::ftx
