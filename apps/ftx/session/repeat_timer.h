// SPDX-License-Identifier: Apache-2.0
#pragma once

// RepeatTimer: when to repeat what a peer has not acknowledged: after intervals that double, from twice the round trip
// (interval_min at least) up to interval_max. docs/formats/ftx.md, "What is there already" and "What will change".
//
// Sans-I/O. Not thread-safe.

#include <algorithm>

#include "base/time.h"

namespace sluice::ftx {

class RepeatTimer {
 public:
  static constexpr Duration interval_min = std::chrono::milliseconds(20);
  static constexpr Duration interval_max = std::chrono::seconds(1);

  /// When to repeat; never: nothing that was sent waits.
  [[nodiscard]] TimePoint at() const { return at_; }
  /// True when it is time to begin again with what is not acknowledged; the timer has stopped then.
  [[nodiscard]] bool take_due(TimePoint now) {
    const bool due = now >= at_;
    at_ = due ? never : at_;
    return due;
  }
  /// Something is sent now, the first since the timer began or take_due() answered true.
  void lengthen(Duration round_trip) {
    interval_ = std::clamp(interval_ * 2, std::clamp(round_trip * 2, interval_min, interval_max), interval_max);
  }
  /// Something is sent now.
  void start(TimePoint now) { at_ = now + interval_; }
  /// The peer has acknowledged something. `waiting`: other things that were sent wait.
  void acknowledged(bool waiting) {
    interval_ = {};
    at_ = waiting ? at_ : never;
  }

 private:
  TimePoint at_ = never;
  Duration interval_{};
};

}  // namespace sluice::ftx
