// SPDX-License-Identifier: Apache-2.0
#include "progress/bounded_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <thread>

namespace sluice::msg {
namespace {

TimePoint in(std::chrono::milliseconds time) {
  return TimePoint(std::chrono::duration_cast<Duration>((std::chrono::steady_clock::now() + time).time_since_epoch()));
}

TEST(BoundedQueue, TellsWhetherItWasEmptyAndKeepsTheOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.push(1));
  EXPECT_FALSE(queue.push(2));
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.take_all(), (std::deque<int>{1, 2}));
  EXPECT_TRUE(queue.push(3));
  EXPECT_EQ(queue.wait_and_take(never), (std::deque<int>{3}));
  EXPECT_TRUE(queue.take_all().empty());
}

TEST(BoundedQueue, WhoTakesWaitsUntilTheDeadline) {
  BoundedQueue<int> queue(1);
  const TimePoint deadline = in(std::chrono::milliseconds(30));
  EXPECT_TRUE(queue.wait_and_take(deadline).empty());
  EXPECT_GE(in(std::chrono::milliseconds(0)), deadline);
}

// A queue of two between threads: who puts has to wait for room, who takes for an item, and nothing is lost, doubled or
// out of order.
TEST(BoundedQueue, EverythingArrivesInOrderThroughAQueueThatIsFullMostOfTheTime) {
  constexpr int count = 20'000;
  BoundedQueue<std::unique_ptr<int>> queue(2);
  std::thread puts([&queue] {
    for (int i = 0; i < count; ++i) {
      static_cast<void>(queue.push(std::make_unique<int>(i)));
    }
  });
  int next = 0;
  const TimePoint deadline = in(std::chrono::seconds(60));
  while (next < count) {
    auto taken = queue.wait_and_take(deadline);
    ASSERT_FALSE(taken.empty()) << "after " << next;
    EXPECT_LE(taken.size(), 2U);
    for (const auto& one : taken) {
      EXPECT_EQ(*one, next);
      ++next;
    }
  }
  puts.join();
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace sluice::msg
