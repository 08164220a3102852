// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/pack_reader.h"

#include <algorithm>

#include "apps/ftx/files/digest.h"

namespace sluice::ftx {

std::expected<void, Source::Damage> PackReader::read(std::uint64_t offset, Bytes out) {
  for (std::size_t index = out.empty() ? 0 : pack_.at(offset); !out.empty(); ++index) {
    const Pack::File file = pack_[index];
    const std::size_t size = file.end - file.from;
    const std::size_t skipped = offset - file.from;
    const std::size_t taken = std::min(size - skipped, out.size());
    if (taken == size) {
      if (auto read = read_file(file, out.first(size)); !read) {
        return std::unexpected(Source::Damage{file.entry, read.error()});
      }
    } else {
      part_.resize(std::max(part_.size(), size));
      const Bytes whole = Bytes(part_).first(size);
      if (auto read = read_file(file, whole); !read) {
        return std::unexpected(Source::Damage{file.entry, read.error()});
      }
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(skipped), taken, out.begin());
    }
    offset += taken;
    out = out.subspan(taken);
  }
  return {};
}

/// Content and digest. REQUIRES: `out` is as large as both.
Status PackReader::read_file(const Pack::File& file, Bytes out) {
  const Bytes content = out.first(out.size() - digest_bytes);
  if (!content.empty()) {
    if (auto read = source_.read_whole(file.entry, content); !read) {
      return read;
    }
  }
  std::ranges::copy(digest_of(content), out.last(digest_bytes).begin());
  return {};
}

}  // namespace sluice::ftx
