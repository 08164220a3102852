// SPDX-License-Identifier: Apache-2.0
// Assembly: what of its files is there already, as a whole or in part.
#include <algorithm>
#include <utility>

#include "apps/ftx/files/assembly.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// Blocks of an earlier transfer that are taken together: they take memory for a moment.
constexpr std::size_t known_run_max = 4096;

}  // namespace

// --- As a whole ----------------------------------------------------------------------------------------------------

std::expected<void, Failure> Assembly::compare(std::size_t count_max, std::vector<ByteRange>& present) {
  SLUICE_REQUIRE(phase_ == Phase::data);
  for (std::uint64_t bytes = digest_turn_bytes; count_max > 0 && comparing(); --count_max) {
    if (!delta_.search && told_known_ < known_.size()) {
      const ByteRange& part = known_[told_known_++];
      add_present({known_from_ + part.from, known_from_ + part.to}, present);
      continue;
    }
    const auto looked = look_at_next(bytes, present);
    if (!looked) {
      return std::unexpected(looked.error());
    }
    if (!*looked) {
      break;
    }
  }
  return finish_if_whole();
}

/// False: it needs another turn for the file that is next.
std::expected<bool, Failure> Assembly::look_at_next(std::uint64_t& bytes, std::vector<ByteRange>& present) {
  const std::size_t index = compared_;
  if (!delta_.search) {
    if (!examine(index, bytes)) {
      return false;
    }
    known_ = {};
    told_known_ = 0;
    budget_.memory.give_back(std::exchange(delta_.memory_bytes, 0));
    if (take_present(index)) {
      add_present(contents_.file(index), present);
      ++compared_;
      return true;
    }
  }
  if (index >= pack_.files()) {
    known_from_ = contents_.file(index).from;
    const auto found = find_parts(static_cast<std::uint32_t>(index - pack_.files()), bytes);
    if (!found || !*found) {
      return found;
    }
  }
  ++compared_;
  return true;
}

/// False: present() of this file has to wait for another turn. What has come by now needs no comparison.
bool Assembly::examine(std::size_t index, std::uint64_t& bytes) {
  if (head_.update.compare != Update::Compare::digest) {
    return true;
  }
  if (index < pack_.files()) {
    const Pack::File file = pack_[index];
    return whole_in_pack(file) || sink_->examine(entries_[file.entry], bytes);
  }
  const File& file = files_[index - pack_.files()];
  return file.arriving || file.whole || sink_->examine(entry_of(file), bytes);
}

void Assembly::skip(const ByteRange& place) {
  const auto amount = contents_.in(place);
  skipped_.files += amount.files;
  skipped_.bytes += amount.bytes;
}

void Assembly::add_present(const ByteRange& place, std::vector<ByteRange>& present) {
  skip(place);
  if (!present.empty() && present.back().to == place.from) {
    present.back().to = place.to;
  } else {
    present.push_back(place);
  }
}

/// Of a file of the contents whose data has come before compare() has looked for it.
bool Assembly::leaves_alone(std::size_t index) {
  if (!head_.update.leaves_alone() || index < compared_ || !take_present(index)) {
    return false;
  }
  skip(contents_.file(index));
  return true;
}

/// Of a file of the contents: whether it is there, and so done.
bool Assembly::take_present(std::size_t index) {
  if (index < pack_.files()) {
    return take_present_in_pack(index);
  }
  File& file = files_[index - pack_.files()];
  if (file.arriving || file.whole || !sink_->present(entry_of(file))) {
    return false;
  }
  file.whole = true;
  ++committed_;
  return true;
}

// --- What an earlier transfer has left -----------------------------------------------------------------------------

/// All that is there of a file that is to come. False: there is more to read in another turn.
std::expected<bool, Failure> Assembly::find_parts(std::uint32_t index, std::uint64_t& bytes) {
  File& file = files_[index];
  if (!delta_.search) {
    if (file.arriving || file.whole) {
      return true;
    }
    if (auto resumed = resume(index); !resumed) {
      return std::unexpected(resumed.error());
    }
    if (const auto begun = begin_search(index); !begun) {
      return begun;
    }
  }
  if (delta_.search) {
    const auto all = search(index, bytes);
    if (!all || !*all) {
      return all;
    }
    end_search(index);
  }
  if (file.arriving && file.arriving->slots.whole()) {
    if (auto finalized = file_whole(index); !finalized) {
      return std::unexpected(finalized.error());
    }
  }
  return true;
}

std::expected<void, Failure> Assembly::resume(std::uint32_t index) {
  File& file = files_[index];
  if (!budget_.files.take_spare(1)) {
    return {};
  }
  file.sink = sink_->resume(entry_of(file));
  if (!file.sink) {
    budget_.files.give_back(1);
    return {};
  }
  make_arriving(file);
  return take_known(file);
}

/// Marks what is there. A block of which a part will come again, since it lies at no slot or there is no memory for it,
/// counts for nothing; nor do blocks behind too many gaps.
std::expected<void, Failure> Assembly::take_known(File& file) {
  Arriving& arriving = *file.arriving;
  const auto blocks = file.sink->known_blocks();
  if (!blocks) {
    return std::unexpected(failure(&file, blocks.error()));
  }
  std::vector<std::uint64_t> unused;
  for (std::span<const KnownBlock> left(*blocks); !left.empty();) {
    std::size_t run = 1;
    while (run < left.size() && run < known_run_max && left[run].index == left[0].index + run) {
      ++run;
    }
    const std::uint64_t from = left[0].index * digest_block_bytes;
    const std::uint64_t end = std::min(from + run * digest_block_bytes, entry_of(file).content_bytes());
    const auto marked = known_.size() < known_parts_max ? mark_known(arriving, from, end) : std::nullopt;
    if (marked) {
      known_.push_back(*marked);
    }
    for (const KnownBlock& block : left.first(run)) {
      if (marked && arriving.digests.whole(arriving.slots, block.index) &&
          budget_.memory.take(BlockDigests::entry_bytes)) {
        arriving.digests.know(block.index, block.digest);
      } else {
        unused.push_back(block.index);
      }
    }
    left = left.subspan(run);
    // What follows the beginning without a gap takes no memory from here on.
    if (marked && arriving.digests.due(arriving.slots, 0, 0)) {
      if (auto digested = digest_written(file, 0, 0); !digested) {
        return digested;
      }
    }
  }
  if (Status withdrawn = file.sink->withdraw(unused); !withdrawn) {
    return std::unexpected(failure(&file, withdrawn.error()));
  }
  return {};
}

/// The slots that lie in the bytes [from, end) as a whole, which it marks. Null: none, or no memory.
std::optional<ByteRange> Assembly::mark_known(Arriving& arriving, std::uint64_t from, std::uint64_t end) {
  const std::uint64_t first = slot_count(from);
  const bool last = slot_count(end) == arriving.slots.count();
  const std::uint64_t behind = last ? arriving.slots.count() : end / head_.adu_bytes;
  if (first >= behind) {
    return std::nullopt;
  }
  const std::uint64_t wanted = arriving.slots.wanted_bytes(first, behind - 1);
  if (!budget_.memory.take(wanted)) {
    return std::nullopt;
  }
  arriving.slots.prepare(first, behind - 1);
  mark(arriving.slots, first, behind - 1);
  return ByteRange{first * head_.adu_bytes, last ? end : behind * head_.adu_bytes};
}

}  // namespace sluice::ftx
