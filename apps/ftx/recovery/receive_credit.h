// SPDX-License-Identifier: Apache-2.0
#pragma once

// ReceiveCredit: how much may be in flight so that a receiver that pauses loses nothing. Congestion control asks what
// the network carries; credit asks what the receiver can hold: its program reads when it gets a processor, and until
// then everything waits in a buffer of fixed size, or is lost.
//
// A report says how much that buffer holds (Report::credit_bytes). What is under way in the network itself does not lie
// in it, so the sender may add what the network holds while the receiver keeps up: the rate at which the receiver took
// data times the least round trip, and as much again, so that a sender that starts can double its rate each round trip.
// A receiver that gets slower lowers that rate, and with it what is under way. A rate is measured over a round trip,
// and counts before that is over as soon as it is above the last one: else what came would let more go only in the
// round trip after the next, and a sender would need two to double its rate.
//
//   window = credit + 2 * rate * least round trip
//
// Threat: a receiver that announces what it does not have hurts only its own transfer; congestion control and the bound
// on open sequences limit what it makes the sender send and remember.
//
// Reads no clock. Not thread-safe.

#include <algorithm>
#include <cstdint>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/rate_meter.h"
#include "base/time.h"

namespace sluice::ftx {

class ReceiveCredit {
 public:
  /// Before the first report: a receiver that cannot hold this much is no receiver.
  static constexpr std::uint64_t initial_bytes = 128 * 1024;

  /// `sent_at`: of report.highest. `round_trip`: of this report; zero: not measured.
  void on_report(const Report& report, TimePoint sent_at, Duration round_trip);

  /// Payload bytes that may be in flight beyond the highest sequence that arrived.
  [[nodiscard]] std::uint64_t window_bytes() const;

 private:
  std::uint64_t credit_bytes_ = initial_bytes;
  Duration round_trip_min_ = Duration::max();
  RateMeter meter_;
  // The last two rates: one that a pause of the receiver's processor lowered does not count alone.
  std::uint64_t rate_ = 0;
  std::uint64_t rate_before_ = 0;
};

}  // namespace sluice::ftx
