// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/null.h"

#include <gtest/gtest.h>

#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

TEST(Null, PassesABatchWholeInBothDirections) {
  Stack stack;
  stack.push<Null>();
  expect_everything_passes(stack);
}

TEST(Null, AWriterLooksThroughItAtTheDriversQueue) {
  Stack stack;
  stack.push<Null>();
  stack.driver().hold();
  EXPECT_TRUE(stack.can_write());
  stack.down(data(stack, "fills the driver"));
  EXPECT_FALSE(stack.can_write());
  stack.driver().release();
  EXPECT_TRUE(stack.can_write());
}

TEST(Null, CanBePushedManyTimesAndPopped) {
  Stack stack;
  for (int i = 0; i < 64; ++i) {
    stack.push(make(null_entry(), stack).value());
  }
  stack.down(data(stack, "deep"));
  EXPECT_EQ(data_text(stack.driver().take()), "deep");
  EXPECT_TRUE(stack.pop().has_value());
}

}  // namespace
}  // namespace sluice::test
