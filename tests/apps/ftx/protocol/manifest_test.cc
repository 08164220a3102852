// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/manifest.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace sluice::ftx {
namespace {

const std::vector<FileEntry> three{{"a", 10, 1700000000, 999'999'999, 0644},
                                   {"b\xc3\xa9", 0, -5, 0, 0700},
                                   {std::string(255, 'c'), 1ULL << 40, 0, 1, 0}};
constexpr std::uint64_t total = 10 + (1ULL << 40);

TEST(Manifest, AHardLinkIsAnotherNameOfAFileBeforeIt) {
  const auto link_to = [](std::uint32_t original) {
    const std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory},
                                         {.name = "a", .size_bytes = 1},
                                         {.name = "p", .size_bytes = 1, .kind = EntryKind::packed},
                                         {.name = "l", .kind = EntryKind::link, .form = "a"},
                                         {.name = "h", .kind = EntryKind::hard_link, .original = 2},
                                         {.name = "x", .kind = EntryKind::hard_link, .original = original},
                                         {.name = "b", .size_bytes = 1}};
    const auto decoded = decode_manifest(encode_manifest(entries), entries.size(), 3);
    return decoded && *decoded == entries;
  };
  EXPECT_TRUE(link_to(2) && link_to(3));
  for (const std::uint32_t original : {0U, 1U, 4U, 5U, 6U, 7U, 8U, UINT32_MAX}) {
    EXPECT_FALSE(link_to(original)) << original;
  }
  auto far = encode_manifest({{.name = "a"}, {.name = "x", .kind = EntryKind::hard_link, .original = 1}});
  far[entry_bytes_min + 1 + 7] = std::byte{1};  // of 64 bits
  EXPECT_FALSE(decode_manifest(far, 2, 0));
  EXPECT_FALSE(decode_manifest(far, 2, std::uint64_t{1} << 56 | 1));
}

TEST(Manifest, AnEndAsksForRemovals) {
  const std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory},
                                       {.name = "x", .kind = EntryKind::left_out, .parent = 1}};
  for (const Deletion& deletion :
       {Deletion{}, Deletion{.empty_sources = true, .files_max = 0, .rules = {{.pattern = "*.o"}}}}) {
    const auto bytes = encode_manifest(entries, &deletion);
    const auto manifest = decode_whole_manifest(bytes, 2, 0);
    ASSERT_TRUE(manifest) << manifest.error().text;
    EXPECT_EQ(manifest->entries, entries);
    EXPECT_EQ(manifest->deletion, deletion);
    EXPECT_FALSE(decode_manifest(bytes, 2, 0)) << "who does not know of removals";
    const std::size_t without = encode_manifest(entries).size();
    for (std::size_t size = without + 1; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_whole_manifest(ConstBytes(bytes).first(size), 2, 0)) << size;
    }
    for (const int flags : {4, 128}) {
      auto wrong = bytes;
      wrong[without] = static_cast<std::byte>(flags);
      EXPECT_FALSE(decode_whole_manifest(wrong, 2, 0)) << flags;
    }
  }
  EXPECT_FALSE(decode_whole_manifest(encode_manifest(entries), 2, 0).value().deletion);
  const Deletion seven{.files_max = 7};
  auto bounded = encode_manifest(entries, &seven);
  bounded[encode_manifest(entries).size()] = std::byte{0};
  EXPECT_FALSE(decode_whole_manifest(bounded, 2, 0)) << "a bound that is none";
}

TEST(Manifest, AFileMayHaveTheDigestOfItsContentAndNothingElse) {
  Digest digest;
  digest.fill(std::byte{0xd1});
  const std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory},
                                       {.name = "a", .size_bytes = 1, .parent = 1, .digest = digest},
                                       {.name = "p", .size_bytes = 2, .kind = EntryKind::packed, .digest = digest},
                                       {.name = "b", .size_bytes = 3}};
  const auto bytes = encode_manifest(entries);
  const auto decoded = decode_manifest(bytes, entries.size(), 6);
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_EQ(*decoded, entries);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_manifest(ConstBytes(bytes).first(size), entries.size(), 6)) << size;
  }
  auto missing = bytes;
  missing[entry_bytes_min + 1] &= std::byte{0x7f};
  EXPECT_FALSE(decode_manifest(missing, entries.size(), 6)) << "sixteen bytes that nothing announces";
  for (const EntryKind kind : {EntryKind::directory, EntryKind::link, EntryKind::hard_link, EntryKind::left_out}) {
    FileEntry other{.name = "x", .kind = kind, .digest = digest};
    other.form = kind == EntryKind::link ? "t" : "";
    other.original = kind == EntryKind::hard_link ? 1 : 0;
    EXPECT_FALSE(decode_manifest(encode_manifest({{.name = "f"}, other}), 2, 0)) << static_cast<int>(kind);
  }
}

TEST(Manifest, OfASparseFileTheExtentsAreListedAndTheContentCounts) {
  const std::vector<FileEntry> entries{{.name = "s",
                                        .size_bytes = 1ULL << 40,
                                        .form = Extents(std::vector<ByteRange>{{1, 3}, {5, 6}}),
                                        .digest = Digest{}},
                                       {.name = "h", .size_bytes = 1ULL << 40, .form = Extents({})},
                                       {.name = "f", .size_bytes = 4}};
  const auto bytes = encode_manifest(entries);
  EXPECT_EQ(bytes.size(), entry_bytes(entries[0]) + entry_bytes(entries[1]) + entry_bytes(entries[2]));
  const auto decoded = decode_manifest(bytes, 3, 7);
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_EQ(*decoded, entries);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_manifest(ConstBytes(bytes).first(size), 3, 7)) << size;
  }
  for (const EntryKind kind : {EntryKind::directory, EntryKind::packed, EntryKind::left_out}) {
    EXPECT_FALSE(decode_manifest(encode_manifest({{.name = "x", .kind = kind, .form = Extents({})}}), 1, 0));
  }
  // As bytes, since nothing encodes them.
  struct Row {
    const char* what;
    std::uint32_t count;
    std::vector<std::uint64_t> numbers;
  };
  for (const Row& row : std::initializer_list<Row>{{"beyond the end", 1, {0, 101}},
                                                   {"backwards", 1, {5, 4}},
                                                   {"overlapping", 2, {0, 5, 4, 6}},
                                                   {"touching", 2, {0, 5, 5, 6}},
                                                   {"more than there are", 2, {0, 5}},
                                                   {"without end", UINT32_MAX, {0, 5}}}) {
    std::vector<std::byte> lie = encode_manifest({{.name = "x", .size_bytes = 100, .form = Extents({})}});
    store_big_endian(lie.data() + lie.size() - 4, row.count);
    for (const std::uint64_t number : row.numbers) {
      lie.resize(lie.size() + 8);
      store_big_endian(lie.data() + lie.size() - 8, number);
    }
    for (std::uint64_t sum = 0; sum < 10; ++sum) {
      EXPECT_FALSE(decode_manifest(lie, 1, sum)) << row.what;
    }
  }
}

TEST(Manifest, SurvivesEncodeAndDecode) {
  const auto decoded = decode_manifest(encode_manifest(three), 3, total);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, three);
}

TEST(Manifest, EveryCutIsRefused) {
  const auto bytes = encode_manifest(three);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_manifest(ConstBytes(bytes).first(size), 3, total)) << size;
  }
}

TEST(Manifest, WhatDoesNotMatchTheOfferIsRefused) {
  const auto bytes = encode_manifest(three);
  EXPECT_FALSE(decode_manifest(bytes, 2, total));
  EXPECT_FALSE(decode_manifest(bytes, 4, total));
  EXPECT_FALSE(decode_manifest(bytes, SIZE_MAX, total));
  EXPECT_FALSE(decode_manifest(bytes, 3, total - 1));
  EXPECT_FALSE(decode_manifest(bytes, 3, total + 1));
}

TEST(Manifest, WrongNumbersAreRefused) {
  const auto refused = [](const FileEntry& entry) {
    return !decode_manifest(encode_manifest({entry}), 1, entry.size_bytes).has_value();
  };
  EXPECT_FALSE(refused({"a", 1, 0, 0, 0777}));
  EXPECT_TRUE(refused({"a", 1, 0, 0, 04755}));  // set-user-ID
  EXPECT_TRUE(refused({"a", 1, 0, 1'000'000'000, 0644}));
  EXPECT_TRUE(refused({"a", UINT64_MAX, 0644, 0, 0}));
  EXPECT_TRUE(refused({"a", 1ULL << 62, 0644, 0, 0}));
  EXPECT_TRUE(refused({"a", file_content_max, 0644, 0, 0}));
  EXPECT_FALSE(refused({"a", file_content_max - 1, 0644, 0, 0}));
  const FileEntry holes{.name = "a", .size_bytes = file_bytes_max - 1, .form = Extents({})};
  EXPECT_TRUE(decode_manifest(encode_manifest({holes}), 1, 0));
}

TEST(Manifest, SumsDoNotOverflow) {
  const std::uint64_t half = 1ULL << 62;
  const auto bytes = encode_manifest({{"a", half}, {"b", half}, {"c", half}, {"d", half}});
  EXPECT_FALSE(decode_manifest(bytes, 4, 0));
}

TEST(Manifest, ANameTwiceIsRefused) {
  const auto decoded = decode_manifest(encode_manifest({{"a", 1}, {"a", 1}}), 2, 2);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, EPERM);
}

// --- Trees ---------------------------------------------------------------------------------------------------------

FileEntry directory(std::string name, std::uint32_t parent = 0) {
  return {.name = std::move(name), .mode = 0755, .kind = EntryKind::directory, .parent = parent};
}
FileEntry file(std::string name, std::uint32_t parent = 0, EntryKind kind = EntryKind::packed) {
  return {.name = std::move(name), .kind = kind, .parent = parent};
}
FileEntry link(std::string name, std::string target, std::uint32_t parent = 0) {
  return {.name = std::move(name), .kind = EntryKind::link, .parent = parent, .form = std::move(target)};
}

/// 0: accepted.
int refused(const std::vector<FileEntry>& entries) {
  std::uint64_t bytes = 0;
  for (const FileEntry& entry : entries) {
    bytes += entry.size_bytes;
  }
  const auto decoded = decode_manifest(encode_manifest(entries), entries.size(), bytes);
  if (decoded) {
    EXPECT_EQ(*decoded, entries);
    return 0;
  }
  EXPECT_FALSE(decoded.error().text.empty());
  return decoded.error().code;
}

TEST(Manifest, ATreeIsReadAsItWasWritten) {
  const std::vector<FileEntry> tree{directory(""),
                                    file("a"),
                                    directory("d"),
                                    file("a", 3),
                                    directory("e", 3),
                                    link("l", "../..\n", 5),
                                    file("b", 5, EntryKind::file)};
  EXPECT_EQ(refused(tree), 0);
  EXPECT_EQ(path_of(tree, tree[5]), "d/e/l");
  EXPECT_EQ(path_of(tree, tree[1]), "a");
  EXPECT_EQ(encode_manifest(tree).size(), entry_bytes(tree[5]) + 6 * entry_bytes_min + 5);
}

TEST(Manifest, BytesAreThoseOfTheDocument) {
  std::vector<FileEntry> tree{directory("d"), file("a", 1)};
  tree[1].size_bytes = 100;
  tree[0].mtime_s = tree[1].mtime_s = 0x6553f100;
  const std::vector<std::uint8_t> wire{
      1, 0, 0, 0, 0, 1, 0xed, 0, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 1, 'd',  //
      3, 0, 0, 0, 1, 1, 0xa4, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 1, 'a'};
  const auto bytes = std::as_bytes(std::span(wire));
  EXPECT_EQ(encode_manifest(tree), std::vector<std::byte>(bytes.begin(), bytes.end()));
}

/// Threat: a list that is no tree. The receiver opens directories and makes files as it says.
TEST(Manifest, EachLieAboutATreeIsRefused) {
  const FileEntry d = directory("d");
  struct Lie {
    const char* what;
    int code;
    std::vector<FileEntry> entries;
  };
  const Lie lies[] = {
      {"a parent path", EPERM, {d, file("..", 1)}},
      {"an absolute path", EPERM, {file("/etc/passwd")}},
      {"a path of two components", EPERM, {d, file("d/x")}},
      {"itself", EPERM, {d, file(".", 1)}},
      {"a control character", EPERM, {d, file("a\x1b[2J", 1)}},
      {"a directory that comes later", EXDEV, {file("x", 2), d}},
      {"a directory in itself", EXDEV, {directory("d", 1)}},
      {"two directories in each other", EXDEV, {directory("d", 2), directory("e", 1)}},
      {"a directory that is not there", EXDEV, {d, file("x", 77)}},
      {"the last number", EXDEV, {d, file("x", UINT32_MAX)}},
      {"a file as a directory", EXDEV, {file("f"), file("x", 1)}},
      {"a link as a directory", EXDEV, {link("l", "/etc"), file("x", 1)}},
      {"a name twice in one directory", EPERM, {d, file("x", 1), file("x", 1)}},
      {"a link and a directory of one name", EPERM, {link("d", "/etc"), directory("d"), file("x", 2)}},
      {"a directory twice", EPERM, {d, d}},
      {"the destination in a directory", EINVAL, {d, directory("", 1)}},
      {"the destination behind something", EINVAL, {d, directory("")}},
      {"the destination as a file", EINVAL, {file("")}},
      {"the destination as a directory of the list", EXDEV, {directory(""), file("x", 1)}},
      {"a directory with a size", EINVAL, {{.name = "d", .size_bytes = 1, .kind = EntryKind::directory}}},
      {"a link without a target", EINVAL, {link("l", "")}},
      {"a link with a NUL", EINVAL, {link("l", std::string("a\0b", 3))}},
      {"a link that is too long", EINVAL, {link("l", std::string(link_target_bytes_max + 1, 'x'))}},
      {"a packed file that is too large",
       EINVAL,
       {{.name = "f", .size_bytes = packed_bytes_max + 1, .kind = EntryKind::packed}}},
      {"no kind", EINVAL, {file("x", 0, EntryKind{0})}},
      {"an unknown kind", EINVAL, {file("x", 0, EntryKind{8})}},
      {"what is left out with a size", EINVAL, {{.name = "x", .size_bytes = 1, .kind = EntryKind::left_out}}},
      {"what is left out as a directory", EXDEV, {{.name = "l", .kind = EntryKind::left_out}, file("x", 1)}},
      {"a hard link as a directory",
       EXDEV,
       {file("f"), {.name = "h", .kind = EntryKind::hard_link, .original = 1}, file("x", 2)}},
  };
  for (const Lie& lie : lies) {
    EXPECT_EQ(refused(lie.entries), lie.code) << lie.what;
  }
  EXPECT_EQ(refused({d, file("x", 1), file("x")}), 0) << "the same name in two directories";
  EXPECT_EQ(refused({link("l", std::string(link_target_bytes_max, 'x'))}), 0);
}

TEST(Manifest, ATreeHasABoundedDepth) {
  std::vector<FileEntry> entries{directory("d")};
  while (entries.size() <= tree_depth_max) {
    entries.push_back(directory("d", static_cast<std::uint32_t>(entries.size())));
  }
  EXPECT_EQ(refused(entries), 0);
  entries.push_back(file("f", static_cast<std::uint32_t>(entries.size())));
  EXPECT_EQ(refused(entries), EPERM);
}

}  // namespace
}  // namespace sluice::ftx
