// SPDX-License-Identifier: Apache-2.0
#pragma once

// Time that only passes when somebody waits.

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "stack/core/stream_set.h"

namespace sluice::test {

/// Waits in simulated time: it jumps to the next deadline and runs what is due. A wait that nothing can end gives up.
class SimulatedWaiter : public Waiter {
 public:
  explicit SimulatedWaiter(StreamSet& set) : set_(set) {}

  void after(Duration delay, std::function<void()> event) {
    events_.push_back(std::make_unique<Timer>(set_.scheduler(), std::move(event)));
    events_.back()->arm(now_ + delay);
  }
  bool wait(TimePoint deadline) override {
    ++waits;
    const TimePoint next = set_.scheduler().next_deadline();
    const bool in_time = next <= deadline && next != never;
    now_ = in_time ? std::max(now_, next) : (deadline == never ? now_ : deadline);
    set_.scheduler().poll(now_);
    return in_time;
  }
  TimePoint now() override { return now_; }

  int waits = 0;

 private:
  StreamSet& set_;
  TimePoint now_{};
  std::vector<std::unique_ptr<Timer>> events_;
};

}  // namespace sluice::test
