// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/pack.h"

#include <algorithm>

#include "apps/ftx/protocol/message.h"
#include "base/contract.h"

namespace sluice::ftx {

Pack::Pack(std::span<const FileEntry> entries) {
  starts_.reserve(static_cast<std::size_t>(std::ranges::count(entries, EntryKind::packed, &FileEntry::kind)));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind == EntryKind::packed) {
      starts_.push_back({size_bytes_, static_cast<std::uint32_t>(i)});
      size_bytes_ += entries[i].size_bytes + digest_bytes;
    }
  }
}

Pack::File Pack::operator[](std::size_t index) const {
  SLUICE_REQUIRE(index < starts_.size());
  const std::uint64_t end = index + 1 < starts_.size() ? starts_[index + 1].from : size_bytes_;
  return {starts_[index].entry, starts_[index].from, end};
}

std::size_t Pack::at(std::uint64_t offset) const {
  SLUICE_REQUIRE(offset < size_bytes_);
  const auto behind = std::ranges::upper_bound(starts_, offset, {}, &Start::from);
  return static_cast<std::size_t>(behind - starts_.begin()) - 1;
}

std::uint64_t Pack::content_before(std::uint64_t offset) const {
  if (offset == size_bytes_) {
    return size_bytes_ - files() * digest_bytes;
  }
  const std::size_t index = at(offset);
  const File file = (*this)[index];
  return file.from - index * digest_bytes + std::min(offset - file.from, file.end - digest_bytes - file.from);
}

}  // namespace sluice::ftx
