// SPDX-License-Identifier: Apache-2.0
#include "stack/core/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "base/prng.h"
#include "tests/stack/core/heap_counter.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

// --- classes -------------------------------------------------------------------------------------------------------

TEST(BufferPoolTest, GivesTheBestFittingClass) {
  // 64, 96, 128, 192, ... 4 MiB: powers of two and one class half-way between.
  std::vector<std::size_t> classes;
  for (std::size_t power = 64; power <= BufferPool::capacity_max; power *= 2) {
    classes.push_back(power);
    classes.push_back(power / 2 * 3);
  }
  classes.pop_back();
  std::size_t smallest = 0;
  for (const std::size_t capacity : classes) {
    EXPECT_EQ(BufferPool::class_capacity(smallest), capacity) << smallest;
    EXPECT_EQ(BufferPool::class_capacity(capacity), capacity);
    smallest = capacity + 1;
  }
  EXPECT_EQ(BufferPool::class_capacity(BufferPool::capacity_max + 1), 0U);
}

TEST(BufferPoolTest, ABlockStartsEmptyAtTheBaseOfACacheLine) {
  BufferPool pool;
  for (const std::size_t capacity : {0U, 1U, 64U, 65U, 1500U, 65536U, 4194304U}) {
    Block* block = pool.allocate(capacity);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->rptr, block->buffer->base());
    EXPECT_EQ(block->wptr, block->buffer->base());
    EXPECT_EQ(block->buffer->capacity(), BufferPool::class_capacity(capacity));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->buffer->base()) % 64, 0U);
    EXPECT_EQ(block->buffer->references(), 1U);
    EXPECT_TRUE(block->buffer->writable());
    EXPECT_EQ(&block->buffer->pool(), &pool);
    EXPECT_EQ(block->type, MessageType::data);
    pool.release(block);
  }
}

TEST(BufferPoolTest, BuffersDoNotOverlap) {
  BufferPool pool;
  std::vector<Block*> blocks;
  for (std::size_t i = 0; i < 500; ++i) {
    Block* block = pool.allocate(1 + i * 7 % 900);
    ASSERT_NE(block, nullptr);
    std::fill(block->buffer->base(), block->buffer->limit(), static_cast<std::byte>(i));
    blocks.push_back(block);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ConstBytes bytes(blocks[i]->buffer->base(), blocks[i]->buffer->capacity());
    ASSERT_TRUE(std::ranges::all_of(bytes, [i](std::byte byte) { return byte == static_cast<std::byte>(i); })) << i;
    pool.release(blocks[i]);
  }
}

// --- the bound -----------------------------------------------------------------------------------------------------

TEST(BufferPoolTest, NeverTakesMoreThanItsBoundAndRecovers) {
  constexpr std::size_t bound = 256 * 1024;
  BufferPool pool(bound);
  std::vector<Block*> blocks;
  while (Block* block = pool.allocate(2000)) {
    blocks.push_back(block);
    ASSERT_LE(blocks.size(), bound / 2000);
  }
  EXPECT_GT(blocks.size() * 2500, bound / 2) << "most of the bound can be used";
  EXPECT_LE(pool.statistics().bytes_reserved, bound);
  EXPECT_EQ(pool.statistics().bytes_max, bound);
  EXPECT_EQ(pool.statistics().allocations_failed, 1U);
  EXPECT_EQ(pool.statistics().buffers_in_use, blocks.size());
  pool.release(blocks.back());
  blocks.back() = pool.allocate(2000);
  EXPECT_NE(blocks.back(), nullptr);
  for (Block* block : blocks) {
    pool.release(block);
  }
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

TEST(BufferPoolTest, RefusesWhatNoBufferCanHold) {
  BufferPool pool;
  EXPECT_EQ(pool.allocate(BufferPool::capacity_max + 1), nullptr);
  EXPECT_EQ(pool.allocate(static_cast<std::size_t>(-1)), nullptr);
  EXPECT_EQ(pool.statistics().allocations_failed, 2U);
}

TEST(BufferPoolTest, WhatWasBorrowedGoesHomeWhenItsOwnerWantsIt) {
  BufferPool pool;
  std::array<std::byte, 6> memory{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}};
  int given_back = 0;
  Block* block = pool.borrow(memory, true, [](void* count, ConstBytes) { ++*static_cast<int*>(count); }, &given_back);
  ASSERT_NE(block, nullptr);
  block->rptr += 2;
  pool.reclaim(*block);
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(pool.statistics().reclaimed, 1U);
  EXPECT_FALSE(block->buffer->borrowed());
  EXPECT_TRUE(block->buffer->writable());
  memory.fill(std::byte{0});
  EXPECT_EQ(block->rptr[0], std::byte{3});
  EXPECT_EQ(pool.touches().loaded_bytes, 6U) << "a copy is a pass over the bytes";
  EXPECT_EQ(pool.touches().stored_bytes, 6U);
  EXPECT_EQ(block->rptr[-2], std::byte{1}) << "headers may be gone back to";
  pool.release(block);
  EXPECT_EQ(given_back, 1);
}

TEST(BufferPoolTest, ATinyPoolCanDuplicateToo) {
  BufferPool pool(4096);
  Block* block = pool.allocate(64);
  ASSERT_NE(block, nullptr) << "a chunk is no larger than what the bound leaves";
  EXPECT_EQ(pool.allocate(4096), nullptr);
  pool.release(block);

  BufferPool other(2048);
  Block* external = nullptr;
  std::array<std::byte, 4> memory{};
  external = other.allocate_external(memory, true, nullptr, nullptr);
  ASSERT_NE(external, nullptr);
  EXPECT_EQ(other.duplicate(*external), nullptr) << "all of the bound went into slots";
  EXPECT_EQ(external->buffer->references(), 1U);
  other.release(external);
}

TEST(BufferPoolTest, ABlockThatOutlivesItsPoolBreaksTheContract) {
  EXPECT_DEATH(
      {
        BufferPool pool;
        (void)pool.allocate(10);
      },
      "contract broken");
}

// DESIGN: "no malloc in steady state".
TEST(BufferPoolTest, SteadyStateAllocatesNothing) {
  const std::uint64_t seed = 7;
  BufferPool pool;
  std::array<std::byte, 16> memory{};
  const auto round = [&] {
    Prng prng(seed);
    std::array<Message, 64> held;
    for (int i = 0; i < 5000; ++i) {
      Message& slot = held[prng.below(held.size())];
      switch (prng.below(3)) {
        case 0:
          slot = Message::allocate(pool, prng.below(70000));
          break;
        case 1:
          slot = slot ? slot.duplicate() : Message();
          break;
        default:
          slot = Message(pool.allocate_external(memory, true, nullptr, nullptr));
      }
    }
  };
  round();
  const std::size_t reserved = pool.statistics().bytes_reserved;
  const std::size_t before = heap_allocations();
  round();
  EXPECT_EQ(heap_allocations(), before);
  EXPECT_EQ(pool.statistics().bytes_reserved, reserved);
  EXPECT_GT(before, 0U) << "the counter is not connected";
}

// --- duplicates ----------------------------------------------------------------------------------------------------

// dupb(9F): "creates a new mblk_t structure to point to it. The reference count in the dblk_t structure (db_ref) is
// incremented. ... Note that b_rptr and b_wptr are copied from the bp."
TEST(BufferPoolTest, ADuplicateShowsTheSameBytesAndSharesTheBuffer) {
  BufferPool pool;
  Message message = text_message(pool, "hello", MessageType::proto, 3);
  message.trim_front(1);
  Block* copy = pool.duplicate(message.first());
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->rptr, message.first().rptr);
  EXPECT_EQ(copy->wptr, message.first().wptr);
  EXPECT_EQ(copy->type, MessageType::proto);
  EXPECT_EQ(copy->band, 3);
  EXPECT_EQ(copy->buffer->references(), 2U);
  EXPECT_FALSE(copy->buffer->writable());
  EXPECT_EQ(pool.statistics().buffers_in_use, 1U);
  pool.release(copy);
  EXPECT_TRUE(message.first().buffer->writable());
}

// A buffer's first block lies in its own slot: the slot must not be given out again while a duplicate shows it.
TEST(BufferPoolTest, TheFirstBlockMayGoBeforeItsDuplicate) {
  BufferPool pool;
  Message message = text_message(pool, "kept");
  Message copy = message.duplicate();
  message.reset();
  std::vector<Message> others;
  for (int i = 0; i < 2000; ++i) {
    others.push_back(text_message(pool, "othr"));
    ASSERT_NE(others.back().first().buffer, copy.first().buffer);
  }
  EXPECT_EQ(text_of(copy), "kept");
  EXPECT_TRUE(copy.first().buffer->writable());
  Message second = copy.duplicate();
  copy.reset();
  EXPECT_EQ(text_of(second), "kept");
}

TEST(BufferPoolTest, ReferencesAreCountedBeyondAnyByte) {
  BufferPool pool;
  Message message = text_message(pool, "many");
  std::vector<Message> copies;
  for (std::uint32_t i = 2; i < 70000; ++i) {  // dupb(9F) fails at 255
    copies.push_back(message.duplicate());
    ASSERT_EQ(message.first().buffer->references(), i);
  }
  message.reset();
  copies.resize(1);
  EXPECT_TRUE(copies[0].first().buffer->writable());
}

// --- external buffers ----------------------------------------------------------------------------------------------

struct Released {
  int calls = 0;
  ConstBytes memory;
  static void callback(void* argument, ConstBytes memory) {
    auto& released = *static_cast<Released*>(argument);
    ++released.calls;
    released.memory = memory;
  }
};

// esballoc(9F): "the data buffer to associate with the message is specified by the caller"; "When freeb(9F) is called
// to free the message, the driver's message-freeing routine ... is called with appropriate arguments to free the data
// buffer." desballoc: "synchronously by the thread releasing the final reference".
TEST(BufferPoolTest, AnExternalBufferIsReleasedExactlyOnceWithTheLastReference) {
  BufferPool pool;
  std::array<std::byte, 32> memory{};
  Released released;
  for (int round = 1; round <= 3; ++round) {
    Message message(pool.allocate_external(memory, false, Released::callback, &released));
    EXPECT_EQ(message.size(), memory.size());
    EXPECT_EQ(message.bytes().data(), memory.data());
    EXPECT_TRUE(message.first().buffer->writable());
    Message copy = message.duplicate();
    Message rest = copy.split(10);
    message.reset();
    copy.reset();
    EXPECT_EQ(released.calls, round - 1);
    rest.trim_back(5);
    rest.reset();
    EXPECT_EQ(released.calls, round);
    EXPECT_EQ(released.memory.data(), memory.data()) << "the whole memory, not the last window on it";
    EXPECT_EQ(released.memory.size(), memory.size());
  }
}

TEST(BufferPoolTest, ReadOnlyDoesNotStickToTheSlot) {
  BufferPool pool;
  std::array<std::byte, 32> memory{};
  Message message(pool.allocate_external(memory, true, nullptr, nullptr));
  EXPECT_FALSE(message.first().buffer->writable());
  const Buffer* slot = message.first().buffer;
  message.reset();
  message = Message(pool.allocate_external(memory, false, nullptr, nullptr));
  ASSERT_EQ(message.first().buffer, slot);
  EXPECT_TRUE(message.first().buffer->writable());
}

// The counterpart: memory that was borrowed must be reclaimed and is never duplicated; what comes to lie in its slot
// next is neither.
TEST(BufferPoolTest, BorrowedDoesNotStickToTheSlot) {
  BufferPool pool;
  std::array<std::byte, 32> memory{};
  Message message(pool.borrow(memory, false, nullptr, nullptr));
  EXPECT_TRUE(message.first().buffer->borrowed());
  const Buffer* slot = message.first().buffer;
  message.reset();
  message = Message(pool.allocate_external(memory, false, nullptr, nullptr));
  ASSERT_EQ(message.first().buffer, slot);
  EXPECT_FALSE(message.first().buffer->borrowed());
  const Message copy = message.duplicate();
  EXPECT_EQ(copy.first().buffer, slot) << "it shows the same memory instead of being a copy";
}

// Nor does the callback: a slot that had one is used without one.
TEST(BufferPoolTest, AReleaseCallbackDoesNotStickToTheSlot) {
  BufferPool pool;
  std::array<std::byte, 32> memory{};
  Released released;
  Message message(pool.allocate_external(memory, false, Released::callback, &released));
  const Buffer* slot = message.first().buffer;
  message.reset();
  message = Message(pool.allocate_external(memory, false, nullptr, nullptr));
  ASSERT_EQ(message.first().buffer, slot);
  message.reset();
  EXPECT_EQ(released.calls, 1);
}

// A release callback that uses the pool again, as one that refills a ring does.
TEST(BufferPoolTest, AReleaseCallbackMayAllocate) {
  struct Refill {
    BufferPool pool;
    std::array<std::byte, 8> memory{};
    Message next;
  } refill;
  Message message(refill.pool.allocate_external(
      refill.memory, true,
      [](void* argument, ConstBytes) {
        auto& self = *static_cast<Refill*>(argument);
        self.next = Message(self.pool.allocate_external(self.memory, true, nullptr, nullptr));
      },
      &refill));
  message.reset();
  EXPECT_EQ(refill.next.size(), 8U);
  EXPECT_EQ(refill.pool.statistics().buffers_in_use, 1U);
}

}  // namespace
}  // namespace sluice::testing
