// SPDX-License-Identifier: Apache-2.0
#pragma once

// PresentRanges: what the receiver has already, as its HAVE datagrams say it, in places of the contents. The sender
// takes them in ascending order; one that leaves a gap came too early, and comes again.
//
// Threat: a receiver that names ranges without end. What lies behind the contents is refused, and beyond
// ranges_max nothing is kept: the bytes are then sent, which is never wrong.
//
// Not thread-safe. A question is O(log ranges). 16 bytes a range.

#include <cstdint>
#include <vector>

#include "apps/ftx/protocol/message.h"

namespace sluice::ftx {

class PresentRanges {
 public:
  /// `size_bytes` is that of the contents.
  PresentRanges(std::uint64_t size_bytes, std::size_t ranges_max) : size_bytes_(size_bytes), ranges_max_(ranges_max) {}

  /// False: it leaves a gap, or names what is not there. Calls `added(range)` for each range that is new.
  template <class Added>
  bool take(const Have& have, Added added) {
    if (have.from > taken_ || have.to > size_bytes_) {
      return false;
    }
    for (std::size_t i = 0; i < have.range_count; ++i) {
      const ByteRange range{have.ranges[i].from < taken_ ? taken_ : have.ranges[i].from, have.ranges[i].to};
      if (range.from < range.to && keep(range)) {
        added(range);
      }
    }
    taken_ = have.to > taken_ ? have.to : taken_;
    return true;
  }
  /// Up to which place it has taken what the receiver said.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

  [[nodiscard]] bool any() const { return !ranges_.empty(); }
  /// Where what is there from `place` on ends; `place`: that byte is not there.
  [[nodiscard]] std::uint64_t end_at(std::uint64_t place) const;
  /// Where the first range behind `place` begins; UINT64_MAX: none.
  [[nodiscard]] std::uint64_t next_behind(std::uint64_t place) const;
  /// All of `range` is there.
  [[nodiscard]] bool covers(const ByteRange& range) const { return end_at(range.from) >= range.to; }

 private:
  bool keep(const ByteRange& range);

  std::uint64_t size_bytes_;
  std::size_t ranges_max_;
  std::uint64_t taken_ = 0;
  std::vector<ByteRange> ranges_;  // ascending, with gaps between
};

}  // namespace sluice::ftx
