// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bytes of a journal, which lies beside a partial file and says which of its blocks are durable, with their digests
// (docs/formats/ftx-journal.md). apps/ftx/files/partial.h reads and writes it.
//
// Threat: a journal that was cut short or damaged, of another file, of an earlier state of this one, or made up. A
// header says which source and which partial file it is of; a checksum over the header and the record, behind each
// record, and a salt that no two journals share, tell a record that was written as a whole for this journal from
// anything else. What follows the first record that is none counts for nothing.
//
// Pure functions. parse_journal() is O(n log n) and takes at most three times the memory of the bytes.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

/// A block of a file, by its place (digest_block_bytes), and its digest.
struct KnownBlock {
  std::uint64_t index = 0;
  Digest digest{};
  bool operator==(const KnownBlock&) const = default;
};

inline constexpr std::size_t journal_header_bytes = 80;
/// A longer journal is not believed: it would be that of a file of a terabyte or more.
inline constexpr std::size_t journal_bytes_max = 32U << 20;
/// The most blocks of one record.
inline constexpr std::size_t journal_record_blocks_max = 4096;

/// What a journal is of.
struct JournalHead {
  std::uint64_t size_bytes = 0;  // of the source's content; these are the source's as well
  std::int64_t mtime_s = 0;
  std::uint32_t mtime_ns = 0;
  std::uint64_t name = 0;   // journal_name_hash() of the final name, which names of partial files may cut short
  std::uint64_t inode = 0;  // of the partial file
  std::uint64_t salt = 0;
  bool operator==(const JournalHead&) const = default;

  /// True when both are of one source and one partial file.
  [[nodiscard]] bool same_file(const JournalHead& other) const {
    return size_bytes == other.size_bytes && mtime_s == other.mtime_s && mtime_ns == other.mtime_ns &&
           name == other.name && inode == other.inode;
  }
};

/// Of a sparse file the hash has its size and extents as well: a block of another layout lies elsewhere.
[[nodiscard]] std::uint64_t journal_name_hash(std::string_view name, const Extents* extents = nullptr,
                                              std::uint64_t size_bytes = 0);

[[nodiscard]] std::vector<std::byte> encode_journal_head(const JournalHead& head);
/// These blocks are durable. As many records as it takes.
[[nodiscard]] std::vector<std::byte> encode_known(const JournalHead& head, std::vector<KnownBlock> blocks);
/// Nothing is known of these blocks any more.
[[nodiscard]] std::vector<std::byte> encode_withdrawn(const JournalHead& head, std::span<const std::uint64_t> blocks);

struct Journal {
  JournalHead head;
  std::vector<KnownBlock> blocks;  // by index, each once
  std::size_t valid_bytes = 0;     // where the next record belongs
};
/// EILSEQ: this is no journal, or its header is damaged.
[[nodiscard]] Result<Journal> parse_journal(ConstBytes bytes);

}  // namespace sluice::ftx
