// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

TEST(Slots, AgreeWithASet) {
  for (const std::uint64_t count : {1U, 2U, 63U, 64U, 65U, 127U, 128U, 129U, 1000U, 4096U, 4097U, 8192U, 9000U}) {
    SCOPED_TRACE(count);
    Slots slots(count);
    std::set<std::uint64_t> model;
    Prng prng(count);
    std::uint64_t prefix = 0;
    while (model.size() < count) {
      const std::uint64_t slot = prng.below(count);
      EXPECT_EQ(slots.marked(slot), model.contains(slot));
      slots.mark(slot);
      model.insert(slot);
      while (model.contains(prefix)) {
        ++prefix;
      }
      ASSERT_EQ(slots.prefix(), prefix);
      ASSERT_EQ(slots.received(), model.size());
      ASSERT_EQ(slots.whole(), model.size() == count);
      if (slots.whole()) {
        EXPECT_EQ(slots.memory_bytes(), 0U);
      }
    }
  }
  EXPECT_TRUE(Slots(0).whole());
}

TEST(Slots, RunsAgreeWithSingleSlots) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    const std::uint64_t count = 1 + prng.below(3 * Slots::page_slots);
    Slots slots(count);
    std::vector<bool> model(count);
    std::uint64_t prefix = 0;
    for (int step = 0; !slots.whole(); ++step) {
      // Often where the prefix ends, so that it also grows without a page.
      const std::uint64_t first = prng.chance(0.5) || step > 500 ? prefix : prng.below(count);
      const std::uint64_t last = std::min(count - 1, first + prng.below(200));
      const auto begin = model.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = model.begin() + static_cast<std::ptrdiff_t>(last) + 1;
      ASSERT_EQ(slots.marked(first, last), static_cast<std::uint64_t>(std::count(begin, end, true)));
      const std::uint64_t before = slots.memory_bytes();
      const std::uint64_t wanted = slots.wanted_bytes(first, last);
      slots.prepare(first, last);
      ASSERT_EQ(slots.memory_bytes(), before + wanted);
      slots.mark(first, last);
      ASSERT_LE(slots.memory_bytes(), before + wanted) << "mark() allocates nothing";
      std::fill(begin, end, true);
      prefix = static_cast<std::uint64_t>(std::find(model.begin(), model.end(), false) - model.begin());
      ASSERT_EQ(slots.prefix(), prefix);
      ASSERT_EQ(slots.received(), static_cast<std::uint64_t>(std::count(model.begin(), model.end(), true)));
    }
    EXPECT_EQ(slots.memory_bytes(), 0U);
  }
}

TEST(Slots, WhatArrivesInOrderNeedsNoMemory) {
  Slots slots(1U << 20);
  for (std::uint64_t first = 0; first < slots.count(); first += 64) {
    EXPECT_EQ(slots.wanted_bytes(first, first + 63), 0U);
    slots.mark(first, first + 63);
    ASSERT_EQ(slots.memory_bytes(), 0U);
  }
  EXPECT_TRUE(slots.whole());
}

TEST(Slots, MemoryFollowsWhatLandedAndNotTheSize) {
  constexpr std::uint64_t count = 1ULL << 50;
  Slots slots(count);
  EXPECT_EQ(slots.memory_bytes(), 0U);
  EXPECT_EQ(slots.wanted_bytes(count - 1, count - 1), Slots::page_bytes);
  EXPECT_EQ(slots.wanted_bytes(Slots::page_slots - 1, Slots::page_slots), 2 * Slots::page_bytes);
  slots.prepare(count - 1, count - 1);
  EXPECT_EQ(slots.memory_bytes(), Slots::page_bytes);
  EXPECT_EQ(slots.wanted_bytes(count - 1, count - 1), 0U);
  slots.mark(count - 1);
  EXPECT_EQ(slots.memory_bytes(), Slots::page_bytes);
  for (std::uint64_t slot = 0; slot < 10 * Slots::page_slots; ++slot) {
    slots.mark(slot);
    ASSERT_LE(slots.memory_bytes(), 2 * Slots::page_bytes) << slot;
  }
  EXPECT_EQ(slots.memory_bytes(), Slots::page_bytes) << "what the prefix has passed is forgotten";
  EXPECT_TRUE(slots.marked(5));
  EXPECT_EQ(slots.wanted_bytes(0, 10 * Slots::page_slots - 1), 0U);
  EXPECT_EQ(slots.prefix(), 10 * Slots::page_slots);
}

// Of a file whose size is known late: what was marked stays, and it is whole when the rest is.
TEST(Slots, AnEndThatIsKnownLate) {
  for (const std::uint64_t count : {1UL, 63UL, 64UL, 65UL, 4096UL, 4097UL, 10000UL}) {
    for (const bool backwards : {false, true}) {
      SCOPED_TRACE(testing::Message() << count << (backwards ? ", backwards" : ""));
      for (const std::uint64_t before : {std::uint64_t{0}, count / 2, count - 1, count}) {
        Slots slots(1ULL << 58);
        const auto slot = [&](std::uint64_t i) { return backwards ? count - 1 - i : i; };
        for (std::uint64_t i = 0; i < before; ++i) {
          slots.mark(slot(i));
        }
        slots.end_at(count);
        EXPECT_EQ(slots.count(), count);
        EXPECT_EQ(slots.received(), before);
        EXPECT_EQ(slots.whole(), before == count);
        for (std::uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(slots.marked(slot(i)), i < before) << i;
        }
        EXPECT_EQ(slots.marked(0, count - 1), before);
        for (std::uint64_t i = before; i < count; ++i) {
          slots.mark(slot(i));
        }
        EXPECT_TRUE(slots.whole());
        EXPECT_EQ(slots.prefix(), count);
        EXPECT_EQ(slots.memory_bytes(), 0U);
      }
    }
  }
  Slots empty(1ULL << 58);
  empty.prepare(5, 5);
  empty.end_at(0);
  EXPECT_TRUE(empty.whole());
  EXPECT_EQ(empty.memory_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::ftx
