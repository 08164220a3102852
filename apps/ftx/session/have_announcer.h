// SPDX-License-Identifier: Apache-2.0
#pragma once

// HaveAnnouncer: a receiver tells its sender what it has already (docs/formats/ftx.md, "What is there already"). It
// takes ranges of the contents in ascending order, makes HAVE datagrams of them, and repeats what the sender has not
// acknowledged (TAKEN), after doubling intervals. Where nothing is there it sends nothing.
//
// HAVE only saves work: one that is lost costs what it would have saved, and the sender may ignore any.
//
// Threat: a peer that never acknowledges. No more than waiting_max ranges wait; while there is no room(), the owner
// looks for no more.
//
// Sans-I/O. Not thread-safe. O(1) a range.

#include <optional>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/ring.h"
#include "apps/ftx/session/repeat_timer.h"

namespace sluice::ftx {

class HaveAnnouncer {
 public:
  static constexpr std::size_t waiting_max = 1024;

  /// How many ranges may be added while none is acknowledged.
  [[nodiscard]] std::size_t room() const { return waiting_max - ranges_.size(); }
  /// `range` is there; what lies between the last one and it is not. REQUIRES: room() > 0; range is not empty and
  /// begins where the last one ended or behind.
  void add(const ByteRange& range);

  /// The sender has taken all up to `to`. False: it cannot have.
  bool on_taken(std::uint64_t to);
  /// The next HAVE to send now.
  [[nodiscard]] std::optional<Have> next(TimePoint now, Duration round_trip);
  [[nodiscard]] TimePoint next_deadline() const { return untold() ? TimePoint::min() : repeat_.at(); }
  /// Everything that was added is taken.
  [[nodiscard]] bool all_taken() const { return ranges_.empty(); }

 private:
  [[nodiscard]] bool untold() const { return told_ranges_ < ranges_.size(); }

  Ring<ByteRange> ranges_;       // not taken yet
  std::size_t told_ranges_ = 0;  // of ranges_, since it began to repeat
  // Places.
  std::uint64_t end_ = 0;  // of what was added
  std::uint64_t taken_ = 0;
  std::uint64_t told_ = 0;  // since it began to repeat
  std::uint64_t told_most_ = 0;
  RepeatTimer repeat_;
};

}  // namespace sluice::ftx
