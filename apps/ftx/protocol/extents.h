// SPDX-License-Identifier: Apache-2.0
#pragma once

// Extents: where the data of a sparse file lies. What travels of such a file is its data alone, one extent behind the
// other; its holes read as zeros and are nowhere on the way. docs/formats/ftx.md, "Sparse files".
//
// So all that counts, digests and repairs the bytes of a file (ADUs, slots, digests, journals) speaks of its *content*,
// and only who reads or writes the file itself asks where a byte of it lies.
//
// Threat: a list that announces a file of 2^60 bytes, or extents that overlap or leave the file. are_extents() accepts
// no such extents, and a hole costs neither bytes nor memory nor disk space, however long it is.
//
// Not thread-safe while it changes. 16 bytes an extent. run_at() is O(log extents).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/ftx/protocol/byte_range.h"

namespace sluice::ftx {

class Extents {
 public:
  /// The most of one file: what lies behind so many is one extent, with whatever holes it has.
  static constexpr std::size_t count_max = 1U << 16;

  /// Ascending, disjoint, none empty and none touching the next, in a file of `size_bytes`; count_max at most.
  [[nodiscard]] static bool are_extents(std::span<const ByteRange> ranges, std::uint64_t size_bytes);

  /// REQUIRES: are_extents(ranges, the size of the file).
  explicit Extents(std::span<const ByteRange> ranges);
  bool operator==(const Extents&) const = default;

  [[nodiscard]] std::size_t count() const { return pieces_.size(); }
  /// REQUIRES: index < count().
  [[nodiscard]] ByteRange operator[](std::size_t index) const;
  /// What lies in them.
  [[nodiscard]] std::uint64_t content_bytes() const { return content_bytes_; }

  /// REQUIRES: offset < content_bytes().
  [[nodiscard]] FileRun run_at(std::uint64_t offset) const;

 private:
  struct Piece {
    std::uint64_t offset = 0;  // in the content
    std::uint64_t at = 0;      // in the file
    bool operator==(const Piece&) const = default;
  };
  [[nodiscard]] std::uint64_t end_of(std::size_t index) const {
    return index + 1 < pieces_.size() ? pieces_[index + 1].offset : content_bytes_;
  }

  std::vector<Piece> pieces_;
  std::uint64_t content_bytes_ = 0;
};

}  // namespace sluice::ftx
