// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/contents.h"

#include <algorithm>

#include "apps/ftx/protocol/message.h"
#include "base/contract.h"

namespace sluice::ftx {

Contents::Contents(std::span<const FileEntry> entries, const Pack& pack) : pack_(&pack) {
  std::uint64_t end = pack.size_bytes();
  for (const FileEntry& entry : entries) {
    if (entry.kind == EntryKind::file) {
      ends_.push_back(end += entry.content_bytes() + digest_bytes);
    }
  }
}

ByteRange Contents::file(std::size_t index) const {
  SLUICE_REQUIRE(index < files());
  if (index < packed()) {
    const Pack::File file = (*pack_)[index];
    return {file.from, file.end};
  }
  const std::size_t number = index - packed();
  return {number == 0 ? pack_bytes() : ends_[number - 1], ends_[number]};
}

std::size_t Contents::first_behind(std::uint64_t place) const {
  if (place < pack_bytes()) {
    return pack_->at(place);
  }
  return packed() + static_cast<std::size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
}

std::uint64_t Contents::content_before(std::uint64_t place) const {
  if (place < pack_bytes()) {
    return pack_->content_before(place);
  }
  const std::size_t index = first_behind(place);
  const std::uint64_t digests_before = index * digest_bytes;
  if (index == files()) {
    return place - digests_before;
  }
  const ByteRange at = file(index);
  return at.from - digests_before + std::min(place, at.to - digest_bytes) - at.from;
}

Contents::Amount Contents::in(const ByteRange& range) const {
  SLUICE_REQUIRE(range.from <= range.to && range.to <= size_bytes());
  Amount amount{.bytes = content_before(range.to) - content_before(range.from)};
  std::size_t first = first_behind(range.from);
  first += first < files() && file(first).from < range.from ? 1 : 0;
  const std::size_t end = first_behind(range.to);
  amount.files = end > first ? end - first : 0;
  return amount;
}

}  // namespace sluice::ftx
