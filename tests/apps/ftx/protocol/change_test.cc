// SPDX-License-Identifier: Apache-2.0
// What a receiver says that it will change, as it travels.
#include "apps/ftx/protocol/change.h"

#include <gtest/gtest.h>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr Envelope changes_envelope{.kind = Kind::changes, .connection = 7};

std::vector<std::byte> records_of(const std::vector<Change>& changes) {
  std::vector<std::byte> bytes(changes.size() * change_bytes_max);
  Writer writer(bytes);
  for (const Change& change : changes) {
    put(writer, change);
  }
  bytes.resize(writer.size());
  return bytes;
}

std::vector<std::byte> datagram_of(std::uint64_t from, const std::vector<Change>& changes) {
  std::vector<std::byte> out(control_bytes_max);
  out.resize(emit_changes(changes_envelope, from, records_of(changes), out));
  return out;
}

bool accepted(const Change& change) { return parse_changes(datagram_of(0, {change})).has_value(); }

TEST(Changes, EachComesBackAndNoPartOfItIsOne) {
  const std::vector<Change> changes{
      {.kind = Change::Kind::content, .differences = Change::size | Change::time, .entry = 1},
      {.kind = Change::Kind::content, .entry = 2},
      {.kind = Change::Kind::made, .differences = Change::is_new, .entry = 3},
      {.kind = Change::Kind::linked, .differences = Change::mode, .entry = 4, .other = 1},
      {.kind = Change::Kind::attributes, .differences = Change::time | Change::mode, .entry = 5},
      {.kind = Change::Kind::removed, .path = "d/e/"},
      {.kind = Change::Kind::removed, .path = "f"}};
  const auto bytes = datagram_of(12, changes);
  const auto parsed = parse_changes(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->from, 12U);
  EXPECT_EQ(parsed->changes, changes);
  std::size_t whole = 0;
  for (std::size_t size = envelope_bytes; size < bytes.size(); ++size) {
    whole += parse_changes(ConstBytes(bytes).first(size)) ? 1 : 0;
  }
  EXPECT_EQ(whole, changes.size() - 1) << "cut between two of them, and nowhere else";
  std::vector<std::byte> out(control_bytes_max);
  EXPECT_EQ(parse_noted(ConstBytes(out).first(emit_noted(changes_envelope, 99, out))), 99U);
}

TEST(Changes, TheLongestPathFitsASealedDatagram) {
  const Change longest{.kind = Change::Kind::removed, .path = change_path(std::string(path_bytes_max - 1, 'x') + "/")};
  EXPECT_EQ(longest.path.size(), path_bytes_max);
  EXPECT_FALSE(accepted(longest)) << "no component is as long as that";
  std::string deep;
  for (int i = 0; i < 40; ++i) {
    deep += std::string(100, 'd') + "/";
  }
  const Change cut{.kind = Change::Kind::removed, .path = change_path(deep)};
  EXPECT_LE(cut.path.size(), path_bytes_max);
  EXPECT_EQ(cut.path.substr(0, 5), ".../d");
  EXPECT_TRUE(cut.path.ends_with("d/"));
  EXPECT_TRUE(accepted(cut));
  EXPECT_LE(records_of({cut}).size(), changes_bytes_max);
  EXPECT_LE(datagram_of(0, {cut}).size() + seal_bytes, control_bytes_max);
  EXPECT_EQ(change_path("a\nb\x1b"), "a?b?");
}

/// Threat: words that lead a terminal astray, paths that lead elsewhere, what no entry can be.
TEST(Changes, WhatCannotBeIsRefused) {
  using Kind = Change::Kind;
  const auto with = [](Kind kind, unsigned differences) {
    Change change{.kind = kind, .differences = static_cast<std::uint8_t>(differences), .entry = 1, .other = 1};
    change.path = kind == Kind::removed ? "x" : "";
    return accepted(change);
  };
  for (unsigned bits = 0; bits < 256; ++bits) {
    const bool known = bits == Change::is_new || bits % 2 == 0;
    EXPECT_EQ(with(Kind::content, bits), known) << bits;
    EXPECT_EQ(with(Kind::linked, bits), known) << bits;
    EXPECT_EQ(with(Kind::made, bits), known && (bits & 3U) != 0) << bits;
    EXPECT_EQ(with(Kind::attributes, bits), bits != 0 && (bits & 7U) == 0) << bits;
    EXPECT_EQ(with(Kind::removed, bits), bits == 0) << bits;
    EXPECT_FALSE(with(Kind{0}, bits) || with(Kind{6}, bits)) << bits;
  }
  EXPECT_FALSE(accepted({.kind = Kind::content, .entry = 0}));
  for (const char* path : {"", "/", "/a", "..", "a/../b", "a//b", "a\nb", "\x1b[2J", "a\x7f"}) {
    EXPECT_FALSE(accepted({.kind = Kind::removed, .path = path})) << printable(path);
  }
  EXPECT_FALSE(parse_changes(datagram_of(0, {}))) << "nothing";
  std::vector<Change> removals(8, {.kind = Kind::removed, .path = std::string(140, 'x')});
  removals.back().path += "xxxxx";
  auto full = datagram_of(0, removals);
  ASSERT_EQ(full.size(), envelope_bytes + 8 + changes_bytes_max);
  EXPECT_TRUE(parse_changes(full));
  const auto another = records_of({{.kind = Kind::content, .entry = 1}});
  full.insert(full.end(), another.begin(), another.end());
  EXPECT_FALSE(parse_changes(full)) << "more than fits sealed";
  EXPECT_TRUE(parse_changes(datagram_of(changes_max, {{.kind = Kind::content, .entry = 1}})));
  EXPECT_FALSE(parse_changes(datagram_of(changes_max + 1, {{.kind = Kind::content, .entry = 1}})));
}

TEST(Changes, OfEachEntryOnceInOrderAndWhatItsKindAllows) {
  using Kind = Change::Kind;
  const std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory},
                                       {.name = "a", .size_bytes = 1},
                                       {.name = "l", .kind = EntryKind::link, .form = "t"},
                                       {.name = "h", .kind = EntryKind::hard_link, .original = 2},
                                       {.name = "x", .kind = EntryKind::left_out}};
  const auto good = [&](Kind kind, std::uint32_t entry, std::uint32_t before = 0, std::uint32_t other = 2,
                        unsigned bits = Change::is_new) {
    return fits({.kind = kind, .differences = static_cast<std::uint8_t>(bits), .entry = entry, .other = other}, entries,
                before);
  };
  EXPECT_TRUE(good(Kind::made, 1) && good(Kind::content, 2) && good(Kind::made, 3) && good(Kind::linked, 4));
  EXPECT_TRUE(good(Kind::content, 4)) << "where the first name is left alone";
  EXPECT_TRUE(good(Kind::attributes, 3) && good(Kind::removed, 0, 5));
  EXPECT_FALSE(good(Kind::content, 1) || good(Kind::content, 3) || good(Kind::content, 5));
  EXPECT_FALSE(good(Kind::made, 2) || good(Kind::made, 4) || good(Kind::made, 5));
  EXPECT_FALSE(good(Kind::made, 1, 0, 2, Change::content)) << "a directory holds nothing";
  EXPECT_FALSE(good(Kind::linked, 1) || good(Kind::linked, 3) || good(Kind::attributes, 5));
  EXPECT_FALSE(good(Kind::linked, 4, 0, 0) || good(Kind::linked, 4, 0, 1) || good(Kind::linked, 4, 0, 6));
  EXPECT_FALSE(good(Kind::content, 6)) << "not in the list";
  EXPECT_FALSE(good(Kind::content, 2, 2)) << "twice";
  EXPECT_FALSE(good(Kind::content, 2, 3)) << "not in order";
}

}  // namespace
}  // namespace sluice::ftx
