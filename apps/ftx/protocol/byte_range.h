// SPDX-License-Identifier: Apache-2.0
#pragma once

// ByteRange: some bytes of a longer run. FileRun: where bytes of a content lie in its file.

#include <cstdint>

namespace sluice::ftx {

/// The bytes [from, to) of something.
struct ByteRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const ByteRange&) const = default;
};

/// `bytes` bytes of a content that lie in one piece of its file.
struct FileRun {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  bool operator==(const FileRun&) const = default;
};

}  // namespace sluice::ftx
