// SPDX-License-Identifier: Apache-2.0
#include "stack/core/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Services = Module::Services;

TimePoint at(std::int64_t nanoseconds) { return TimePoint(Duration(nanoseconds)); }

class TimerTest : public ::testing::Test {
 protected:
  /// A timer that notes `id` when it fires.
  std::unique_ptr<Timer> noting(int id) {
    return std::make_unique<Timer>(scheduler, [this, id] { fired.push_back(id); });
  }
  Scheduler scheduler;
  std::vector<int> fired;
};

TEST_F(TimerTest, FireInTheOrderOfTheirTimes) {
  const auto a = noting(1);
  const auto b = noting(2);
  const auto c = noting(3);
  a->arm(at(30));
  b->arm(at(10));
  c->arm(at(20));
  EXPECT_EQ(scheduler.next_deadline(), at(10));
  EXPECT_FALSE(scheduler.poll(at(9)));
  EXPECT_THAT(fired, IsEmpty());
  EXPECT_TRUE(scheduler.poll(at(25)));
  EXPECT_THAT(fired, ElementsAre(2, 3));
  EXPECT_FALSE(b->armed());
  EXPECT_EQ(scheduler.next_deadline(), at(30));
  scheduler.poll(at(30));
  EXPECT_THAT(fired, ElementsAre(2, 3, 1));
  EXPECT_EQ(scheduler.next_deadline(), never);
}

TEST_F(TimerTest, EqualTimesFireInTheOrderOfArming) {
  std::vector<std::unique_ptr<Timer>> timers;
  for (int id = 0; id < 20; ++id) {
    timers.push_back(noting(id));
    timers.back()->arm(at(5));
  }
  timers[3]->arm(at(5));  // again: now the last
  scheduler.poll(at(5));
  EXPECT_THAT(fired, ElementsAre(0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 3));
}

TEST_F(TimerTest, AnArmedTimerIsMoved) {
  const auto timer = noting(1);
  timer->arm(at(10));
  timer->arm(at(50));
  EXPECT_EQ(timer->at(), at(50));
  scheduler.poll(at(20));
  EXPECT_THAT(fired, IsEmpty());
  timer->arm_after(Duration(5));
  EXPECT_EQ(timer->at(), at(25));
  scheduler.poll(at(100));
  EXPECT_THAT(fired, ElementsAre(1));
}

TEST_F(TimerTest, TimeNeverGoesBack) {
  scheduler.poll(at(100));
  scheduler.poll(at(50));
  EXPECT_EQ(scheduler.now(), at(100));
  const auto late = noting(1);
  late->arm(at(10));
  EXPECT_EQ(scheduler.next_deadline(), at(100)) << "overdue means now, not the past";
  scheduler.poll(at(0));
  EXPECT_THAT(fired, ElementsAre(1));
}

TEST_F(TimerTest, CancelledAndDestroyedTimersDoNotFire) {
  const auto a = noting(1);
  auto b = noting(2);
  const auto c = noting(3);
  for (Timer* timer : {a.get(), b.get(), c.get()}) {
    timer->arm(at(10));
  }
  a->cancel();
  a->cancel();
  b.reset();
  scheduler.poll(at(10));
  EXPECT_THAT(fired, ElementsAre(3));
}

TEST_F(TimerTest, ACallbackMayRearmItself) {
  std::optional<Timer> timer;
  timer.emplace(scheduler, [&] {
    fired.push_back(static_cast<int>(scheduler.now().time_since_epoch().count()));
    if (fired.size() < 3) {
      timer->arm_after(Duration(10));
    }
  });
  timer->arm(at(10));
  for (std::int64_t now = 0; now <= 100; ++now) {
    scheduler.poll(at(now));
  }
  EXPECT_THAT(fired, ElementsAre(10, 20, 30));
}

TEST_F(TimerTest, ACallbackMayCancelOrDestroyOthersThatAreDue) {
  const auto cancelled = noting(1);
  auto destroyed = noting(2);
  const auto kept = noting(3);
  Timer first(scheduler, [&] {
    cancelled->cancel();
    destroyed.reset();
  });
  first.arm(at(10));
  cancelled->arm(at(10));
  destroyed->arm(at(10));
  kept->arm(at(10));
  scheduler.poll(at(10));
  EXPECT_THAT(fired, ElementsAre(3));
}

// One that is always due again must neither hang poll() nor keep others from firing.
TEST_F(TimerTest, ATimerThatIsAlwaysDueIsBoundedAndFair) {
  std::optional<Timer> always;
  std::size_t calls = 0;
  always.emplace(scheduler, [&] {
    ++calls;
    always->arm(scheduler.now());
  });
  const auto other = noting(1);
  always->arm(at(10));
  other->arm(at(10));
  EXPECT_TRUE(scheduler.poll(at(10)));
  EXPECT_EQ(calls, Scheduler::timers_per_poll_max - 1);
  EXPECT_THAT(fired, ElementsAre(1));
  EXPECT_EQ(scheduler.next_deadline(), at(10)) << "there is work left";
}

// Against a list that is searched in full.
TEST_F(TimerTest, AnySequenceOfOperationsMatchesTheModel) {
  constexpr int timers_count = 40;
  struct Expected {
    TimePoint due;
    std::uint64_t order;
  };
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Prng prng(seed);
    Scheduler own;
    std::vector<int> seen;
    std::vector<std::unique_ptr<Timer>> timers;
    std::vector<std::optional<Expected>> model(timers_count);
    for (int id = 0; id < timers_count; ++id) {
      timers.push_back(std::make_unique<Timer>(own, [&seen, id] { seen.push_back(id); }));
    }
    std::uint64_t order = 0;
    std::int64_t now = 0;
    for (int step = 0; step < 500; ++step) {
      const auto id = static_cast<std::size_t>(prng.below(timers_count));
      if (prng.chance(0.7)) {
        const TimePoint due = at(now + static_cast<std::int64_t>(prng.below(50)));
        timers[id]->arm(due);
        model[id] = Expected{due, order++};
      } else {
        timers[id]->cancel();
        model[id].reset();
      }
      if (prng.chance(0.2)) {
        now += static_cast<std::int64_t>(prng.below(20));
        std::vector<int> due;
        for (int i = 0; i < timers_count; ++i) {
          if (model[static_cast<std::size_t>(i)] && model[static_cast<std::size_t>(i)]->due <= at(now)) {
            due.push_back(i);
          }
        }
        std::ranges::sort(due, [&model](int a, int b) {
          const Expected& x = *model[static_cast<std::size_t>(a)];
          const Expected& y = *model[static_cast<std::size_t>(b)];
          return x.due != y.due ? x.due < y.due : x.order < y.order;
        });
        seen.clear();
        own.poll(at(now));
        ASSERT_EQ(seen, due) << "seed " << seed << " step " << step;
        for (const int i : due) {
          model[static_cast<std::size_t>(i)].reset();
        }
      }
      TimePoint earliest = never;
      for (const auto& expected : model) {
        earliest = expected ? std::min(earliest, expected->due) : earliest;
      }
      ASSERT_EQ(own.next_deadline(), earliest == never ? never : std::max(earliest, at(now)))
          << "seed " << seed << " step " << step;
    }
  }
}

// --- services ------------------------------------------------------------------------------------------------------

TEST(SchedulerTest, ServicesRunInTheOrderInWhichTheyWereEnabled) {
  Stream stream(Services::both, Services::both);
  std::vector<std::string> ran;
  stream.head.on_rsrv = [&] { ran.emplace_back("head read"); };
  stream.driver->on_wsrv = [&] { ran.emplace_back("driver write"); };
  stream.driver->on_rsrv = [&] { ran.emplace_back("driver read"); };
  stream.driver->write_queue().enable();
  stream.head.read_queue().enable();
  stream.driver->read_queue().enable();
  stream.driver->write_queue().enable();
  EXPECT_EQ(stream.set.scheduler().next_deadline(), stream.set.now());
  EXPECT_TRUE(stream.poll());
  EXPECT_THAT(ran, ElementsAre("driver write", "head read", "driver read"));
  EXPECT_FALSE(stream.poll());
  EXPECT_TRUE(stream.idle());
}

// CONTRIBUTING: "Every queue, table and loop has a bound."
TEST(SchedulerTest, AServiceThatEnablesItselfForEverCannotHangPoll) {
  Stream stream(Services::both, Services::write);
  stream.driver->on_wsrv = [&] { stream.driver->write_queue().enable(); };
  stream.driver->write_queue().enable();
  EXPECT_TRUE(stream.poll());
  EXPECT_EQ(static_cast<std::size_t>(stream.driver->wsrv_calls), Scheduler::services_per_poll_max);
  EXPECT_EQ(stream.set.scheduler().next_deadline(), stream.set.now()) << "there is work left";
  bool fired = false;
  Timer timer(stream.set.scheduler(), [&fired] { fired = true; });
  timer.arm(stream.set.now());
  stream.poll();
  EXPECT_TRUE(fired) << "nor keep timers from firing";
}

TEST(SchedulerTest, PollRunsNoMoreServicesThanItMay) {
  Stream stream(Services::both, Services::both);
  stream.head.write_queue().enable();
  stream.driver->write_queue().enable();
  EXPECT_TRUE(stream.set.scheduler().poll(stream.set.now(), 1));
  EXPECT_EQ(stream.head.wsrv_calls, 1);
  EXPECT_EQ(stream.driver->wsrv_calls, 0);
  stream.poll();
  EXPECT_EQ(stream.driver->wsrv_calls, 1);
}

TEST(SchedulerTest, TimersFireBeforeServicesAndMayEnableThem) {
  Stream stream(Services::both, Services::write);
  Timer timer(stream.set.scheduler(), [&] { stream.driver->write_queue().enable(); });
  timer.arm(at(5));
  EXPECT_TRUE(stream.set.scheduler().poll(at(5)));
  EXPECT_EQ(stream.driver->wsrv_calls, 1);
}

TEST(SchedulerTest, AQueueCanBeTakenOffAnywhereInTheRunList) {
  for (int removed = 0; removed < 3; ++removed) {
    Stream stream(Services::both, Services::both);
    const std::array<Queue*, 3> queues = {&stream.head.write_queue(), &stream.driver->write_queue(),
                                          &stream.driver->read_queue()};
    for (Queue* queue : queues) {
      queue->enable();
    }
    stream.set.scheduler().unschedule(*queues[static_cast<std::size_t>(removed)]);
    stream.set.scheduler().unschedule(*queues[static_cast<std::size_t>(removed)]);
    stream.head.read_queue().enable();  // the list's end must still be right
    stream.poll();
    EXPECT_THAT((std::array{stream.head.wsrv_calls, stream.driver->wsrv_calls, stream.driver->rsrv_calls}),
                ElementsAre(removed == 0 ? 0 : 1, removed == 1 ? 0 : 1, removed == 2 ? 0 : 1));
    EXPECT_EQ(stream.head.rsrv_calls, 1);
  }
}

}  // namespace
}  // namespace sluice::testing
