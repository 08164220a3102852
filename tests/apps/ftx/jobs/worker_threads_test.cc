// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/worker_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <utility>
#include <vector>

namespace sluice::ftx {
namespace {

TEST(WorkerThreads, DoEachPieceOnce) {
  std::vector<std::atomic<int>> done(10'000);
  WorkerThreads workers(2);
  std::size_t refused = 0;
  for (std::atomic<int>& one : done) {
    std::function<void()> work = [&one] { ++one; };
    if (!workers.take(100, work)) {
      ++refused;
      work();
    }
  }
  workers.finish();
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i], 1) << i << ", " << refused << " refused";
  }
}

TEST(WorkerThreads, RefuseWhatIsTooMuchAndLeaveItAsItWas) {
  std::atomic<int> done = 0;
  for (const auto& [bytes, fit] :
       {std::pair{WorkerThreads::bytes_max / 4, std::size_t{4}}, std::pair{std::size_t{0}, WorkerThreads::pieces_max},
        std::pair{2 * WorkerThreads::bytes_max, std::size_t{1}}}) {
    std::latch held(1);  // the threads may look at it until they end
    WorkerThreads workers(1);
    const int before = done;
    std::size_t taken = 0;
    std::function<void()> work;
    do {
      work = [&] {
        held.wait();
        ++done;
      };
    } while (workers.take(bytes, work) && ++taken < 1000);
    EXPECT_EQ(taken, fit);
    EXPECT_TRUE(work) << "the caller cannot do it";
    held.count_down();
    workers.finish();
    EXPECT_EQ(done - before, static_cast<int>(fit));
    EXPECT_TRUE(workers.take(bytes, work)) << "there is room again";
  }
}

TEST(WorkerThreads, WhatIsDoneMakesRoom) {
  constexpr std::size_t part = 4;
  std::array<std::latch, 3> held{std::latch(1), std::latch(1), std::latch(1)};
  WorkerThreads workers(1);
  for (std::latch& one : held) {
    for (std::size_t i = 0; i < part; ++i) {
      std::function<void()> work = [&one] { one.wait(); };
      EXPECT_TRUE(workers.take(WorkerThreads::bytes_max / part, work)) << i;
    }
    one.count_down();
    workers.finish();
  }
}

TEST(WorkerThreads, DoWhatTheyHaveTakenBeforeTheyEnd) {
  std::atomic<int> done = 0;
  {
    WorkerThreads workers(2);
    for (int i = 0; i < 50; ++i) {
      std::function<void()> work = [&done] { ++done; };
      ASSERT_TRUE(workers.take(1, work));
    }
  }
  EXPECT_EQ(done, 50);
}

TEST(WorkerThreads, OfNoThreadsNothingIsTaken) {
  WorkerThreads workers(0);
  std::function<void()> work = [] {};
  EXPECT_FALSE(workers.take(1, work));
  EXPECT_TRUE(work);
  workers.finish();
}

}  // namespace
}  // namespace sluice::ftx
