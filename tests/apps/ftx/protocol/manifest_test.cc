// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/manifest.h"

#include <gtest/gtest.h>

#include <cerrno>

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
  EXPECT_TRUE(refused({"a", 1ULL << 62, 0644, 0, 0}));
  EXPECT_FALSE(refused({"a", (1ULL << 62) - 1, 0644, 0, 0}));
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

}  // namespace
}  // namespace sluice::ftx
