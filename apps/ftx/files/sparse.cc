// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/sparse.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "apps/ftx/files/system.h"

namespace sluice::ftx {
namespace {

constexpr std::uint64_t status_block_bytes = 512;  // of st_blocks, whatever the file system has: stat(2)

}  // namespace

bool looks_sparse(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_blocks) < static_cast<std::uint64_t>(status.st_size) / status_block_bytes;
}

std::optional<Extents> extents_of(int descriptor, std::uint64_t size_bytes) {
  std::vector<ByteRange> ranges;
  for (std::uint64_t at = 0; at < size_bytes;) {
    const off_t data = os().lseek(descriptor, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {  // "offset is within a hole at the end of the file"
      break;
    }
    const bool last = ranges.size() + 1 == Extents::count_max;
    const off_t hole = data < 0 || last ? data : os().lseek(descriptor, data, SEEK_HOLE);
    if (data < 0 || hole < 0) {
      return std::nullopt;
    }
    // Somebody may be changing the file: what is no extent ends the search, and the change will be noticed.
    const ByteRange extent{static_cast<std::uint64_t>(data),
                           last ? size_bytes : std::min(static_cast<std::uint64_t>(hole), size_bytes)};
    if (extent.from >= extent.to || (!ranges.empty() && extent.from <= ranges.back().to)) {
      return std::nullopt;
    }
    ranges.push_back(extent);
    at = extent.to;
  }
  const bool whole = ranges.size() == 1 && ranges[0] == ByteRange{0, size_bytes};
  return whole ? std::nullopt : std::optional<Extents>(Extents(ranges));
}

}  // namespace sluice::ftx
