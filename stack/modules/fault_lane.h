// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a bad link does to the messages of one direction: decides their fate, and holds those that are on their way,
// each with its time of departure. fault.h says what each setting means.
//
// The link is virtual: `link_free_at` is when it will have sent everything it was given, so what waits for it is
// (link_free_at - now) * rate, and no queue of its own is needed. A message's departure is that time plus its travel.
//
//       arrivals ──► loss ─► duplicate ─► bit errors ─► link ──┬─► on time ──┐
//                                                              └─► late ─────┴──► departures, earliest first
//
// Departure times in each of the two lines never decrease (jitter does not overtake, and every late message is late by
// the same time), so both are first in, first out.
//
// Ownership: a lane owns the messages in it. Threads: as its module's.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "stack/core/counter.h"
#include "stack/core/message.h"

namespace sluice {

struct FaultSettings {
  double loss = 0;  // probabilities in [0, 1]
  std::optional<double> burst_messages = {};
  double duplicate = 0;
  double bit_errors = 0;
  std::uint64_t error_messages = 1;
  double reorder = 0;
  Duration reorder_delay = std::chrono::milliseconds(1);
  Duration delay{};
  Duration jitter{};
  Duration slot{};                         // departures are multiples of it; 0: each at its own time
  std::uint64_t rate_bits_per_second = 0;  // 0: unlimited
  std::size_t queue_bytes = 262144;
  std::size_t overhead_bytes = 0;
  std::size_t in_flight_bytes_max = std::size_t{64} << 20;
};

/// The names of a direction's counters.
struct LaneNames {
  std::string_view in, lost, duplicated, corrupted, queue_dropped, no_memory, flushed, reordered, out;
};

/// Messages in the order of their departure: a ring that grows to what is needed and stays.
class DepartureLine {
 public:
  struct Entry {
    Message message;
    TimePoint departure{};
    std::uint64_t sequence = 0;
    std::size_t memory_bytes = 0;
  };

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  /// REQUIRES: not empty.
  [[nodiscard]] const Entry& front() const { return ring_[first_]; }
  void push(Entry entry);
  /// REQUIRES: not empty.
  [[nodiscard]] Entry pop();

 private:
  std::vector<Entry> ring_;  // its size is zero or a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

class FaultLane {
 public:
  FaultLane(Module& module, const FaultSettings& settings, std::uint64_t seed, const LaneNames& names);

  /// Takes a message with data and lets it meet its fate.
  void arrive(Message message, TimePoint now);
  /// When the next message departs; `never` when none is on its way.
  [[nodiscard]] TimePoint next_departure() const;
  /// Up to `count_max` messages whose departure is not after `now`, earliest first.
  [[nodiscard]] Batch depart(TimePoint now, std::size_t count_max);
  /// Discards what is on its way: all of it, or one band only.
  void flush(std::optional<std::uint8_t> band);

 private:
  [[nodiscard]] bool loses();
  [[nodiscard]] bool corrupt(Message& message);
  [[nodiscard]] std::uint64_t bits_to_next_error();
  [[nodiscard]] bool link_accepts(std::size_t link_bytes, TimePoint now) const;
  void use_link(std::size_t link_bytes, TimePoint now);
  void send(Message message, TimePoint now);
  void travel(Message message, TimePoint now, std::size_t memory_bytes);
  [[nodiscard]] TimePoint in_slot(TimePoint departure) const;
  [[nodiscard]] Message take_next();
  [[nodiscard]] DepartureLine& next_line();
  void flush_line(DepartureLine& line, std::optional<std::uint8_t> band);

  const FaultSettings settings_;
  Prng prng_;
  bool in_burst_ = false;
  std::uint64_t bits_until_error_ = 0;
  std::uint64_t damaged_left_ = 0;  // messages that the last error damages, too
  TimePoint link_free_at_{};
  std::uint64_t link_remainder_ = 0;  // of link_free_at_, in 1/rate ns
  TimePoint last_on_time_{};
  std::uint64_t arrived_ = 0;
  std::uint64_t latest_departed_ = 0;
  std::size_t in_flight_bytes_ = 0;
  DepartureLine on_time_;
  DepartureLine late_;

  Counter in_, lost_, duplicated_, corrupted_, queue_dropped_, no_memory_, flushed_, reordered_, out_;
};

}  // namespace sluice
