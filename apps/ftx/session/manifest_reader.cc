// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/manifest_reader.h"

#include <algorithm>

#include "apps/ftx/files/digest.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t digested_at_once = 64 * 1024;

}  // namespace

ManifestReader::ManifestReader(const std::vector<FileEntry>& entries, const Deletion* deletion) : entries_(entries) {
  SLUICE_REQUIRE(entries.size() <= files_max);
  marks_.reserve(entries.size() / entries_apart + 1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i % entries_apart == 0) {
      marks_.push_back(entries_end_);
    }
    entries_end_ += entry_bytes(entries[i], before(i));
  }
  if (deletion != nullptr) {
    end_ = encode_manifest({}, deletion);
  }
  Digester digester;
  std::vector<std::byte> some(std::min<std::uint64_t>(digested_at_once, size_bytes()));
  for (std::uint64_t at = 0; at < size_bytes(); at += some.size()) {
    some.resize(std::min<std::uint64_t>(some.size(), size_bytes() - at));
    read(at, some);
    digester.update(some);
  }
  digest_ = digester.value();
}

/// Where to begin looking for the entry that holds this byte.
ManifestReader::Place ManifestReader::place_of(std::uint64_t offset) const {
  const auto behind = std::ranges::upper_bound(marks_, offset);
  SLUICE_REQUIRE(behind != marks_.begin());
  const auto mark = static_cast<std::size_t>(behind - marks_.begin()) - 1;
  const Place place{mark * entries_apart, marks_[mark]};
  return next_.from <= offset && next_.from > place.from ? next_ : place;
}

void ManifestReader::read(std::uint64_t offset, Bytes out) {
  SLUICE_REQUIRE(out.size() <= size_bytes() && offset <= size_bytes() - out.size());
  if (offset < entries_end_) {
    Place place = place_of(offset);
    for (; place.entry < entries_.size() && !out.empty(); ++place.entry) {
      const FileEntry& entry = entries_[place.entry];
      const std::size_t size = entry_bytes(entry, before(place.entry));
      if (place.from + size > offset) {
        const auto skipped = static_cast<std::size_t>(offset - place.from);
        const std::size_t taken = std::min(size - skipped, out.size());
        if (taken == size) {
          encode_entry(entry, before(place.entry), out.first(size));
        } else {
          part_.resize(std::max(part_.size(), size));
          encode_entry(entry, before(place.entry), Bytes(part_).first(size));
          std::copy_n(part_.begin() + static_cast<std::ptrdiff_t>(skipped), taken, out.begin());
        }
        offset += taken;
        out = out.subspan(taken);
        if (skipped + taken < size) {
          break;
        }
      }
      place.from += size;
    }
    next_ = place;
  }
  if (!out.empty()) {
    std::copy_n(end_.begin() + static_cast<std::ptrdiff_t>(offset - entries_end_), out.size(), out.begin());
  }
}

}  // namespace sluice::ftx
