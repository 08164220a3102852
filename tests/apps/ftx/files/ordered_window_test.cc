// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/ordered_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/apps/ftx/content.h"

namespace sluice::ftx::test {
namespace {

TEST(OrderedWindow, WhatHasNoGapBeforeItIsReady) {
  OrderedWindow window(16, 4);
  const Content content = random_content(12, 1);
  const ConstBytes bytes(content);
  window.put(4, bytes.subspan(4, 4));
  EXPECT_TRUE(window.ready().empty());
  window.put(0, bytes.first(2));
  EXPECT_EQ(window.prefix(), 2U);
  window.put(2, bytes.subspan(2, 2));
  EXPECT_EQ(window.prefix(), 8U);
  EXPECT_TRUE(std::ranges::equal(window.ready(), bytes.first(8)));
}

TEST(OrderedWindow, TakesNoMoreThanTheRingHoldsBehindWhatIsKept) {
  OrderedWindow window(16, 4);
  const Content content = random_content(32, 2);
  const ConstBytes bytes(content);
  EXPECT_TRUE(window.takes(0, 16));
  EXPECT_FALSE(window.takes(1, 16));
  EXPECT_EQ(window.room(), 16U);
  window.put(0, bytes.first(16));
  EXPECT_EQ(window.room(), 0U);
  window.take(4);
  EXPECT_EQ(window.room(), 0U) << "four are kept";
  window.take(6);
  EXPECT_EQ(window.room(), 6U);
  EXPECT_TRUE(window.takes(16, 6));
  EXPECT_FALSE(window.takes(16, 7));
  window.put(16, bytes.subspan(16, 6));
  Content again(4);
  window.read(6, again);
  EXPECT_TRUE(std::ranges::equal(again, bytes.subspan(6, 4)));
}

TEST(OrderedWindow, WhatIsThereBehindTheGapIsNotCopiedOver) {
  OrderedWindow window(16, 4);
  const Content content = random_content(8, 3), other = random_content(8, 4);
  window.put(0, content);
  window.put(0, other);
  EXPECT_TRUE(std::ranges::equal(window.ready(), content));
}

/// Any order, overlaps, sizes and times of taking: the same bytes come out.
TEST(OrderedWindow, BytesComeOutAsTheyAreInAnyOrder) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t end) { return random() % end; };
    const std::size_t kept = below(64), ring = kept + 1 + below(256);
    OrderedWindow window(ring, kept);
    const Content content = random_content(1 + below(2000), seed);
    const ConstBytes bytes(content);
    Content out;
    for (int turn = 0; out.size() < content.size(); ++turn) {
      ASSERT_LT(turn, 100'000);
      // Anywhere near; every fourth right behind the prefix, so that there is progress in the narrowest window.
      std::size_t at = window.prefix();
      std::size_t size = below(window.room() + 1);
      if (below(4) != 0) {
        at = at - std::min(below(8), at) + below(ring);
        size = below(40);
      }
      at = std::min(at, content.size());
      size = std::min(size, content.size() - at);
      if (window.takes(at, size)) {
        window.put(at, bytes.subspan(at, size));
      }
      ASSERT_LE(window.prefix(), content.size());
      if (const std::size_t back = std::min<std::size_t>(window.prefix(), kept); back > 0 && window.taken() >= back) {
        Content again(back);
        window.read(window.taken() - back, again);
        ASSERT_TRUE(std::ranges::equal(again, bytes.subspan(window.taken() - back, back)));
      }
      const ConstBytes ready = window.ready().first(below(window.ready().size() + 1));
      out.insert(out.end(), ready.begin(), ready.end());
      window.take(ready.size());
      ASSERT_EQ(window.taken(), out.size());
    }
    EXPECT_EQ(out, content);
    EXPECT_EQ(window.prefix(), content.size());
  }
}

}  // namespace
}  // namespace sluice::ftx::test
