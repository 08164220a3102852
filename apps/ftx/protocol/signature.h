// SPDX-License-Identifier: Apache-2.0
#pragma once

// Signatures: what a sender says of the blocks of a file, so that a receiver finds them in an earlier version of it
// (docs/formats/ftx.md, "Changed files"). Both ends compute the sizes from the list of files.
//
//   block signature := rolling:u64 strong[16]
//
// The functions have no state; SignedFiles is not thread-safe.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/ftx/protocol/byte_range.h"

namespace sluice::ftx {

/// The first 16 bytes of the SHA-256 of a block: whoever can write into the earlier version must not make it pass for
/// something else.
using StrongSum = std::array<std::byte, 16>;
inline constexpr std::size_t block_signature_bytes = 8 + 16;

/// Blocks grow with the square root of a file, as rsync's do: then what the signature costs and what a change costs
/// grow alike.
inline constexpr std::uint64_t block_bytes_min = 2048;
inline constexpr std::uint64_t block_bytes_max = 1U << 20;

/// The length of the blocks of a content of `bytes`: a power of two.
[[nodiscard]] constexpr std::uint64_t signature_block_bytes(std::uint64_t bytes) {
  // 4^n below it, so that no rounding of a root is part of the protocol.
  const auto root_log = static_cast<unsigned>(std::bit_width(bytes) / 2);
  return std::clamp(std::uint64_t{1} << root_log, block_bytes_min, block_bytes_max);
}
/// How many blocks are signed: those that are whole. What is left at the end is sent.
[[nodiscard]] constexpr std::uint64_t signature_blocks(std::uint64_t bytes) {
  return bytes / signature_block_bytes(bytes);
}
[[nodiscard]] constexpr std::uint64_t signature_bytes(std::uint64_t bytes) {
  return signature_blocks(bytes) * block_signature_bytes;
}

/// Of one transfer: files that are signed, and the bytes of their signatures.
inline constexpr std::size_t signed_files_max = 128;
inline constexpr std::uint64_t signatures_bytes_max = std::uint64_t{64} << 20;

/// The files of a transfer that are signed, and where their signatures lie in the stream of these.
class SignedFiles {
 public:
  struct One {
    std::uint32_t number = 0;
    std::uint64_t content_bytes = 0;
    ByteRange signature{};
  };
  /// REQUIRES: in ascending order of the numbers.
  void add(std::uint32_t number, std::uint64_t content_bytes) {
    files_.push_back({number, content_bytes, {bytes(), bytes() + signature_bytes(content_bytes)}});
  }
  [[nodiscard]] std::span<const One> all() const { return files_; }
  [[nodiscard]] std::uint64_t bytes() const { return files_.empty() ? 0 : files_.back().signature.to; }
  /// Null: it is not signed.
  [[nodiscard]] const One* find(std::uint32_t number) const {
    const auto found = std::ranges::lower_bound(files_, number, {}, &One::number);
    return found != files_.end() && found->number == number ? &*found : nullptr;
  }

 private:
  std::vector<One> files_;
};

}  // namespace sluice::ftx
