// SPDX-License-Identifier: Apache-2.0
#pragma once

// ByteRange: some bytes of a longer run.

#include <cstdint>

namespace sluice::ftx {

/// The bytes [from, to) of something.
struct ByteRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace sluice::ftx
