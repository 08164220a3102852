// SPDX-License-Identifier: Apache-2.0
// Files out of the pack: an ADU of it holds whole files, and parts of two others at most.
#include <algorithm>

#include "apps/ftx/files/assembly.h"

namespace sluice::ftx {
namespace {

/// What a part takes beside its bytes.
constexpr std::uint64_t part_overhead_bytes = 64;

}  // namespace

/// A payload lands in memory of its own first: the files that it holds do not exist yet.
Placement Assembly::place_in_pack(const AduName& adu) {
  if (!well_placed(adu, pack_.size_bytes())) {
    return {};
  }
  if (!prepare(pack_slots_, adu) || !room_for_parts(adu)) {
    return {.kind = Placement::Kind::no_room};
  }
  if (marked(pack_slots_, adu) == slots_of(adu)) {
    return {.kind = Placement::Kind::duplicate};
  }
  return {.kind = Placement::Kind::memory, .memory = Bytes(pack_adu_).first(adu.length)};
}

/// Threat: a peer that sends a few bytes of each of many files, so that all of them take memory. What the budget does
/// not have is treated as lost.
bool Assembly::room_for_parts(const AduName& adu) {
  if (pack_adu_.size() < adu.length) {
    if (!budget_.memory.take(adu.length - pack_adu_.size())) {
      return false;
    }
    pack_adu_.resize(adu.length);
  }
  const std::uint64_t end = adu.offset + adu.length;
  for (const std::size_t index : {pack_.at(adu.offset), pack_.at(end - 1)}) {
    const Pack::File file = pack_[index];
    const bool part = file.from < adu.offset || file.end > end;
    if (!part || parts_.contains(index) || done_in_pack(index)) {
      continue;
    }
    const std::uint64_t size = file.end - file.from;
    if (!budget_.memory.take(size + part_overhead_bytes)) {
      return false;
    }
    parts_.emplace(index, std::vector<std::byte>(size));
  }
  return true;
}

bool Assembly::whole_in_pack(const Pack::File& file) const {
  const std::uint64_t first = file.from / head_.adu_bytes;
  const std::uint64_t last = (file.end - 1) / head_.adu_bytes;
  return pack_slots_.marked(first, last) == last + 1 - first;
}

std::expected<void, Failure> Assembly::land_in_pack(const AduName& adu) {
  const ConstBytes payload = ConstBytes(pack_adu_).first(adu.length);
  const std::uint64_t end = adu.offset + adu.length;
  // Parts may have landed in ADUs of another size, and made files whole.
  arriving_.clear();
  for (std::size_t index = pack_.at(adu.offset); index < pack_.files() && pack_[index].from < end; ++index) {
    if (!done_in_pack(index) && !leaves_alone(index)) {
      arriving_.push_back(index);
    }
  }
  mark(pack_slots_, first_slot(adu), last_slot(adu));
  for (const std::size_t index : arriving_) {
    const Pack::File file = pack_[index];
    const std::uint64_t from = std::max(file.from, adu.offset);
    ConstBytes bytes = payload.subspan(from - adu.offset, std::min(file.end, end) - from);
    if (bytes.size() < file.end - file.from) {
      std::vector<std::byte>& part = parts_.at(index);
      std::copy(bytes.begin(), bytes.end(), part.begin() + static_cast<std::ptrdiff_t>(from - file.from));
      bytes = part;
    }
    if (!whole_in_pack(file)) {
      continue;
    }
    if (auto stored = store(file, bytes); !stored) {
      return stored;
    }
    drop_part(index);
  }
  return finish_if_whole();
}

bool Assembly::take_present_in_pack(std::size_t index) {
  const Pack::File file = pack_[index];
  const bool arrived = whole_in_pack(file) || (parts_.contains(index) && !head_.update.leaves_alone());
  if (arrived || !sink_->present(entries_[file.entry])) {
    return false;
  }
  drop_part(index);
  present_[index] = true;
  ++stored_;
  return true;
}

/// The digest of a packed file covers what is written, just before it is written.
std::expected<void, Failure> Assembly::store(const Pack::File& file, ConstBytes bytes) {
  const FileEntry& entry = entries_[file.entry];
  const ConstBytes content = bytes.first(bytes.size() - digest_bytes);
  if (!std::ranges::equal(digest_of(content), bytes.last(digest_bytes))) {
    return std::unexpected(
        Failure{ExitCode::digest_mismatch, "'" + path_of(entries_, entry) + "' as it arrived differs from its source"});
  }
  if (auto stored = sink_->store(entry, content); !stored) {
    return std::unexpected(failure(nullptr, stored.error()));
  }
  landed_bytes_ += content.size();
  ++stored_;
  return {};
}

void Assembly::drop_part(std::size_t index) {
  const auto part = parts_.find(index);
  if (part != parts_.end()) {
    budget_.memory.give_back(part->second.size() + part_overhead_bytes);
    parts_.erase(part);
  }
}

}  // namespace sluice::ftx
