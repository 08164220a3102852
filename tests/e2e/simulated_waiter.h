// SPDX-License-Identifier: Apache-2.0
#pragma once

// Time that passes when somebody waits, for whole stacks in one program.

#include <algorithm>
#include <chrono>

#include "stack/core/stream_set.h"

namespace sluice {

/// Waits by moving the clock to what is due next.
class SimulatedWaiter final : public Waiter {
 public:
  explicit SimulatedWaiter(StreamSet& set) : set_(set) {}
  bool wait(TimePoint deadline) override {
    now_ = std::max(now_, std::min(deadline, set_.scheduler().next_deadline()));
    return set_.scheduler().poll(now_);
  }
  TimePoint now() override { return now_; }

 private:
  StreamSet& set_;
  TimePoint now_{std::chrono::seconds(1)};
};

}  // namespace sluice
