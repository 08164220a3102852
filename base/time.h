// SPDX-License-Identifier: Apache-2.0
#pragma once

// Time comes from outside. MonotonicClock has no now(): a program's edge reads a real clock and hands TimePoints in;
// a simulation makes them up.

#include <chrono>

namespace sluice {

using Duration = std::chrono::nanoseconds;

struct MonotonicClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};

using TimePoint = MonotonicClock::time_point;

/// "No deadline."
inline constexpr TimePoint never = TimePoint::max();

}  // namespace sluice
