// SPDX-License-Identifier: Apache-2.0
#pragma once

// StreamRing: what has been read of a stream and may be read again, since it may have to be sent again. Bytes are added
// at the end, any of them can be read, and the front is forgotten as the receiver gets it. A ring of fixed size: who
// adds waits until there is room.
//
//      begin                  end            begin + ring
//   -----+=====================+------------------+
//        |     can be read     |   room to add    |
//
// Not thread-safe, but what room() and read() touch are different bytes: one thread may fill room() while another
// reads, as long as the numbers change under a lock. Allocates once; pages that were never used take no memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/contract.h"

namespace sluice::ftx {

class StreamRing {
 public:
  explicit StreamRing(std::size_t bytes) : ring_(std::make_unique_for_overwrite<std::byte[]>(bytes)), bytes_(bytes) {
    SLUICE_REQUIRE(bytes > 0);
  }

  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }

  [[nodiscard]] std::size_t free_bytes() const { return bytes_ - static_cast<std::size_t>(end_ - begin_); }
  /// Where the next bytes go, as many as lie in one piece. Empty: it is full.
  [[nodiscard]] Bytes room() {
    const std::size_t at = end_ % bytes_;
    return {ring_.get() + at, std::min(free_bytes(), bytes_ - at)};
  }
  /// The first `bytes` of room() are there. REQUIRES: bytes <= room().size().
  void add(std::size_t bytes) {
    SLUICE_REQUIRE(bytes <= room().size());
    end_ += bytes;
  }

  [[nodiscard]] bool holds(std::uint64_t offset, std::size_t size) const {
    return offset >= begin_ && offset <= end_ && size <= end_ - offset;
  }
  /// REQUIRES: holds(offset, out.size()).
  void read(std::uint64_t offset, Bytes out) const {
    const std::size_t at = offset % bytes_;
    const std::size_t first = std::min(out.size(), bytes_ - at);
    std::copy_n(ring_.get() + at, first, out.begin());
    std::copy_n(ring_.get(), out.size() - first, out.begin() + static_cast<std::ptrdiff_t>(first));
  }
  /// Nobody reads what lies before `offset` any more. What lies behind end() is not forgotten.
  void forget(std::uint64_t offset) { begin_ = std::clamp(offset, begin_, end_); }

 private:
  std::unique_ptr<std::byte[]> ring_;
  std::size_t bytes_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace sluice::ftx
