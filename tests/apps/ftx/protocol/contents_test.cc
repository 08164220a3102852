// SPDX-License-Identifier: Apache-2.0
// Places of files in the contents, against a count byte by byte.
#include "apps/ftx/protocol/contents.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "apps/ftx/protocol/message.h"

namespace sluice::ftx {
namespace {

/// What each byte of the contents is: a file's number and whether it is content.
struct Byte {
  std::size_t file = 0;
  bool content = false;
};

void check(const std::vector<FileEntry>& entries) {
  std::vector<Byte> bytes;
  std::vector<ByteRange> files;
  for (const EntryKind kind : {EntryKind::packed, EntryKind::file}) {
    for (const FileEntry& entry : entries) {
      if (entry.kind == kind) {
        files.push_back({bytes.size(), bytes.size() + entry.size_bytes + digest_bytes});
        bytes.insert(bytes.end(), entry.size_bytes, {files.size() - 1, true});
        bytes.insert(bytes.end(), digest_bytes, {files.size() - 1, false});
      }
    }
  }
  const Pack pack(entries);
  const Contents contents(entries, pack);
  ASSERT_EQ(contents.size_bytes(), bytes.size());
  ASSERT_EQ(contents.files(), files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(contents.file(i), files[i]);
  }
  for (std::uint64_t from = 0; from <= bytes.size(); ++from) {
    EXPECT_EQ(contents.first_behind(from), from < bytes.size() ? bytes[from].file : files.size()) << from;
    std::uint64_t content = 0;
    for (std::uint64_t to = from; to <= bytes.size(); ++to) {
      const auto whole =
          std::ranges::count_if(files, [&](const ByteRange& file) { return file.from >= from && file.to <= to; });
      const auto amount = contents.in({from, to});
      ASSERT_EQ(amount.bytes, content) << from << ".." << to;
      ASSERT_EQ(amount.files, static_cast<std::uint64_t>(whole)) << from << ".." << to;
      content += to < bytes.size() && bytes[to].content ? 1 : 0;
    }
  }
}

TEST(Contents, HoldPackedFilesAndThenTheOthersEachWithItsDigest) {
  const FileEntry directory{.name = "d", .kind = EntryKind::directory};
  const FileEntry small{.name = "a", .size_bytes = 10, .kind = EntryKind::packed};
  const FileEntry empty{.name = "e", .kind = EntryKind::packed};
  const FileEntry big{.name = "big", .size_bytes = 50};
  const FileEntry none{.name = "none", .size_bytes = 0};
  check({directory});
  check({small});
  check({big});
  check({none, none});
  check({directory, small, big, empty, none, small, big});
}

}  // namespace
}  // namespace sluice::ftx
