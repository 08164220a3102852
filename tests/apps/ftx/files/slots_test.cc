// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/slots.h"

#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

TEST(Slots, AgreeWithASet) {
  for (const std::uint64_t count : {1U, 2U, 63U, 64U, 65U, 127U, 128U, 129U, 1000U}) {
    SCOPED_TRACE(count);
    Slots slots(count);
    std::set<std::uint64_t> model;
    Prng prng(count);
    while (model.size() < count) {
      const std::uint64_t slot = prng.below(count);
      EXPECT_EQ(slots.marked(slot), model.contains(slot));
      slots.mark(slot);
      model.insert(slot);
      std::uint64_t prefix = 0;
      while (model.contains(prefix)) {
        ++prefix;
      }
      ASSERT_EQ(slots.prefix(), prefix);
      ASSERT_EQ(slots.received(), model.size());
      ASSERT_EQ(slots.whole(), model.size() == count);
    }
  }
  EXPECT_TRUE(Slots(0).whole());
}

}  // namespace
}  // namespace sluice::ftx
