// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pack: where the packed files of a transfer lie in the stream that carries them all: each behind the one before it in
// the list, its content and then its digest. So an ADU holds many small files, each end computes the places from the
// sizes in the list alone, and a receiver can verify a file as soon as its bytes are there.
//
//   pack := (content digest[16])*                  docs/formats/ftx.md, "Streams"
//
// 16 bytes of memory a file. Not thread-safe while it is built. at() and content_before() are O(log files).

#include <cstdint>
#include <span>
#include <vector>

#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

class Pack {
 public:
  /// One file of the pack.
  struct File {
    std::uint32_t entry = 0;  // its index in the list
    std::uint64_t from = 0;   // where its content begins in the pack
    std::uint64_t end = 0;    // behind its digest
  };

  Pack() = default;
  explicit Pack(std::span<const FileEntry> entries);

  [[nodiscard]] std::size_t files() const { return starts_.size(); }
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  /// REQUIRES: index < files().
  [[nodiscard]] File operator[](std::size_t index) const;
  /// Which file holds the byte at `offset`. REQUIRES: offset < size_bytes().
  [[nodiscard]] std::size_t at(std::uint64_t offset) const;
  /// How many bytes before `offset` are content of files and not digests. REQUIRES: offset <= size_bytes().
  [[nodiscard]] std::uint64_t content_before(std::uint64_t offset) const;

 private:
  struct Start {
    std::uint64_t from = 0;
    std::uint32_t entry = 0;
  };
  std::vector<Start> starts_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace sluice::ftx
