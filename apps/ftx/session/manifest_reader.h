// SPDX-License-Identifier: Apache-2.0
#pragma once

// ManifestReader: reads the manifest (apps/ftx/protocol/manifest.h) out of a list of entries, from any place in it, and
// encodes what is asked for each time. So a sender of a million files holds the names of them once.
//
// Borrows entries and deletion (null: none), which stay as they are. Not thread-safe. What follows the last read begins
// at once; any other place costs a look at entries_apart entries. Holds 8 bytes for so many entries, and the longest
// entry of which a part was asked for.

#include <cstdint>
#include <vector>

#include "apps/ftx/protocol/digest.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

class ManifestReader {
 public:
  /// REQUIRES: what encode_manifest() does.
  explicit ManifestReader(const std::vector<FileEntry>& entries, const Deletion* deletion = nullptr);

  [[nodiscard]] std::uint64_t size_bytes() const { return entries_end_ + end_.size(); }
  /// Of the whole manifest.
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// Fills `out` with the manifest's bytes from `offset`. REQUIRES: the range lies within it.
  void read(std::uint64_t offset, Bytes out);

 private:
  static constexpr std::size_t entries_apart = 256;

  struct Place {
    std::size_t entry = 0;
    std::uint64_t from = 0;  // where it begins
  };

  [[nodiscard]] const Shared<Metadata>& before(std::size_t entry) const {
    return entry > 0 ? entries_[entry - 1].metadata : nothing_;
  }
  [[nodiscard]] Place place_of(std::uint64_t offset) const;

  const std::vector<FileEntry>& entries_;
  const Shared<Metadata> nothing_;
  std::vector<std::uint64_t> marks_;  // where every entries_apart-th entry begins
  std::uint64_t entries_end_ = 0;
  std::vector<std::byte> end_;  // behind the entries
  Place next_;                  // behind the last read
  std::vector<std::byte> part_;
  Digest digest_{};
};

}  // namespace sluice::ftx
