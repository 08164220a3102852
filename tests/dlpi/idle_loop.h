// SPDX-License-Identifier: Apache-2.0
#pragma once

// A set of streams in a real loop, whose turns are counted: what happens to an interface costs a program some of them
// and then nothing.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "edge/run_loop.h"
#include "stack/core/stream_set.h"
#include "tests/dlpi/namespace.h"

namespace sluice::dlpi::test {

class IdleLoop {
 protected:
  /// In half a second a loop that spins turns some thousand times. The kernel tells of one event in a few messages,
  /// some of them a second later.
  static constexpr std::size_t turns_when_idle_max = 60;

  void run(Duration time) {
    loop_->run_until([] { return false; }, loop_->now() + time);
  }
  std::size_t turns_in(Duration time) {
    std::size_t turns = 0;
    const TimePoint end = loop_->now() + time;
    while (loop_->now() < end && loop_->wait(end)) {
      ++turns;
    }
    return turns;
  }
  void expect_idle_after(const std::string& commands) {
    run_command(commands);
    run(std::chrono::milliseconds(200));
    EXPECT_LT(turns_in(std::chrono::milliseconds(500)), turns_when_idle_max) << commands;
  }

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_ = std::move(RunLoop::open(set_)).value();
};

}  // namespace sluice::dlpi::test
