// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/ring.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

TEST(Ring, KeepsItsOrderWhileItGrowsAndWraps) {
  Ring<int> ring;
  int pushed = 0, popped = 0;
  Prng prng(3);
  for (int i = 0; i < 10000; ++i) {
    if (prng.chance(0.55) || ring.empty()) {
      ring.push(pushed++);
    } else {
      ASSERT_EQ(ring.front(), popped++);
      ring.pop();
    }
    ASSERT_EQ(ring.size(), static_cast<std::size_t>(pushed - popped));
    if (!ring.empty()) {
      ASSERT_EQ(ring.back(), pushed - 1);
    }
  }
}

}  // namespace
}  // namespace sluice::ftx
