// SPDX-License-Identifier: Apache-2.0
// Where small files lie in the pack.
#include "apps/ftx/protocol/pack.h"

#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

TEST(Pack, HoldsThePackedFilesOfAListInItsOrder) {
  const std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory},
                                       {.name = "a", .size_bytes = 10, .kind = EntryKind::packed},
                                       {.name = "big", .size_bytes = 1000},
                                       {.name = "empty", .kind = EntryKind::packed, .parent = 1},
                                       {.name = "l", .kind = EntryKind::link, .form = "x"},
                                       {.name = "b", .size_bytes = 5, .kind = EntryKind::packed}};
  const Pack pack(entries);
  ASSERT_EQ(pack.files(), 3U);
  EXPECT_EQ(pack.size_bytes(), 10U + 16 + 16 + 5 + 16);
  const std::uint64_t from[] = {0, 26, 42, 63};
  const std::uint32_t entry[] = {1, 3, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pack[i].entry, entry[i]);
    EXPECT_EQ(pack[i].from, from[i]);
    EXPECT_EQ(pack[i].end, from[i + 1]);
  }
  // Against a byte by byte count.
  std::uint64_t content = 0;
  for (std::uint64_t at = 0; at < pack.size_bytes(); ++at) {
    const std::size_t file = at < 26 ? 0 : at < 42 ? 1 : 2;
    EXPECT_EQ(pack.at(at), file) << at;
    EXPECT_EQ(pack.content_before(at), content) << at;
    content += at < pack[file].end - 16 ? 1 : 0;
  }
  EXPECT_EQ(pack.content_before(pack.size_bytes()), content);
  EXPECT_EQ(content, 15U);
}

TEST(Pack, MayBeEmpty) {
  const std::vector<FileEntry> entries{{.name = "big", .size_bytes = 1000}};
  const Pack pack(entries);
  EXPECT_EQ(pack.files(), 0U);
  EXPECT_EQ(pack.size_bytes(), 0U);
  EXPECT_EQ(pack.content_before(0), 0U);
}

}  // namespace
}  // namespace sluice::ftx
