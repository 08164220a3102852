// SPDX-License-Identifier: Apache-2.0
#pragma once

// ChangeAnnouncer: a receiver tells its sender what it will change (docs/formats/ftx.md, "What will change"). It puts
// changes into CHANGES datagrams, in their order, and repeats what the sender has not noted (NOTED), after doubling
// intervals.
//
// Threat: a peer that never notes anything. No more than waiting_max changes wait; while there is no room(), the owner
// looks for no more.
//
// Sans-I/O. Not thread-safe. O(1) a change.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/session/repeat_timer.h"

namespace sluice::ftx {

class ChangeAnnouncer {
 public:
  static constexpr std::size_t waiting_max = 2048;

  /// How many changes may be added while none is noted.
  [[nodiscard]] std::size_t room() const { return waiting_max - records_.size(); }
  /// REQUIRES: room() > 0; the path is what change_path() has made.
  void add(const Change& change);

  /// The sender has noted the first `to` changes. False: it cannot have.
  bool on_noted(std::uint64_t to);
  /// The next CHANGES to send now; 0: none. REQUIRES: `out` holds control_bytes_max.
  std::size_t next(TimePoint now, Duration round_trip, const Envelope& envelope, Bytes out);
  [[nodiscard]] TimePoint next_deadline() const { return untold() ? TimePoint::min() : repeat_.at(); }
  [[nodiscard]] bool all_noted() const { return records_.empty(); }

 private:
  [[nodiscard]] bool untold() const { return told_ < records_.size(); }

  std::deque<std::vector<std::byte>> records_;  // not noted yet, as put() writes them
  std::uint64_t noted_ = 0;
  std::size_t told_ = 0;       // of records_, since it began to repeat
  std::size_t told_most_ = 0;  // of records_
  RepeatTimer repeat_;
};

}  // namespace sluice::ftx
