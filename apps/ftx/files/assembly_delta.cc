// SPDX-License-Identifier: Apache-2.0
// Assembly: what earlier versions of its files hold (docs/formats/ftx.md, "Changed files").
#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/ftx/files/assembly.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

/// The bytes of `one` and of `other`. REQUIRES: both ascend.
std::vector<ByteRange> joined(std::span<const ByteRange> one, std::span<const ByteRange> other) {
  std::vector<ByteRange> both;
  std::ranges::merge(one, other, std::back_inserter(both), {}, &ByteRange::from, &ByteRange::from);
  std::vector<ByteRange> all;
  for (const ByteRange& range : both) {
    if (!all.empty() && range.from <= all.back().to) {
      all.back().to = std::max(all.back().to, range.to);
    } else {
      all.push_back(range);
    }
  }
  return all;
}

}  // namespace

void Assembly::look_for_earlier(std::size_t count_max) {
  SLUICE_REQUIRE(looks_for_earlier());
  for (; count_max > 0 && delta_.looked < files_.size(); --count_max, ++delta_.looked) {
    const File& file = files_[delta_.looked];
    if (signature_blocks(entry_of(file).content_bytes()) > 0 && sink_->earlier(entry_of(file))) {
      delta_.found.push_back(static_cast<std::uint32_t>(delta_.looked));
    }
  }
  if (!looks_for_earlier()) {
    choose_signed();
  }
}

/// The largest: there is most to be won.
///
/// Threat: a sender whose list announces sizes without end, so that signatures without end are waited for. Their list
/// grows with what arrives, as all lists do, and what it may come to is bounded before it is asked for.
void Assembly::choose_signed() {
  const auto size_of = [this](std::uint32_t number) { return entry_of(files_[number]).content_bytes(); };
  std::vector<std::uint32_t>& numbers = delta_.found;
  std::ranges::sort(numbers, {}, [&](std::uint32_t number) { return std::pair(~size_of(number), number); });
  std::uint64_t bytes = 0;
  const auto too_much = [&](std::uint32_t number) {
    const std::uint64_t more = bytes + signature_bytes(size_of(number));
    if (more > signatures_bytes_max || !budget_.memory.could_take(2 * more)) {
      return true;
    }
    bytes = more;
    return false;
  };
  std::erase_if(numbers, too_much);
  numbers.resize(std::min(numbers.size(), signed_files_max));
  std::ranges::sort(numbers);
  for (const std::uint32_t number : numbers) {
    delta_.files.add(number, size_of(number));
  }
  delta_.compare_to = numbers.empty() ? 0 : pack_.files() + numbers.back() + 1;
  delta_.signatures.size = delta_.files.bytes();
  delta_.signatures.slots = Slots(slot_count(delta_.signatures.size));
  numbers = {};
}

std::vector<std::uint32_t> Assembly::to_sign() const {
  std::vector<std::uint32_t> numbers;
  std::ranges::transform(delta_.files.all(), std::back_inserter(numbers), &SignedFiles::One::number);
  return numbers;
}

/// Where the file has signatures, an earlier version, and room for a search. Leaves delta_.search empty where not.
std::expected<bool, Failure> Assembly::begin_search(std::uint32_t index) {
  const SignedFiles::One* const one = delta_.files.find(index);
  File& file = files_[index];
  auto earlier = one != nullptr && !file.whole ? sink_->earlier(entry_of(file)) : nullptr;
  if (!earlier) {
    return false;
  }
  const std::uint64_t block_bytes = signature_block_bytes(one->content_bytes);
  // And known_ afterwards.
  const std::uint64_t blocks = signature_blocks(one->content_bytes);
  const std::uint64_t memory = BlockSearch::memory_bytes(blocks, block_bytes) + blocks * sizeof(ByteRange);
  if (!file.arriving) {
    if (!budget_.files.take_spare(1)) {
      return false;
    }
    if (auto opened = open_file(file); !opened) {
      budget_.files.give_back(1);
      return std::unexpected(opened.error());
    }
  }
  if (!budget_.memory.take(memory)) {
    return false;
  }
  delta_.memory_bytes = memory;
  delta_.earlier = std::move(earlier);
  const auto signature =
      ConstBytes(delta_.signatures.bytes).subspan(one->signature.from, one->signature.to - one->signature.from);
  delta_.search = std::make_unique<BlockSearch>(signature, block_bytes, *delta_.earlier);
  for (const ByteRange& part : known_) {
    for (std::uint64_t block = part.from / block_bytes; block * block_bytes < part.to; ++block) {
      if (block < delta_.search->blocks()) {
        delta_.search->leave_out(block);
      }
    }
  }
  return true;
}

/// True: the search has come to its end, or all of the file has arrived meanwhile.
std::expected<bool, Failure> Assembly::search(std::uint32_t index, std::uint64_t& bytes) {
  if (!files_[index].arriving) {
    return true;
  }
  std::optional<Failure> failed;
  const auto all = delta_.search->search(bytes, [&](std::uint64_t block, ConstBytes content) -> Result<bool> {
    const auto kept = keep_block(index, block, content);
    if (!kept) {
      failed = kept.error();
      return fail(EIO);
    }
    return *kept;
  });
  return failed ? std::expected<bool, Failure>(std::unexpected(*failed)) : *all;
}

/// Writes a block where it belongs, and marks the slots that are there with it. False: there is no memory for that, or
/// a part of it has arrived.
std::expected<bool, Failure> Assembly::keep_block(std::uint32_t index, std::uint64_t block, ConstBytes bytes) {
  File& file = files_[index];
  const std::uint64_t from = block * bytes.size();
  const std::uint64_t first = from / head_.adu_bytes;
  const std::uint64_t last = (from + bytes.size() - 1) / head_.adu_bytes;
  // What has arrived meanwhile is not written over: it may have been digested.
  if (const std::uint64_t arrived = file.arriving->slots.marked(first, last); arrived > 0) {
    return arrived == last + 1 - first;
  }
  const ByteRange slots = slots_with(entry_of(file).content_bytes(), block, bytes.size());
  if (slots.from < slots.to) {
    const AduName covered{index, static_cast<std::uint32_t>((slots.to - slots.from) * head_.adu_bytes),
                          slots.from * head_.adu_bytes};
    if (!prepare(*file.arriving, covered)) {
      return false;
    }
  }
  if (Status written = file.sink->write(from, bytes); !written) {
    return std::unexpected(failure(&file, written.error()));
  }
  if (slots.from < slots.to) {
    if (auto marked = mark_written(file, slots.from, slots.to - 1); !marked) {
      return std::unexpected(marked.error());
    }
  }
  return true;
}

/// The slots [from, to) that `block` makes whole, together with blocks beside it that have been found. Slots may be
/// longer than blocks.
ByteRange Assembly::slots_with(std::uint64_t content_bytes, std::uint64_t block, std::uint64_t block_bytes) const {
  const std::uint64_t slot = head_.adu_bytes;
  const auto there = [&](std::uint64_t from, std::uint64_t to) {
    bool all = true;
    for (std::uint64_t one = from / block_bytes; all && one * block_bytes < to; ++one) {
      all = one == block || (one < delta_.search->blocks() && delta_.search->found(one));
    }
    return all;
  };
  const std::uint64_t from = block * block_bytes;
  const std::uint64_t to = from + block_bytes;
  ByteRange slots{from / slot, to / slot};
  if (!there(slots.from * slot, std::min(from, content_bytes))) {
    ++slots.from;
  }
  if (to % slot != 0 && there(to, std::min((slots.to + 1) * slot, content_bytes))) {
    ++slots.to;
  }
  return slots;
}

/// Adds what was found to known_.
void Assembly::end_search(std::uint32_t index) {
  const BlockSearch& search = *delta_.search;
  const SignedFiles::One& one = *delta_.files.find(index);
  const std::uint64_t block_bytes = signature_block_bytes(one.content_bytes);
  const std::uint64_t slot = head_.adu_bytes;
  std::vector<ByteRange> found;
  for (std::uint64_t block = 0; block < search.blocks(); ++block) {
    const std::uint64_t from = block;
    while (block < search.blocks() && search.found(block)) {
      ++block;
    }
    const std::uint64_t end = block * block_bytes;
    const ByteRange range{(from * block_bytes + slot - 1) / slot * slot,
                          end == one.content_bytes ? end : end / slot * slot};
    if (range.from < range.to) {
      found.push_back(range);
    }
  }
  known_ = joined(known_, found);
  delta_.search.reset();
  delta_.earlier.reset();
  if (index == delta_.files.all().back().number) {
    budget_.memory.give_back(delta_.signatures.bytes.size());
    delta_.signatures.bytes = {};
  }
}

}  // namespace sluice::ftx
