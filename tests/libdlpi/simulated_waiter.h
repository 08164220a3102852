// SPDX-License-Identifier: Apache-2.0
#pragma once

// Waiting in simulated time: the clock jumps to what happens next.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "stack/core/stream_set.h"

namespace sluice::dlpi::handle_test {

class SimulatedWaiter final : public Waiter {
 public:
  explicit SimulatedWaiter(StreamSet& set) : set_(set) {}

  /// Has something happen outside.
  void at(Duration when, std::function<void()> happens) { events_.emplace(TimePoint(when), std::move(happens)); }

  [[nodiscard]] bool wait(TimePoint deadline) override {
    ++waits;
    if (set_.scheduler().poll(now_)) {
      return true;
    }
    const TimePoint event = events_.empty() ? never : events_.begin()->first;
    const TimePoint next = std::min(event, set_.scheduler().next_deadline());
    if (next > deadline || next == never) {
      EXPECT_NE(deadline, never) << "nothing will ever happen again";
      now_ = std::max(now_, std::min(next, deadline));
      return false;
    }
    now_ = std::max(now_, next);
    if (event == next) {
      const std::function<void()> happens = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      happens();
    }
    set_.scheduler().poll(now_);
    return true;
  }
  [[nodiscard]] TimePoint now() override { return now_; }

  int waits = 0;

 private:
  StreamSet& set_;
  TimePoint now_{};
  std::multimap<TimePoint, std::function<void()>> events_;
};

}  // namespace sluice::dlpi::handle_test
