// SPDX-License-Identifier: Apache-2.0
#pragma once

// BlockDigests: the digest of a file that arrives, of what was written. What was written in order out of memory that is
// still there is taken from that memory. The rest is read back: what arrives in order while it is still in the
// processor's cache, read_back_bytes at a time; a block behind a gap when it is whole, so that nothing is left to read
// when the gap closes. Reading all back at once would find no fault of a disk: it comes from the page cache that the
// write has just filled.
//
// Threat: a peer that sends a few bytes of each of many blocks. A block beyond the prefix takes entry_bytes, which the
// caller takes from a budget before; the prefix takes nothing.
//
// Invariants: every block before digested_bytes() is in the tree. A block behind the one where the prefix ends counts
// the slots that landed in it. Not thread-safe. O(1) an ADU apart from reading.

#include <cstdint>
#include <span>
#include <unordered_map>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/sink.h"
#include "apps/ftx/files/slots.h"

namespace sluice::ftx {

class BlockDigests {
 public:
  /// Large enough for a few system calls a megabyte, small enough that the bytes are still in the cache.
  static constexpr std::size_t read_back_bytes = 256 * 1024;
  /// What a block takes beyond the prefix: its entry in the table.
  static constexpr std::uint64_t entry_bytes = 96;

  BlockDigests(std::uint64_t size_bytes, std::uint32_t slot_bytes) : size_bytes_(size_bytes), slot_bytes_(slot_bytes) {}
  /// The size is known now; until then it was as large as can be. REQUIRES: nothing beyond it has landed, and all that
  /// has landed were whole slots.
  void end_at(std::uint64_t size_bytes);

  [[nodiscard]] std::uint64_t memory_bytes() const { return ahead_.size() * entry_bytes; }
  /// What prepare() would allocate. REQUIRES of these: `slots` are the file's; first <= last < slots.count().
  [[nodiscard]] std::uint64_t wanted_bytes(const Slots& slots, std::uint64_t first, std::uint64_t last) const;
  void prepare(const Slots& slots, std::uint64_t first, std::uint64_t last);

  /// The slots first..last are about to be marked. REQUIRES: prepare() was called for them.
  void landing(const Slots& slots, std::uint64_t first, std::uint64_t last);
  /// They are marked now, and written as far as they lie before `written_bytes`. True when digest() has something to
  /// read.
  [[nodiscard]] bool due(const Slots& slots, std::uint64_t first, std::uint64_t last,
                         std::uint64_t written_bytes = UINT64_MAX) const;
  /// Reads what is due, in parts as large as `buffer`, and tells `file` each block of a file of several.
  /// REQUIRES: what is marked is written.
  [[nodiscard]] Status digest(const Slots& slots, std::uint64_t first, std::uint64_t last, SinkFile& file,
                              Bytes buffer);

  /// `pieces`, one behind the other, have just been written at `from`. Where the digested bytes end there, those that
  /// are marked need not be read back.
  void written(const Slots& slots, std::uint64_t from, std::span<const ConstBytes> pieces, SinkFile& file);

  /// A block whose digest is known. REQUIRES: all of its slots are marked, and the prefix was not beyond it before.
  void know(std::uint64_t block, const Digest& digest);
  /// True when every slot of `block` is marked.
  [[nodiscard]] bool whole(const Slots& slots, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t digested_bytes() const { return digested_bytes_; }
  /// The file's. REQUIRES: all of it was digested.
  [[nodiscard]] Digest finish();

 private:
  struct Ahead {
    std::uint64_t slots = 0;  // that landed
    bool digested = false;
    Digest digest{};
  };
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  [[nodiscard]] Range slots_of(std::uint64_t block) const;
  /// The blocks of first..last that lie behind the one where the prefix ends; none: first > last.
  [[nodiscard]] Range behind_prefix(const Slots& slots, std::uint64_t first, std::uint64_t last) const;
  [[nodiscard]] std::uint64_t prefix_bytes(const Slots& slots) const;
  [[nodiscard]] std::uint64_t end_of(std::uint64_t block) const;
  [[nodiscard]] bool complete(std::uint64_t block, const Ahead& ahead) const;
  void advance_to(std::uint64_t end, SinkFile& file);
  [[nodiscard]] Status digest_prefix(std::uint64_t prefix, SinkFile& file, Bytes buffer);
  [[nodiscard]] Status update(Digester& digester, std::uint64_t from, std::uint64_t end, SinkFile& file, Bytes buffer);
  void tell(SinkFile& file, std::uint64_t block, const Digest& digest) const;

  std::uint64_t size_bytes_;
  std::uint32_t slot_bytes_;
  std::uint64_t digested_bytes_ = 0;  // from the beginning
  Digester block_;                    // of the block where they end
  DigestTree tree_;
  std::unordered_map<std::uint64_t, Ahead> ahead_;
};

}  // namespace sluice::ftx
