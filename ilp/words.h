// SPDX-License-Identifier: Apache-2.0
#pragma once

// The word form of each stage, and the pass that runs stages over what is too short for vectors: short messages, and
// the end of a long one.
//
// A stage is what is done to data on its way through: it takes a piece of the message (here an unsigned integer as it
// lies in memory; in ilp/pipeline-inl.h a vector) and returns what the next stage sees. Stages compose by order: in
// word_pass(..., swap, sum) the sum is that of the swapped bytes. Pieces come in the order of memory, each at an even
// offset from the start.
//
// Ownership: a stage is the caller's, for one pass. Thread safety: none.

#include <hwy/base.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/internet_checksum.h"

namespace sluice::ilp {

/// Whether a pass writes what comes out of the last stage, and how.
enum class Store {
  none,     ///< not at all
  normal,   ///< into the caches; what callers ask for, since long messages change to one of the next two by themselves
  fetched,  ///< as normal, and fetches the lines that the next turn will store to
  streaming,  ///< around the caches; fetches what will be loaded
};

/// From this size on a pass takes its time to look at alignment. Below it, that costs more than it saves.
constexpr std::size_t long_size = 4096;

/// From this size on a pass fetches the lines that it will store to. Below it they are in the first-level cache
/// already, and fetching them costs up to a twelfth (Granite Rapids, one pass again and again, 4 to 32 KiB; at 64 KiB
/// it gains as much). In a stack others have used that cache in between: two ends over a wire in memory, 16 KiB,
/// took 1.3 times as long without it (`stack.wire`; at 8 KiB less without).
constexpr std::size_t fetched_size = std::size_t{12} << 10;

/// From this size on a pass that copies goes around the caches, where alignment lets it: source and destination would
/// fill three quarters of a last level cache of 32 MiB, and hardly anything of either would still be there for whoever
/// comes next. Measured on such a cache (Zen 4): streaming and normal stores are equal at 12 MiB (28 GB/s); at 4 MiB
/// streaming has 0.6 of the speed of normal stores, at 16 MiB 1.1 to 1.6 times, at 128 MiB 1.5 times.
constexpr std::size_t streaming_size = std::size_t{12} << 20;

/// The granularity of caches, how far ahead of its stores a pass fetches their lines (a turn of the longest vectors;
/// measured on Zen 4, 512 is no better, and from 1024 on it is worse than not fetching), and how far ahead of its loads
/// one does that goes around the caches (the next page, where the hardware's own fetching stops).
constexpr std::size_t cache_line_bytes = 64;
constexpr std::size_t store_lead_bytes = 256;
constexpr std::size_t load_lead_bytes = 4096;

/// Reverses the bytes of each unit. REQUIRES: the message is a multiple of `unit`, so pieces below it do not occur.
template <std::size_t unit>
struct SwapWords {
  template <std::unsigned_integral Word>
  [[nodiscard]] Word word(Word value) const {
    if constexpr (sizeof(Word) <= unit) {
      return byte_swapped(value);
    } else if constexpr (unit == 4) {
      return std::rotl(byte_swapped(value), 32);
    } else {
      static_assert(unit == 2);
      constexpr auto second_bytes = static_cast<Word>(0x00ff00ff00ff00ffU);
      return static_cast<Word>(((value & second_bytes) << 8) | ((value >> 8) & second_bytes));
    }
  }
};

/// Sums what passes, unchanged. RFC 1071 section 2(C): "On machines that have word-sizes that are multiples of 16
/// bits, it is possible to develop even more efficient implementations": a 64-bit word is a 16-bit sum with its carries
/// deferred, since 2^16 and therefore 2^32 and 2^64 are congruent to 1 modulo 65535.
class SumWords {
 public:
  template <std::unsigned_integral Word>
  Word word(Word value) {
    constexpr bool first_of_pair_is_high = sizeof(Word) == 1 && std::endian::native == std::endian::big;
    add(std::uint64_t{value} << (first_of_pair_is_high ? 8 : 0));
    return value;
  }

  void add(std::uint64_t value) {
    total_ += value;
    carries_ += total_ < value ? 1U : 0U;
  }

  /// The sum of what passed, folded to 16 bits.
  [[nodiscard]] std::uint16_t result() const {
    const std::uint64_t carried = total_ + carries_;
    return fold_sum(carried + (carried < carries_ ? 1U : 0U));
  }

 private:
  std::uint64_t total_ = 0;
  std::uint64_t carries_ = 0;  ///< what left total_ at the top
};

/// One word from `from` through `stages`, in order, to `to`; both move on. Inlined by force, as all on the way to a
/// stage is, since a stage whose address is taken for a call lives in memory instead of registers.
template <std::unsigned_integral Word, Store store, class... Stages>
HWY_INLINE void word_step(const std::byte*& from, std::byte*& to, Stages&... stages) {
  Word value;
  std::memcpy(&value, from, sizeof value);
  from += sizeof value;
  ((value = stages.word(value)), ...);
  if constexpr (store != Store::none) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
}

/// `size` bytes from `from` through `stages`, in order, to `to`, which may be `from`; unused when nothing is stored.
template <Store store, class... Stages>
HWY_INLINE void word_pass(const std::byte* from, std::byte* to, std::size_t size, Stages&... stages) {
  for (std::size_t words = size / 8; words > 0; --words) {
    word_step<std::uint64_t, store>(from, to, stages...);
  }
  if ((size & 4) != 0) {
    word_step<std::uint32_t, store>(from, to, stages...);
  }
  if ((size & 2) != 0) {
    word_step<std::uint16_t, store>(from, to, stages...);
  }
  if ((size & 1) != 0) {
    word_step<std::uint8_t, store>(from, to, stages...);
  }
}

}  // namespace sluice::ilp
