// SPDX-License-Identifier: Apache-2.0
#pragma once

// Contents: all that a transfer's files hold, as one line of bytes: the pack, and behind it each file with a number of
// its own, its content and then its digest. Both ends compute the places from the list. A receiver says in places what
// it has already (HAVE), so that a run of files is one range, however many they are.
//
//   contents := pack (content digest[16])*                  docs/formats/ftx.md, "What is there already"
//
// Whoever has a file's digest in a range needs neither its content nor its digest.
//
// 8 bytes of memory a file with a number of its own. Not thread-safe while it is built. All questions but size_bytes()
// are O(log files). Borrows the Pack.

#include <cstdint>
#include <span>
#include <vector>

#include "apps/ftx/protocol/byte_range.h"
#include "apps/ftx/protocol/pack.h"

namespace sluice::ftx {

class Contents {
 public:
  Contents() = default;
  /// `pack` is that of `entries`.
  Contents(std::span<const FileEntry> entries, const Pack& pack);

  [[nodiscard]] std::uint64_t size_bytes() const { return ends_.empty() ? pack_bytes() : ends_.back(); }
  [[nodiscard]] std::uint64_t pack_bytes() const { return pack_ == nullptr ? 0 : pack_->size_bytes(); }
  /// Files, packed ones first: their places are in this order.
  [[nodiscard]] std::size_t files() const { return packed() + ends_.size(); }
  [[nodiscard]] std::size_t packed() const { return pack_ == nullptr ? 0 : pack_->files(); }
  /// A file with its digest. REQUIRES: index < files().
  [[nodiscard]] ByteRange file(std::size_t index) const;
  /// Of a file with a number of its own. REQUIRES: there is one with that number.
  [[nodiscard]] ByteRange numbered(std::uint32_t number) const { return file(packed() + number); }
  /// The first file that ends behind `place`; files() when none does.
  [[nodiscard]] std::size_t first_behind(std::uint64_t place) const;

  /// What a range holds.
  struct Amount {
    std::uint64_t files = 0;  // as a whole
    std::uint64_t bytes = 0;  // without digests
  };
  /// REQUIRES: range.from <= range.to <= size_bytes().
  [[nodiscard]] Amount in(const ByteRange& range) const;

 private:
  /// How many bytes before `place` are content of files.
  [[nodiscard]] std::uint64_t content_before(std::uint64_t place) const;

  const Pack* pack_ = nullptr;
  std::vector<std::uint64_t> ends_;  // of the files with numbers of their own, behind their digests
};

}  // namespace sluice::ftx
