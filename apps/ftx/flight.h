// SPDX-License-Identifier: Apache-2.0
#pragma once

// The sender's memory of what is under way: which ADU each sequence number carried, until a report settles it.
//
// A settled sequence either arrived, and is forgotten, or is lacking: then its ADU is queued for repair, once. The
// repair goes out under a sequence of its own and is lost only when a report settles that one as lacking. So an old,
// repeated or duplicated report never causes a second repair.
//
// Invariants: oldest() is unsettled or equals next(); unsettled() <= next() - oldest().
// Not thread-safe. Amortised O(1) a sequence; no allocation in steady state.

#include <cstdint>
#include <optional>

#include "apps/ftx/message.h"
#include "apps/ftx/ring.h"

namespace sluice::ftx {

class Flight {
 public:
  /// The sequence the next datagram gets.
  [[nodiscard]] std::uint64_t next() const { return oldest_ + entries_.size(); }
  [[nodiscard]] std::uint64_t oldest() const { return oldest_; }
  /// Sequences from oldest() to next(): what the receiver must remember.
  [[nodiscard]] std::uint64_t span() const { return entries_.size(); }

  /// Payload bytes sent after the highest sequence that is known to have arrived: what the network may still hold.
  /// (Forward acknowledgement: Mathis and Mahdavi, "Forward Acknowledgement", SIGCOMM 1996.)
  [[nodiscard]] std::uint64_t in_flight_bytes() const { return sent_bytes_ - passed_bytes_; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }

  /// Enters the datagram that took sequence next(); a probe carries no ADU.
  void enter(const AduName& adu);
  void enter_probe() { enter(AduName{}); }

  struct Settled {
    std::uint64_t arrived = 0;
    std::uint64_t lacking = 0;  // ADUs queued for repair
  };
  /// Null: the report speaks of sequences that were never sent.
  [[nodiscard]] std::optional<Settled> apply(const Report& report);

  [[nodiscard]] bool repair_waiting() const { return !repairs_.empty(); }
  /// REQUIRES: repair_waiting().
  AduName take_repair();

 private:
  struct Entry {
    AduName adu;
    std::uint64_t sent_bytes = 0;  // of all datagrams up to and including this one
    bool settled = false;
  };

  void settle(std::uint64_t first, std::uint64_t last, bool arrived, Settled& settled);
  void forget_settled();

  Ring<Entry> entries_;
  Ring<AduName> repairs_;
  std::uint64_t oldest_ = 1;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t passed_bytes_ = 0;
};

}  // namespace sluice::ftx
