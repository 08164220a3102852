// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/slots.h"

#include <gtest/gtest.h>

#include <set>

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

}  // namespace
}  // namespace sluice::ftx
