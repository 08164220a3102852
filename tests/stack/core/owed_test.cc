// SPDX-License-Identifier: Apache-2.0
// Control messages that wait for memory (stack/core/owed.h), and messages that become others in their own block.
#include "stack/core/owed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stack/core/chain.h"
#include "stack/core/stream_set.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t owed_pool_bytes = 512 * 1024;

class OwedTest : public ::testing::Test {
 protected:
  OwedTest() { EXPECT_TRUE(chain_.open_driver(std::make_unique<Module>("driver"))); }
  /// Everything of the smallest class.
  void exhaust() {
    while (Block* const block = set.pool().allocate(1)) {
      held.emplace_back(block);
    }
  }
  void poll() { set.scheduler().poll(TimePoint{}); }
  bool send(std::string_view text, Message* spent = nullptr) {
    return owed.send(as_bytes(text), MessageType::pcproto, spent);
  }

  StreamSet set{{.pool_bytes_max = owed_pool_bytes}};
  std::vector<Message> held;
  std::vector<std::string> sent;
  int came_late = 0;

 private:
  Module head_{"head"};
  Chain chain_{set, head_};

 protected:
  Owed owed{head_,
            [this](Message message) {
              EXPECT_TRUE(!message || message.type() == MessageType::pcproto);
              sent.emplace_back(message ? as_text(message.bytes()) : "nothing");
            },
            [this] { ++came_late; }};
};

TEST_F(OwedTest, GoesAtOnceWhereThereIsMemory) {
  EXPECT_TRUE(send("one"));
  EXPECT_THAT(sent, ElementsAre("one"));
  EXPECT_FALSE(owed.waiting());
  poll();
  EXPECT_EQ(came_late, 0);
}

// Tru64, bufcall(9r): "serves as a timeout call of indeterminate length".
TEST_F(OwedTest, WaitsForMemoryAndKeepsItsPlaceInTheOrder) {
  exhaust();
  Message spent = std::move(held.back());
  EXPECT_TRUE(send("one"));
  EXPECT_TRUE(send("two", &spent)) << "it has its memory, and waits behind the first all the same";
  EXPECT_FALSE(spent);
  poll();
  EXPECT_THAT(sent, IsEmpty());
  EXPECT_EQ(set.scheduler().next_deadline(), never) << "waiting costs nothing";
  held.front().reset();
  EXPECT_THAT(sent, IsEmpty()) << "not out of whoever frees it";
  poll();
  EXPECT_THAT(sent, ElementsAre("one", "two"));
  EXPECT_EQ(came_late, 1);
  EXPECT_FALSE(owed.waiting());
}

TEST_F(OwedTest, WhatIsClearedIsNotTriedAgain) {
  exhaust();
  EXPECT_TRUE(send("one"));
  owed.clear();
  EXPECT_FALSE(owed.waiting());
  held.front().reset();
  EXPECT_EQ(set.scheduler().next_deadline(), never) << "nobody waits for memory any more";
  poll();
  EXPECT_THAT(sent, IsEmpty());
  EXPECT_EQ(came_late, 0);
}

TEST_F(OwedTest, NeedsNoMemoryWhereARequestIsDoneWith) {
  exhaust();
  Message spent = std::move(held.back());
  EXPECT_TRUE(send("answer", &spent));
  EXPECT_THAT(sent, ElementsAre("answer"));
  EXPECT_FALSE(spent);
}

TEST_F(OwedTest, RefusesWhatWillNeverHaveMemory) {
  exhaust();  // all there is, and it never changes its class
  Message spent = std::move(held.back());
  const std::string large(500, 'x');
  EXPECT_FALSE(send(large, &spent));
  EXPECT_TRUE(spent) << "the caller may answer something shorter";
  EXPECT_FALSE(owed.waiting());
  EXPECT_THAT(sent, IsEmpty());
}

// Buffers keep their size: what others have made of the rest of the pool is no help any more.
TEST_F(OwedTest, WhatWaitsInVainIsToldAndHoldsUpNobody) {
  bool fails = true;
  set.pool().fail_when([&] { return fails; });
  EXPECT_TRUE(send(std::string(500, 'x'))) << "there may be memory";
  EXPECT_TRUE(send("two"));
  fails = false;
  exhaust();
  held.pop_back();
  poll();
  EXPECT_THAT(sent, ElementsAre("nothing"));
  EXPECT_EQ(set.scheduler().next_deadline(), TimePoint{}) << "the next one is due";
  poll();
  EXPECT_THAT(sent, ElementsAre("nothing", "two"));
  EXPECT_FALSE(owed.waiting());
}

TEST_F(OwedTest, WhatWaitsIsBounded) {
  exhaust();
  for (std::size_t count = 0; count < Owed::waiting_max; ++count) {
    ASSERT_TRUE(send("one"));
  }
  EXPECT_FALSE(send("more"));
  owed.clear();
  held.clear();
  poll();
  EXPECT_THAT(sent, IsEmpty()) << "what was cleared is owed no longer";
  EXPECT_TRUE(send("again"));
  EXPECT_THAT(sent, ElementsAre("again"));
}

// What a message becomes must not show in others, and must not write where it may not.
TEST_F(OwedTest, BecomesOnlyWhereTheBlockIsItsOwnAndLargeEnough) {
  Message message = Message::copy_of(set.pool(), as_bytes("request"), 8, MessageType::proto);
  message.set_band(3);
  message.link(Message::copy_of(set.pool(), as_bytes("data")));
  Message shared = message.duplicate();
  EXPECT_FALSE(message.become(as_bytes("answer"), MessageType::pcproto)) << "another shows it";
  EXPECT_EQ(as_text(shared.bytes()), "request");
  shared.reset();
  const std::string large(message.first().buffer->capacity() + 1, 'x');
  EXPECT_FALSE(message.become(as_bytes(large), MessageType::pcproto)) << "too small";
  EXPECT_EQ(as_text(message.bytes()), "request");
  EXPECT_EQ(message.data_size(), 4U) << "it is as it was";
  const std::string fits(message.first().buffer->capacity(), 'y');
  ASSERT_TRUE(message.become(as_bytes(fits), MessageType::pcproto));
  EXPECT_EQ(as_text(message.bytes()), fits);
  EXPECT_EQ(message.type(), MessageType::pcproto);
  EXPECT_EQ(message.band(), 0) << "high priority has none";
  EXPECT_EQ(message.block_count(), 1U);
  EXPECT_EQ(message.data_size(), 0U);

  std::array<std::byte, 64> outside{};
  Message external(set.pool().allocate_external(outside, false, nullptr, nullptr));
  EXPECT_FALSE(external.become(as_bytes("answer"), MessageType::pcproto)) << "not ours";
  EXPECT_EQ(outside[0], std::byte{});
}

}  // namespace
}  // namespace sluice::testing
