// SPDX-License-Identifier: Apache-2.0
// Owners and extended attributes, as a list carries them.
#include "apps/ftx/protocol/metadata.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {
namespace {

Metadata with(std::vector<ExtendedAttribute> attributes) {
  return {.attributes = ExtendedAttributes::of(std::move(attributes)).value()};
}
std::vector<std::byte> encoded(const Metadata& metadata) {
  std::vector<std::byte> bytes(encoded_bytes(metadata));
  Writer writer(bytes);
  put(writer, metadata);
  return bytes;
}
std::optional<Metadata> decoded(ConstBytes bytes) {
  Reader reader(bytes);
  auto metadata = take_metadata(reader);
  return reader.exhausted() ? metadata : std::nullopt;
}
/// By the bytes of docs/formats/ftx.md, good or not.
std::vector<std::byte> attributes_of(const std::vector<ExtendedAttribute>& all, std::size_t count) {
  std::vector<std::byte> bytes(1 + 2);
  bytes[0] = std::byte{4};
  store_big_endian(bytes.data() + 1, static_cast<std::uint16_t>(count));
  for (const ExtendedAttribute& one : all) {
    const std::size_t at = bytes.size();
    bytes.resize(at + 5);
    bytes[at] = static_cast<std::byte>(one.name.size());
    store_big_endian(bytes.data() + at + 1, static_cast<std::uint32_t>(one.value.size()));
    for (const std::string& text : {one.name, one.value}) {
      bytes.insert(bytes.end(), as_bytes(text).begin(), as_bytes(text).end());
    }
  }
  return bytes;
}

TEST(Metadata, EachComesBackAndNoPartOfItIsOne) {
  for (const Metadata& one :
       {Metadata{}, Metadata{.user = Principal{0, "root"}}, Metadata{.group = Principal{Principal::id_max, ""}},
        Metadata{.user = Principal{1000, "é"}, .group = Principal{7, std::string(255, 'g')}}, with({}),
        with({{"user.b", std::string(2, '\0')}, {"user.a", ""}, {"user." + std::string(250, 'n'), "\x1b[2J"}})}) {
    const auto bytes = encoded(one);
    EXPECT_EQ(decoded(bytes), one);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decoded(ConstBytes(bytes).first(size))) << size;
    }
  }
  const auto sorted = with({{"user.b", "1"}, {"user.a", "2"}}).attributes->all();
  EXPECT_EQ(sorted, (std::vector<ExtendedAttribute>{{"user.a", "2"}, {"user.b", "1"}}));
}

/// Threat: an attribute on which the kernel acts, or one that is checked under another name than it is set.
TEST(Metadata, AttributesThatMayNotTravelAreRefused) {
  const auto good = [](const std::vector<ExtendedAttribute>& all, std::size_t count) {
    return decoded(attributes_of(all, count)).has_value();
  };
  EXPECT_TRUE(good({{"user.a", "x"}}, 1));
  for (const std::string& name :
       {std::string("security.capability"), std::string("trusted.overlay.opaque"),
        std::string("system.posix_acl_access"), std::string("User.a"), std::string("user."), std::string("user"),
        std::string(), std::string("user.a\0b", 8), std::string("\0user.a", 7)}) {
    EXPECT_FALSE(good({{name, "x"}}, 1)) << name;
    EXPECT_FALSE(ExtendedAttributes::of({{name, "x"}})) << name;
  }
  EXPECT_FALSE(good({{"user.a", ""}, {"user.a", ""}}, 2)) << "twice";
  EXPECT_FALSE(good({{"user.b", ""}, {"user.a", ""}}, 2)) << "descending";
  EXPECT_FALSE(good({{"user.a", ""}}, 2)) << "more than there are";
  EXPECT_FALSE(good({{"user.a", ""}}, 0)) << "fewer than there are";
  EXPECT_FALSE(good({}, 0xffff));
  EXPECT_TRUE(good({{"user.a", std::string(ExtendedAttributes::value_bytes_max, 'x')}}, 1));
  EXPECT_FALSE(good({{"user.a", std::string(ExtendedAttributes::value_bytes_max + 1, 'x')}}, 1)) << "too long";
  std::vector<ExtendedAttribute> many;
  for (std::size_t i = 0; i <= ExtendedAttributes::count_max; ++i) {
    many.push_back({"user." + std::to_string(10'000 + i), ""});
  }
  EXPECT_FALSE(good(many, many.size())) << "too many";
  EXPECT_FALSE(ExtendedAttributes::of(many));
  many.pop_back();
  EXPECT_TRUE(good(many, many.size()));
  many.resize(17);
  for (ExtendedAttribute& one : many) {
    one.value = std::string(ExtendedAttributes::value_bytes_max, 'x');
  }
  EXPECT_FALSE(good(many, many.size())) << "too much together";
  EXPECT_FALSE(ExtendedAttributes::of(many));
  EXPECT_FALSE(ExtendedAttributes::of({{"user.a", "1"}, {"user.a", "2"}}));
}

/// Threat: the id that chown(2) takes for "leave it", and a name that a terminal obeys.
TEST(Metadata, PrincipalsThatAreNoneAreRefused) {
  for (const Principal& wrong :
       {Principal{UINT32_MAX, ""}, Principal{1, "a\x1b[2J"}, Principal{1, std::string(1, '\0')}}) {
    EXPECT_FALSE(decoded(encoded({.user = wrong}))) << wrong.name;
    EXPECT_FALSE(decoded(encoded({.group = wrong}))) << wrong.name;
  }
  for (unsigned bits = 8; bits < 256; ++bits) {
    EXPECT_FALSE(decoded(std::vector<std::byte>{static_cast<std::byte>(bits)})) << bits;
  }
}

TEST(Metadata, WhatFollowsEachOtherSharesOne) {
  const Shared<Metadata> one({.user = Principal{1, "a"}});
  const Shared<Metadata> other({.user = Principal{2, "b"}});
  const std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory, .metadata = one},
                                       {.name = "a", .metadata = one},
                                       {.name = "l", .kind = EntryKind::link, .form = "t", .metadata = other},
                                       {.name = "b", .form = Extents({}), .digest = Digest{}, .metadata = other},
                                       {.name = "c"},
                                       {.name = "e"},
                                       {.name = "f", .metadata = one}};
  const auto bytes = encode_manifest(entries);
  std::vector<FileEntry> bare = entries;
  for (FileEntry& entry : bare) {
    entry.metadata = {};
  }
  EXPECT_EQ(bytes.size(), encode_manifest(bare).size() + 3 * encoded_bytes(*one) + 1) << "three of them, and none";
  std::size_t asked = 0;
  const auto manifest = decode_whole_manifest(bytes, entries.size(), 0, [&asked] {
    ++asked;
    return true;
  });
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_EQ(manifest->entries, entries);
  EXPECT_EQ(manifest->entries[0].metadata.get(), manifest->entries[1].metadata.get());
  EXPECT_EQ(asked, 3U);
  // What the entry before it has is not said again.
  auto twice = encode_manifest({{.name = "a", .metadata = one}, {.name = "b"}});
  const auto good = encoded(*one);
  twice.pop_back();
  twice.insert(twice.end(), good.begin(), good.end());
  EXPECT_FALSE(decode_manifest(twice, 2, 0));
  twice.back() ^= std::byte{1};
  EXPECT_TRUE(decode_manifest(twice, 2, 0)) << "but another one is";
  EXPECT_EQ(decode_whole_manifest(bytes, entries.size(), 0, [] { return false; }).error().code, ENOMEM);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_manifest(ConstBytes(bytes).first(size), entries.size(), 0)) << size;
  }
}

}  // namespace
}  // namespace sluice::ftx
