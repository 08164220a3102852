// SPDX-License-Identifier: Apache-2.0
#pragma once

// How DLPI and TPI primitives lie in a message block: a fixed part of 32-bit words in the machine's own byte order,
// the first of which names the primitive, then whatever the offset/length pairs among those words point at.
//
// Offsets and lengths may have been written by a user's program, so nothing is read through them before slice() has
// checked them. Views only: nothing is owned, nothing outlives the block.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"

namespace sluice::wire {

inline constexpr std::size_t word_size = sizeof(std::uint32_t);

/// The word at `at`, any alignment. REQUIRES: 4 readable bytes.
[[nodiscard]] inline std::uint32_t load_word(const std::byte* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// REQUIRES: 4 writable bytes at `at`.
inline void store_word(std::byte* at, std::uint32_t value) { std::memcpy(at, &value, sizeof value); }

/// Writes `words` one after the other from the start of `out` and returns their size. REQUIRES: out holds them.
template <std::size_t Count>
inline std::size_t store_words(Bytes out, const std::uint32_t (&words)[Count]) {
  std::memcpy(out.data(), words, sizeof words);
  return sizeof words;
}

/// The primitive a block starts with, or nothing if the block is too short to name one.
[[nodiscard]] inline std::optional<std::uint32_t> first_word(ConstBytes block) {
  if (block.size() < word_size) {
    return std::nullopt;
  }
  return load_word(block.data());
}

/// The `length` bytes at `offset`, or nothing unless they lie wholly inside the block and after its first `fixed`
/// bytes. Bytes of length zero are always there: the offset then means nothing.
[[nodiscard]] inline std::optional<ConstBytes> slice(ConstBytes block, std::size_t fixed, std::uint32_t length,
                                                     std::uint32_t offset) {
  if (length == 0) {
    return ConstBytes{};
  }
  if (offset < fixed || offset > block.size() || length > block.size() - offset) {
    return std::nullopt;
  }
  return block.subspan(offset, length);
}

/// Where two byte strings lie behind a fixed part: the first at once, the second at the next multiple of 4. An empty
/// string has offset 0.
class Tail {
 public:
  Tail(std::size_t fixed, ConstBytes first, ConstBytes second) : first_(first), second_(second) {
    size_ = fixed + first.size();
    if (!first.empty()) {
      first_offset_ = static_cast<std::uint32_t>(fixed);
    }
    if (second.empty()) {
      return;
    }
    gap_ = (word_size - size_ % word_size) % word_size;
    second_offset_ = static_cast<std::uint32_t>(size_ + gap_);
    size_ += gap_ + second.size();
  }

  [[nodiscard]] std::uint32_t first_length() const { return static_cast<std::uint32_t>(first_.size()); }
  [[nodiscard]] std::uint32_t first_offset() const { return first_offset_; }
  [[nodiscard]] std::uint32_t second_length() const { return static_cast<std::uint32_t>(second_.size()); }
  [[nodiscard]] std::uint32_t second_offset() const { return second_offset_; }
  /// Of the whole block, the fixed part included.
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Copies both strings to their places, with zeros between them. REQUIRES: `out` is the block and holds size().
  void store(Bytes out) const {
    if (!first_.empty()) {
      std::memcpy(out.data() + first_offset_, first_.data(), first_.size());
    }
    if (second_.empty()) {
      return;
    }
    std::memset(out.data() + second_offset_ - gap_, 0, gap_);
    std::memcpy(out.data() + second_offset_, second_.data(), second_.size());
  }

 private:
  ConstBytes first_;
  ConstBytes second_;
  std::uint32_t first_offset_ = 0;
  std::uint32_t second_offset_ = 0;
  std::size_t gap_ = 0;
  std::size_t size_ = 0;
};

}  // namespace sluice::wire
