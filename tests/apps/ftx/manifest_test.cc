// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/manifest.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "apps/ftx/name.h"

namespace sluice::ftx {
namespace {

const std::vector<FileEntry> three{{"a", 10, 0644, 1700000000, 999'999'999},
                                   {"b\xc3\xa9", 0, 0700, -5, 0},
                                   {std::string(255, 'c'), 1ULL << 40, 0, 0, 1}};
constexpr std::uint64_t total = 10 + (1ULL << 40);

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
  EXPECT_FALSE(refused({"a", 1, 0777, 0, 0}));
  EXPECT_TRUE(refused({"a", 1, 04755, 0, 0}));  // set-user-ID
  EXPECT_TRUE(refused({"a", 1, 0644, 0, 1'000'000'000}));
  EXPECT_TRUE(refused({"a", UINT64_MAX, 0644, 0, 0}));
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

TEST(Name, ComponentsAndPaths) {
  struct Row {
    const char* text;
    bool component, path;
  };
  const Row rows[] = {
      {"a", true, true},        {"...", true, true},        {".hidden", true, true}, {"na\xc3\xafve", true, true},
      {"", false, true},        {".", false, false},        {"..", false, false},    {"a/b", false, true},
      {"a/b/", false, true},    {"/", false, false},        {"/a", false, false},    {"a//b", false, false},
      {"a/../b", false, false}, {"a/", false, true},        {"a//", false, false},   {"a\tb", false, false},
      {"a\x7f", false, false},  {"\xc2\x85", false, false}, {"\x85", true, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    EXPECT_EQ(is_component(row.text), row.component);
    EXPECT_EQ(is_relative_path(row.text), row.path);
  }
  EXPECT_TRUE(is_component(std::string(255, 'x')));
  EXPECT_FALSE(is_component(std::string(256, 'x')));
  EXPECT_FALSE(is_component(std::string_view("a\0b", 3)));
}

TEST(Name, PrintableReplacesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\xc2\x9b"), "a?[2Jb?\xc2?");
  EXPECT_TRUE(is_printable(printable("\x01\x7f\xc2\x80")));
}

TEST(Name, ComponentsOfAPath) {
  EXPECT_EQ(components("a/b/c"), (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(components("a/"), (std::vector<std::string_view>{"a"}));
  EXPECT_TRUE(components("").empty());
}

}  // namespace
}  // namespace sluice::ftx
