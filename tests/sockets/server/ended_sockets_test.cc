// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/ended_sockets.h"

#include <gtest/gtest.h>

namespace sluice::sockets {
namespace {

TEST(EndedSockets, TheOldestIsForgottenFirst) {
  EndedSockets ended(3);
  for (int at = 1; at <= 3; ++at) {
    ended.add(static_cast<ino_t>(at), {.names = {}, .pending_error = at});
  }
  ended.forget(2);
  ended.forget(2);
  ended.add(4, {.names = {}, .pending_error = 4});
  ended.add(1, {.names = {}, .pending_error = 10});  // anew, so it is the youngest
  ended.add(5, {.names = {}, .pending_error = 5});
  EXPECT_EQ(ended.find(2), nullptr);
  EXPECT_EQ(ended.find(3), nullptr) << "the oldest of four";
  for (const auto& [inode, error] : {std::pair{4, 4}, {1, 10}, {5, 5}}) {
    ASSERT_NE(ended.find(static_cast<ino_t>(inode)), nullptr) << inode;
    EXPECT_EQ(ended.find(static_cast<ino_t>(inode))->pending_error, error);
  }
}

}  // namespace
}  // namespace sluice::sockets
