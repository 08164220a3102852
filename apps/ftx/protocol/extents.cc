// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/extents.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {

bool Extents::are_extents(std::span<const ByteRange> ranges, std::uint64_t size_bytes) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const bool apart = i == 0 || ranges[i].from > ranges[i - 1].to;
    if (!apart || ranges[i].from >= ranges[i].to || ranges[i].to > size_bytes) {
      return false;
    }
  }
  return ranges.size() <= count_max;
}

Extents::Extents(std::span<const ByteRange> ranges) {
  pieces_.reserve(ranges.size());
  for (const ByteRange& range : ranges) {
    pieces_.push_back({content_bytes_, range.from});
    content_bytes_ += range.to - range.from;
  }
}

ByteRange Extents::operator[](std::size_t index) const {
  SLUICE_REQUIRE(index < count());
  return {pieces_[index].at, pieces_[index].at + end_of(index) - pieces_[index].offset};
}

FileRun Extents::run_at(std::uint64_t offset) const {
  SLUICE_REQUIRE(offset < content_bytes_);
  const auto behind = std::ranges::upper_bound(pieces_, offset, {}, &Piece::offset);
  const auto index = static_cast<std::size_t>(behind - pieces_.begin()) - 1;
  return {pieces_[index].at + (offset - pieces_[index].offset), end_of(index) - offset};
}

}  // namespace sluice::ftx
