// SPDX-License-Identifier: Apache-2.0
#pragma once

// PackReader: reads the pack (apps/ftx/protocol/pack.h) out of a source, from any place in it. It reads and digests a
// file as a whole, even where only a part of it is asked for, and then asks whether the file is still the one that was
// offered: so digest and content are of one state of the file, for each transmission.
//
// Borrows source and pack. Not thread-safe. Allocates once, for the largest file of which a part is asked for.

#include <vector>

#include "apps/ftx/files/source.h"
#include "apps/ftx/protocol/pack.h"

namespace sluice::ftx {

class PackReader {
 public:
  PackReader(Source& source, const Pack& pack) : source_(source), pack_(pack) {}

  /// Fills `out` with the pack's bytes from `offset`; else the file that cannot be read, or that has changed.
  /// REQUIRES: the range lies within the pack.
  [[nodiscard]] std::expected<void, Source::Damage> read(std::uint64_t offset, Bytes out);

 private:
  [[nodiscard]] Status read_file(const Pack::File& file, Bytes out);

  Source& source_;
  const Pack& pack_;
  std::vector<std::byte> part_;
};

}  // namespace sluice::ftx
