// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/stream_ring.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "tests/apps/ftx/content.h"

namespace sluice::ftx::test {
namespace {

TEST(StreamRing, AnythingBetweenBeginAndEndCanBeRead) {
  const Content content = random_content(10'000, 1);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    const std::size_t size = 1 + prng.below(300);
    StreamRing ring(size);
    for (int i = 0; i < 2000 && ring.end() < content.size(); ++i) {
      const Bytes room = ring.room();
      ASSERT_EQ(room.empty(), ring.end() - ring.begin() == size);
      const std::size_t adds = std::min<std::size_t>(prng.below(room.size() + 1), content.size() - ring.end());
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(ring.end()), adds, room.begin());
      ring.add(adds);
      const std::uint64_t from = ring.begin() + prng.below(ring.end() - ring.begin() + 1);
      Content out(prng.below(ring.end() - from + 1));
      ASSERT_TRUE(ring.holds(from, out.size()));
      ring.read(from, out);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), content.begin() + static_cast<std::ptrdiff_t>(from)));
      EXPECT_FALSE(ring.holds(from, ring.end() - from + 1));
      EXPECT_FALSE(ring.holds(from, SIZE_MAX));
      ring.forget(prng.below(ring.end() + 1));  // sometimes what is forgotten already
      EXPECT_FALSE(ring.begin() > 0 && ring.holds(ring.begin() - 1, 1));
    }
    ring.forget(UINT64_MAX);
    EXPECT_EQ(ring.begin(), ring.end());
  }
}

}  // namespace
}  // namespace sluice::ftx::test
