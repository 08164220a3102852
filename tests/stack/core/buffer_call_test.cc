// SPDX-License-Identifier: Apache-2.0
// Waiting for memory: bufcall, esbbcall, unbufcall.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t wanted = 2000;  // bytes

class BufferCallTest : public ::testing::Test {
 protected:
  BufferCallTest() {
    while (Block* const block = pool.allocate(wanted)) {
      held.emplace_back(block);
    }
  }
  std::unique_ptr<BufferCall> noting(int id) {
    return std::make_unique<BufferCall>(scheduler, pool, [this, id] { called.push_back(id); });
  }
  void give_back() { held.pop_back(); }
  bool poll() { return scheduler.poll(scheduler.now()); }
  [[nodiscard]] bool idle() const { return scheduler.next_deadline() == never; }

  BufferPool pool{128 * 1024};
  Scheduler scheduler;
  std::vector<Message> held;  // all that the pool has
  std::vector<int> called;
};

// Tru64, bufcall(9r): "serves as a timeout call of indeterminate length. When a buffer allocation request fails, you
// can use bufcall to schedule the interface passed to the function argument".
TEST_F(BufferCallTest, IsCalledOnceWhenABufferHasComeBack) {
  const auto call = noting(1);
  ASSERT_TRUE(call->await(wanted));
  EXPECT_TRUE(call->waiting());
  EXPECT_TRUE(idle()) << "waiting for memory costs nothing";
  EXPECT_FALSE(poll());
  give_back();
  EXPECT_THAT(called, IsEmpty()) << "not out of whoever frees it";
  EXPECT_FALSE(idle()) << "the run loop knows that there is something to do";
  EXPECT_TRUE(poll());
  EXPECT_THAT(called, ElementsAre(1));
  EXPECT_FALSE(call->waiting());
  give_back();
  EXPECT_TRUE(idle());
  EXPECT_FALSE(poll());
  EXPECT_THAT(called, ElementsAre(1));
}

TEST_F(BufferCallTest, WhereThereIsMemoryItIsCalledInTheNextPoll) {
  give_back();
  const auto call = noting(1);
  ASSERT_TRUE(call->await(wanted));
  EXPECT_THAT(called, IsEmpty());
  EXPECT_FALSE(idle());
  poll();
  EXPECT_THAT(called, ElementsAre(1));
}

// Memory never changes its class, so one of another class is no reason to call.
TEST_F(BufferCallTest, ABufferOfAnotherClassIsNone) {
  BufferPool two(160 * 1024);
  std::vector<Message> large;
  std::vector<Message> small;
  large.emplace_back(two.allocate(60000));
  while (Block* const block = two.allocate(wanted)) {
    small.emplace_back(block);
  }
  BufferCall call(scheduler, two, [this] { called.push_back(1); });
  BufferCall behind(scheduler, two, [this] { called.push_back(2); });
  ASSERT_TRUE(call.await(60000));
  ASSERT_TRUE(behind.await(wanted));
  small.clear();
  poll();
  EXPECT_THAT(called, ElementsAre(2)) << "who waits for another class is passed";
  EXPECT_TRUE(call.waiting());
  EXPECT_FALSE(behind.waiting());
  EXPECT_TRUE(idle());
  large.clear();
  poll();
  EXPECT_THAT(called, ElementsAre(2, 1));
}

// Tru64, bufcall(9r): "If the bufcall scheduling fails (that is, a buffer is not available), the interface passed to
// function is never called and bufcall returns the value zero(0)."
TEST_F(BufferCallTest, WhatThePoolWillNeverHaveIsNotAwaited) {
  const auto call = noting(1);
  EXPECT_FALSE(call->await(BufferPool::capacity_max + 1));
  EXPECT_FALSE(call->await(1'000'000)) << "the bound is smaller";
  EXPECT_FALSE(call->await(20'000)) << "all memory is buffers of another class";
  EXPECT_FALSE(call->waiting());
  held.clear();
  EXPECT_TRUE(idle());
  poll();
  EXPECT_THAT(called, IsEmpty());
}

// In the order in which they asked, each only while there is memory. Tru64, bufcall(9r): "Even when the bufcall
// interface calls the interface passed to the function argument, the allocb interface can still fail if another module
// or device driver allocated the memory before".
TEST_F(BufferCallTest, ThoseWhoWaitAreCalledInTurnWhileThereIsMemory) {
  std::vector<std::unique_ptr<BufferCall>> calls;
  for (int id = 0; id < 3; ++id) {
    calls.push_back(std::make_unique<BufferCall>(scheduler, pool, [this, id] {
      called.push_back(id);
      held.emplace_back(pool.allocate(wanted));
      ASSERT_TRUE(held.back());
    }));
    ASSERT_TRUE(calls.back()->await(wanted));
  }
  give_back();
  poll();
  EXPECT_THAT(called, ElementsAre(0)) << "the first has taken what there was";
  EXPECT_TRUE(idle());
  EXPECT_TRUE(calls[1]->waiting() && calls[2]->waiting());
  held.resize(held.size() - 2);
  poll();
  EXPECT_THAT(called, ElementsAre(0, 1, 2));
}

// A callback that awaits again is called in the next poll, not for ever in this one.
TEST_F(BufferCallTest, WaitingAgainIsForTheNextPoll) {
  std::unique_ptr<BufferCall> call;
  call = std::make_unique<BufferCall>(scheduler, pool, [this, &call] {
    called.push_back(1);
    ASSERT_TRUE(call->await(wanted));
  });
  ASSERT_TRUE(call->await(wanted));
  give_back();
  poll();
  EXPECT_THAT(called, ElementsAre(1));
  poll();
  EXPECT_THAT(called, ElementsAre(1, 1));
}

// A second request of the same one replaces the first.
TEST_F(BufferCallTest, AskingTwiceCallsOnce) {
  const auto first = noting(1);
  const auto second = noting(2);
  ASSERT_TRUE(first->await(wanted));
  ASSERT_TRUE(second->await(wanted));
  ASSERT_TRUE(first->await(wanted));
  held.clear();
  poll();
  poll();
  EXPECT_THAT(called, ElementsAre(2, 1)) << "and it stands at the end of the line again";
}

// unbufcall(9F): "cancels a pending bufcall() or esbbcall() request." A callback may do that to another.
TEST_F(BufferCallTest, WhoIsCancelledOrDestroyedIsNotCalled) {
  auto third = noting(3);
  auto fourth = noting(4);
  const auto first = noting(1);
  BufferCall second(scheduler, pool, [&] {
    called.push_back(2);
    third.reset();
    fourth->cancel();
  });
  const auto fifth = noting(5);
  ASSERT_TRUE(first->await(wanted) && second.await(wanted) && third->await(wanted) && fourth->await(wanted) &&
              fifth->await(wanted));
  first->cancel();
  first->cancel();
  EXPECT_FALSE(first->waiting());
  held.clear();
  poll();
  EXPECT_THAT(called, ElementsAre(2, 5));
  EXPECT_FALSE(fourth->waiting());
  EXPECT_TRUE(idle());
}

// esbbcall(9F): "If esballoc(9F) is unable to allocate a message and data block header to go with its externally
// supplied data buffer, esbbcall() can be used to schedule the routine func, to be called with the argument arg when a
// buffer becomes available."
TEST_F(BufferCallTest, ExternalBuffersAreAwaitedByThemselves) {
  BufferPool small(4096);
  std::array<std::byte, 8> memory{};
  std::vector<Message> external;
  while (Block* const block = small.allocate_external(memory, true, nullptr, nullptr)) {
    external.emplace_back(block);
  }
  BufferCall call(scheduler, small, [this] { called.push_back(1); });
  EXPECT_FALSE(call.await(64)) << "no buffer has bytes of its own here";
  ASSERT_TRUE(call.await_external());
  EXPECT_TRUE(idle());
  external.pop_back();
  poll();
  EXPECT_THAT(called, ElementsAre(1));
}

TEST_F(BufferCallTest, ThePoolSaysWhatItHas) {
  EXPECT_FALSE(pool.available(wanted));
  EXPECT_TRUE(pool.ever_available(wanted));
  give_back();
  EXPECT_TRUE(pool.available(wanted));
  EXPECT_FALSE(pool.available(BufferPool::capacity_max + 1));
  EXPECT_FALSE(pool.ever_available(BufferPool::capacity_max + 1));
  const std::uint64_t failed = pool.statistics().allocations_failed;
  EXPECT_EQ(pool.statistics().allocations_failed, failed) << "asking is no allocation";
}

/// What the call is for: a module that holds its message until there is memory for the header in front of it.
class Patient : public Module {
 public:
  static constexpr std::size_t header_bytes = wanted;
  Patient() : Module("patient", Services::write) {}

  Status open() override {
    call_.emplace(set().scheduler(), set().pool(), [this] {
      ++calls;
      write_queue().enable();
    });
    return {};
  }
  void wput(Batch&& batch) override { enqueue_all(write_queue(), std::move(batch)); }
  void wsrv() override {
    while (Message message = write_queue().dequeue()) {
      if (message.prepend(header_bytes).empty()) {
        write_queue().put_back(std::move(message));
        waits = call_->await(64 + header_bytes);
        return;
      }
      write_queue().put_next(std::move(message));
    }
  }

  int calls = 0;
  bool waits = false;

 private:
  std::optional<BufferCall> call_;
};

class PatientTest : public ::testing::Test {
 protected:
  PatientTest() : set(options()), head(Module::Services::both, "head"), chain(set, head) {
    auto owned = std::make_unique<Scripted>(Module::Services::none, "driver");
    owned->on_wput = [this](Batch batch) { arrived.splice(std::move(batch)); };
    EXPECT_TRUE(chain.open_driver(std::move(owned)));
    auto module = std::make_unique<Patient>();
    patient = module.get();
    EXPECT_TRUE(chain.push(std::move(module)));
    for (const char* text : {"a", "b", "c"}) {
      messages.push(text_message(set.pool(), text));
    }
    while (Block* const block = set.pool().allocate(64 + Patient::header_bytes)) {
      held.emplace_back(block);
    }
  }
  static StreamSet::Options options() {
    StreamSet::Options options;
    options.pool_bytes_max = 256 * 1024;
    return options;
  }
  void poll() { set.scheduler().poll(set.now()); }

  StreamSet set;
  Batch arrived, messages;
  std::vector<Message> held;
  Scripted head;
  Chain chain;
  Patient* patient = nullptr;
};

TEST_F(PatientTest, LosesNothingAndKeepsTheOrder) {
  head.write_queue().put_next(std::move(messages));
  poll();
  EXPECT_TRUE(patient->waits);
  EXPECT_TRUE(arrived.empty());
  EXPECT_EQ(set.scheduler().next_deadline(), never);
  std::vector<char> order;
  for (int round = 0; round < 3; ++round) {
    held.pop_back();
    poll();
    poll();
    ASSERT_EQ(arrived.size(), 1U) << round;
    const Message message = arrived.pop();
    order.push_back(static_cast<char>(*message.first().cont->rptr));
    held.emplace_back(set.pool().allocate(1));  // any memory: what counts is the header's, which goes back now
  }
  EXPECT_THAT(order, ElementsAre('a', 'b', 'c'));
}

// esbbcall(9F): "should it become necessary to cancel the esbbcall() request (as at driver close time)": a member does
// so by itself.
TEST_F(PatientTest, PoppedWhileItWaitsItIsNotCalled) {
  head.write_queue().put_next(std::move(messages));
  poll();
  ASSERT_TRUE(patient->waits);
  ASSERT_TRUE(chain.pop());
  held.clear();
  EXPECT_EQ(set.scheduler().next_deadline(), never);
  poll();
  EXPECT_TRUE(arrived.empty());
}

}  // namespace
}  // namespace sluice::testing
