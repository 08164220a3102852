// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums of a buffer's bytes, taken in the pass that stored them and kept as long as the buffer: a checksum over just
// these bytes is made without loading them again.
//
//     bytes of the buffer   ....| first |     each     |     each     | rest |....
//     what is known             |  sum  |     sum      |     sum      | sum  |
//
// A transport that keeps a user's data until its peer has it foresees the pieces in which the data will leave: those
// are the stretches. For a piece that is cut elsewhere no sum is known, and its bytes are loaded.
//
// Ownership: the buffer's (BufferPool::remember). The sums count as one of the buffer's references, so that nobody
// writes to its bytes any more. Immutable. Threads: the set's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace sluice {

/// How a run of bytes is divided.
struct Stretches {
  std::size_t first = 0;  // bytes of the first one, 1..each
  std::size_t each = 0;   // of those behind it, of which the last may be shorter
};

class KnownSums {
 public:
  /// `sums`: of each stretch of `bytes`, as `ilp::sum` gives it. REQUIRES: 0 < first <= each; as many as there are.
  KnownSums(ConstBytes bytes, const Stretches& stretches, std::vector<std::uint16_t> sums);

  /// The sum of `bytes`. Nothing unless they lie in the buffer, and begin and end with a stretch.
  [[nodiscard]] std::optional<std::uint16_t> of(ConstBytes bytes) const;

 private:
  /// How many stretches end at `offset`, if one does.
  [[nodiscard]] std::optional<std::size_t> stretches_to(std::size_t offset) const;

  ConstBytes bytes_;
  Stretches stretches_;
  std::vector<std::uint16_t> sums_;
};

}  // namespace sluice
