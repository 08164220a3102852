// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/stream_end.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {
namespace {

TEST(StreamEnd, SurvivesEncodeAndParseAndNothingElseIsOne) {
  StreamEnd end{.size_bytes = stream_bytes_max};
  end.digest.fill(std::byte{0xd1});
  const auto bytes = encode_stream_end(end);
  ASSERT_EQ(bytes.size(), stream_end_bytes);
  EXPECT_EQ(parse_stream_end(bytes), end);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_stream_end(ConstBytes(bytes).first(size))) << size;
  }
  auto longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(parse_stream_end(longer));
  for (const std::uint64_t size : {stream_bytes_max + 1, UINT64_MAX}) {
    EXPECT_FALSE(parse_stream_end(encode_stream_end({end.digest, size}))) << size;
  }
}

// In a list a stream is all that there is, and says nothing of size and time.
TEST(StreamEnd, AStreamStandsAloneInItsList) {
  const FileEntry stream{.name = "-", .mode = 0640, .kind = EntryKind::stream};
  const auto good = decode_manifest(encode_manifest({stream}), 1, 0);
  ASSERT_TRUE(good) << good.error().text;
  EXPECT_EQ(good->front(), stream);
  struct Row {
    const char* what;
    std::vector<FileEntry> entries;
    std::uint64_t total = 0;
  };
  const auto with = [&](const std::function<void(FileEntry&)>& change) {
    FileEntry other = stream;
    change(other);
    return std::vector<FileEntry>{other};
  };
  for (const Row& row : std::vector<Row>{
           {"before a file", {stream, {.name = "f"}}},
           {"behind a file", {{.name = "f"}, stream}},
           {"two streams", {stream, {.name = "b", .kind = EntryKind::stream}}},
           {"in a directory",
            {{.name = "d", .kind = EntryKind::directory}, {.name = "s", .kind = EntryKind::stream, .parent = 1}}},
           {"where the transfer goes itself", with([](FileEntry& entry) { entry.name = ""; })},
           {"with a size", with([](FileEntry& entry) { entry.size_bytes = 5; }), 5},
           {"with a size that nothing counts", with([](FileEntry& entry) { entry.size_bytes = 5; })},
           {"with a time", with([](FileEntry& entry) { entry.mtime_s = 1; })},
           {"with a time below a second", with([](FileEntry& entry) { entry.mtime_ns = 1; })},
           {"with a digest", with([](FileEntry& entry) { entry.digest = Digest{}; })},
           {"with extents", with([](FileEntry& entry) { entry.form = Extents({}); })},
           {"with an owner",
            with([](FileEntry& entry) { entry.metadata = Shared<Metadata>({.user = Principal{7, ""}}); })},
           {"with a mode of more than that", with([](FileEntry& entry) { entry.mode = 01000; })},
           {"another name of it", {stream, {.name = "h", .kind = EntryKind::hard_link, .original = 1}}}}) {
    EXPECT_FALSE(decode_manifest(encode_manifest(row.entries), row.entries.size(), row.total)) << row.what;
  }
  EXPECT_FALSE(decode_manifest(encode_manifest({stream}), 1, 1)) << "an offer of bytes";
  const Deletion deletion;
  EXPECT_FALSE(decode_whole_manifest(encode_manifest({stream}, &deletion), 1, 0)) << "removals";
}

}  // namespace
}  // namespace sluice::ftx
