// SPDX-License-Identifier: Apache-2.0
#pragma once

// Digester: XXH3-128 of bytes, seed 0, in canonical (big-endian) form. It finds faults but not forgeries.
//
// FileDigester: the digest of a file, of bytes that come in order. A file of more than one block has the digest of a
// tree (docs/formats/ftx.md, "Streams"): DigestTree makes it from the digests of the blocks. So a receiver digests a
// block when it is whole, whatever is missing before it, and one that continues a transfer need not read again what it
// has digested before.
//
// Not thread-safe.

#include <memory>

#include "apps/ftx/protocol/message.h"

struct XXH3_state_s;

namespace sluice::ftx {

class Digester {
 public:
  Digester();
  ~Digester();
  Digester(Digester&&) noexcept;
  Digester& operator=(Digester&&) noexcept;

  void reset();
  void update(ConstBytes bytes);
  [[nodiscard]] Digest value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

[[nodiscard]] Digest digest_of(ConstBytes bytes);

/// Long enough that digests and their bookkeeping cost nothing beside the bytes (16 bytes for each block), short enough
/// that a block that has to be sent again is no loss. A multiple of 16, the length of most slots.
inline constexpr std::uint64_t digest_block_bytes = 1U << 20;

/// Who digests files while others wait does so in turns of about so many bytes, and reads so many at once; each file
/// counts as so many at least.
inline constexpr std::uint64_t digest_turn_bytes = 4U << 20;
inline constexpr std::size_t digest_read_bytes = 64 * 1024;
inline constexpr std::uint64_t digest_file_cost = 16 * 1024;

class DigestTree {
 public:
  /// The digest of the next block.
  void add(const Digest& block);
  /// The digest of a file of `size_bytes`, all of whose blocks were added (an empty one has one), and starts anew.
  [[nodiscard]] Digest finish(std::uint64_t size_bytes);

 private:
  Digester blocks_;
  Digest last_{};
};

class FileDigester {
 public:
  void update(ConstBytes bytes);
  /// The digest of what was given since the last finish() or reset().
  [[nodiscard]] Digest finish();
  void reset() { [[maybe_unused]] const Digest dropped = finish(); }

 private:
  Digester block_;
  DigestTree tree_;
  std::uint64_t size_bytes_ = 0;
};

/// Of a whole file.
[[nodiscard]] Digest file_digest_of(ConstBytes content);

}  // namespace sluice::ftx
