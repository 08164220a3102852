// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the chains of the `stages` experiment are made of, as far as it does not depend on the instruction set: the word
// forms of the two stages that ilp/ has no use for (see ilp/words.h), and the type of a whole chain.

#include <cstddef>
#include <cstdint>

namespace sluice::bench {

/// The 32-bit constant in each 32 bits of a word. REQUIRES: the message is a multiple of 4: no shorter words occur.
template <class Word>
constexpr Word in_each(std::uint32_t constant) {
  return static_cast<Word>(sizeof(Word) == 8 ? (std::uint64_t{constant} << 32) | constant : constant);
}

/// Adds a constant to each 32-bit unit.
struct AddWords {
  std::uint32_t constant;

  template <class Word>
  [[nodiscard]] Word word(Word value) const {
    if constexpr (sizeof(Word) == 8) {
      return (((value >> 32) + constant) << 32) | ((value + constant) & 0xffffffffU);
    } else {
      return static_cast<Word>(value + constant);
    }
  }
};

/// Exclusive or of each 32-bit unit with a constant.
struct XorWords {
  std::uint32_t constant;

  template <class Word>
  [[nodiscard]] Word word(Word value) const {
    return static_cast<Word>(value ^ in_each<Word>(constant));
  }
};

/// Source, destination, size, the constant that the stages take theirs from; returns what its sums came to.
using Chain = std::uint32_t (*)(const std::byte*, std::byte*, std::size_t, std::uint32_t);

/// The first `stages` manipulations, in one pass and in one pass each.
struct Chains {
  std::size_t stages;
  Chain fused;
  Chain layered;
};

}  // namespace sluice::bench
