// SPDX-License-Identifier: Apache-2.0
#include "base/prng.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

// The reference output for seed 1234567 as published with the algorithm's reference implementation.
TEST(Prng, GivesTheReferenceSequence) {
  Prng prng(1234567);
  EXPECT_EQ(prng(), 6457827717110365317U);
  EXPECT_EQ(prng(), 3203168211198807973U);
  EXPECT_EQ(prng(), 9817491932198370423U);
}

TEST(Prng, FillsWithItsNumbersFromTheLeastSignificantByteOn) {
  Prng prng(1234567);
  std::array<std::byte, 13> bytes{};
  prng.fill(Bytes(bytes).first(11));
  // 6457827717110365317 = 0x599ed017fb08fc85, 3203168211198807973 = 0x2c73f08458540fa5
  const std::array<unsigned, 13> expected = {0x85, 0xfc, 0x08, 0xfb, 0x17, 0xd0, 0x9e, 0x59, 0xa5, 0x0f, 0x54, 0, 0};
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_EQ(std::to_integer<unsigned>(bytes[at]), expected[at]) << at;
  }
  EXPECT_EQ(prng(), 9817491932198370423U);
}

TEST(Prng, BelowStaysBelowAndChanceObeysItsProbability) {
  Prng prng(1);
  int hits = 0;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_LT(prng.below(7), 7U);
    hits += prng.chance(0.25) ? 1 : 0;
  }
  EXPECT_NEAR(hits, 2500, 200);
  EXPECT_FALSE(prng.chance(0));
  EXPECT_TRUE(prng.chance(1));
}

}  // namespace
}  // namespace sluice
