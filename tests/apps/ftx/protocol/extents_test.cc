// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/extents.h"

#include <gtest/gtest.h>

#include <string>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

using Ranges = std::vector<ByteRange>;

TEST(Extents, WhatIsAndWhatIsNone) {
  struct Row {
    const char* what;
    Ranges ranges;
    bool good;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"a hole and nothing else", {}, true},
           {"all of the file", {{0, 100}}, true},
           {"a hole in the middle", {{0, 1}, {99, 100}}, true},
           {"nothing in it", {{5, 5}}, false},
           {"backwards", {{6, 5}}, false},
           {"beyond the end", {{0, 101}}, false},
           {"far beyond the end", {{0, 1}, {2, UINT64_MAX}}, false},
           {"touching", {{0, 5}, {5, 6}}, false},
           {"overlapping", {{0, 5}, {4, 6}}, false},
           {"descending", {{50, 60}, {0, 5}}, false},
       }) {
    EXPECT_EQ(Extents::are_extents(row.ranges, 100), row.good) << row.what;
  }
  Ranges many;
  for (std::uint64_t i = 0; i <= Extents::count_max; ++i) {
    many.push_back({2 * i, 2 * i + 1});
  }
  EXPECT_FALSE(Extents::are_extents(many, UINT64_MAX));
  many.pop_back();
  EXPECT_TRUE(Extents::are_extents(many, UINT64_MAX));
}

/// Against a list of where each byte of the content lies.
TEST(Extents, EachByteOfTheContentHasItsPlace) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Ranges ranges;
    std::vector<std::uint64_t> places;
    for (std::uint64_t at = prng.below(3), left = prng.below(6); left > 0; --left) {
      const ByteRange range{at, at + 1 + prng.below(20)};
      ranges.push_back(range);
      for (std::uint64_t byte = range.from; byte < range.to; ++byte) {
        places.push_back(byte);
      }
      at = range.to + 1 + prng.below(1000);
    }
    const Extents extents(ranges);
    ASSERT_EQ(extents.content_bytes(), places.size());
    ASSERT_EQ(extents.count(), ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(extents[i], ranges[i]);
    }
    for (std::size_t offset = 0; offset < places.size(); ++offset) {
      const FileRun run = extents.run_at(offset);
      ASSERT_EQ(run.at, places[offset]);
      ASSERT_EQ(places[offset + run.bytes - 1], run.at + run.bytes - 1);
      ASSERT_TRUE(offset + run.bytes == places.size() || places[offset + run.bytes] > run.at + run.bytes);
    }
  }
}

}  // namespace
}  // namespace sluice::ftx
