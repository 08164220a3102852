// SPDX-License-Identifier: Apache-2.0
// The bytes of a journal: what is a record, and what is none.
#include "apps/ftx/files/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

using Content = std::vector<std::byte>;

JournalHead head_of(std::uint64_t blocks) {
  return {.size_bytes = blocks * digest_block_bytes,
          .mtime_s = -5,
          .mtime_ns = 6,
          .name = journal_name_hash("name"),
          .inode = 8,
          .salt = 9};
}

KnownBlock known_block(std::uint64_t index) { return {index, digest_of(std::as_bytes(std::span(&index, 1)))}; }

Content operator+(Content one, const Content& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

std::vector<std::uint64_t> indexes(const Result<Journal>& journal) {
  std::vector<std::uint64_t> found;
  for (const KnownBlock& known : journal.value().blocks) {
    found.push_back(known.index);
  }
  return found;
}

using Indexes = std::vector<std::uint64_t>;

TEST(Journal, SaysWhatWasWritten) {
  const JournalHead head = head_of(10);
  const Content bytes = encode_journal_head(head) +
                        encode_known(head, {known_block(7), known_block(2), known_block(3)}) +
                        encode_known(head, {known_block(0)});
  const auto journal = parse_journal(bytes);
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->head, head);
  EXPECT_EQ(journal->blocks, (std::vector<KnownBlock>{known_block(0), known_block(2), known_block(3), known_block(7)}));
  EXPECT_EQ(journal->valid_bytes, bytes.size());
}

TEST(Journal, TheLastRecordOfABlockCounts) {
  const JournalHead head = head_of(10);
  const std::uint64_t gone[] = {2, 7};
  const Content bytes = encode_journal_head(head) +
                        encode_known(head, {known_block(2), known_block(3), known_block(7)}) +
                        encode_withdrawn(head, gone);
  EXPECT_EQ(indexes(parse_journal(bytes)), (Indexes{3}));
  KnownBlock other = known_block(7);
  other.digest[0] ^= std::byte{1};
  const auto again = parse_journal(bytes + encode_known(head, {other}));
  EXPECT_EQ(again->blocks, (std::vector<KnownBlock>{known_block(3), other}));
}

TEST(Journal, ManyBlocksTakeSeveralRecords) {
  const JournalHead head = head_of(10'000);
  std::vector<KnownBlock> blocks;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    blocks.push_back(known_block(i));
  }
  EXPECT_EQ(parse_journal(encode_journal_head(head) + encode_known(head, blocks))->blocks, blocks);
}

TEST(Journal, ATornRecordEndsIt) {
  const JournalHead head = head_of(10);
  const Content before = encode_journal_head(head) + encode_known(head, {known_block(0), known_block(1)});
  const Content whole = before + encode_known(head, {known_block(2)});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto torn = parse_journal(ConstBytes(whole).first(size));
    if (size < journal_header_bytes) {
      ASSERT_FALSE(torn) << size;
      continue;
    }
    ASSERT_TRUE(torn) << size;
    const bool first = size >= before.size();
    EXPECT_EQ(indexes(torn), first ? (Indexes{0, 1}) : Indexes()) << size;
    EXPECT_EQ(torn->valid_bytes, first ? before.size() : journal_header_bytes) << size;
  }
}

/// Threat: rotten, or made up. A changed byte takes away its record and what follows, and adds nothing.
TEST(Journal, AChangedByteAnywhereIsNoticed) {
  const JournalHead head = head_of(10);
  const std::uint64_t gone[] = {1};
  const Content first = encode_journal_head(head) + encode_known(head, {known_block(0), known_block(1)});
  const Content whole = first + encode_withdrawn(head, gone) + encode_known(head, {known_block(5)});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Content changed = whole;
    changed[at] ^= std::byte{0x10};
    const auto journal = parse_journal(changed);
    if (at < journal_header_bytes) {
      EXPECT_FALSE(journal) << at;
      continue;
    }
    ASSERT_TRUE(journal) << at;
    const bool before = at < first.size();
    const bool withdrawn = at >= first.size() + 32;
    EXPECT_EQ(indexes(journal), before ? Indexes() : withdrawn ? (Indexes{0}) : (Indexes{0, 1})) << at;
  }
}

TEST(Journal, ARecordOfAnotherJournalIsNone) {
  const JournalHead head = head_of(10);
  for (const auto& change : std::vector<std::function<void(JournalHead&)>>{
           [](JournalHead& other) { other.salt = 1; }, [](JournalHead& other) { other.inode = 1; },
           [](JournalHead& other) { other.size_bytes -= 1; }, [](JournalHead& other) { other.mtime_ns = 1; },
           [](JournalHead& other) { other.mtime_s = 1; }, [](JournalHead& other) { other.name = 1; }}) {
    JournalHead other = head;
    change(other);
    EXPECT_EQ(indexes(parse_journal(encode_journal_head(head) + encode_known(other, {known_block(0)}))), Indexes());
    EXPECT_EQ(head.same_file(other), other.salt != head.salt);
  }
}

TEST(Journal, NumbersOutOfRangeAreNoRecord) {
  const JournalHead head = head_of(10);
  struct Row {
    const char* what;
    std::uint64_t first;
    std::uint32_t count;
    std::uint32_t kind;
  };
  for (const Row& row : {Row{"no block", 0, 0, 1}, Row{"behind the end", 10, 1, 1}, Row{"over the end", 9, 2, 1},
                         Row{"overflow", ~std::uint64_t{0}, 2, 1}, Row{"no kind", 0, 1, 0}, Row{"no kind", 0, 1, 3},
                         Row{"many withdrawn", 0, 2, 2}, Row{"too many", 0, 4097, 1}}) {
    // As its writer would have made it, its checksum included.
    Content record(16);
    store_big_endian(record.data(), row.first);
    store_big_endian(&record[8], row.count);
    store_big_endian(&record[12], row.kind);
    record.resize(16 + (row.kind == 2 ? 0 : std::min<std::size_t>(row.count, 5000) * digest_bytes));
    const Content header = encode_journal_head(head);
    Digester digester;
    digester.update(digest_of(ConstBytes(header).first(header.size() - digest_bytes)));
    digester.update(record);
    const Digest checksum = digester.value();
    record.insert(record.end(), checksum.begin(), checksum.end());
    const auto journal = parse_journal(header + record);
    ASSERT_TRUE(journal) << row.what;
    EXPECT_EQ(journal->valid_bytes, header.size()) << row.what;
    EXPECT_TRUE(journal->blocks.empty()) << row.what;
  }
}

/// docs/formats/ftx-journal.md, "Example".
TEST(Journal, IsThatOfTheExample) {
  const JournalHead head{.size_bytes = digest_block_bytes + 2,
                         .mtime_s = 1'700'000'000,
                         .mtime_ns = 0,
                         .name = journal_name_hash("a"),
                         .inode = 12,
                         .salt = 0x0123456789abcdef};
  std::string text;
  Content zeros(digest_block_bytes);
  for (const std::byte byte : encode_journal_head(head) + encode_known(head, {{0, digest_of(zeros)}})) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    text += two;
  }
  EXPECT_EQ(text,
            "6674782d6a726e6c0000000100100000"
            "0000000000100002000000006553f1000000000000000000"
            "a96faf705af16834000000000000000c0123456789abcdef"
            "df79ecf6d411ca17804c7bbc2bfd531e"
            "00000000000000000000000100000001"
            "b6ef17a3448492b6918780b90550bf34"
            "b4fac1f54041c68b71a319e640b9fbce");
}

}  // namespace
}  // namespace sluice::ftx
