// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/block_search.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace sluice::ftx {
namespace {

constexpr std::uint64_t read_bytes = 256 * 1024;
/// Bits of the filter for each block: one window in so many passes it by chance.
constexpr std::uint64_t filter_bits_a_block = 16;
/// Strong sums in vain are no sign of anything up to here.
constexpr std::uint64_t in_vain_free = 64U << 20;

std::uint64_t filter_bits(std::uint64_t blocks) {
  return std::bit_ceil(std::max<std::uint64_t>(blocks * filter_bits_a_block, 64));
}
std::uint64_t buffer_bytes(std::uint64_t block_bytes) { return 2 * block_bytes + read_bytes; }

}  // namespace

BlockSearch::BlockSearch(ConstBytes signatures, std::uint64_t block_bytes, EarlierFile& earlier)
    : signatures_(signatures),
      block_bytes_(block_bytes),
      earlier_(earlier),
      state_(signatures.size() / block_signature_bytes),
      sorted_(state_.size()),
      filter_(filter_bits(state_.size()) / 64),
      filter_shift_(static_cast<unsigned>(65 - std::bit_width(filter_bits(state_.size())))),
      wanted_(state_.size()),
      buffer_(buffer_bytes(block_bytes)),
      rolling_(block_bytes) {
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::ranges::sort(sorted_, {}, [this](std::uint32_t block) { return std::pair(rolling_of(block), block); });
  for (const std::uint32_t block : sorted_) {
    const std::uint64_t bit = rolling_of(block) >> filter_shift_;
    filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

std::uint64_t BlockSearch::memory_bytes(std::uint64_t blocks, std::uint64_t block_bytes) {
  return blocks * (sizeof(State) + sizeof(std::uint32_t)) + filter_bits(blocks) / 8 + buffer_bytes(block_bytes);
}

void BlockSearch::leave_out(std::uint64_t block) {
  if (state_[block] == State::wanted) {
    state_[block] = State::left_out;
    --wanted_;
  }
}

std::uint64_t BlockSearch::rolling_of(std::uint32_t block) const {
  return load_big_endian<std::uint64_t>(signatures_.data() + std::size_t{block} * block_signature_bytes);
}

bool BlockSearch::strong_is(std::uint32_t block, const StrongSum& sum) const {
  const auto strong = signatures_.subspan(std::size_t{block} * block_signature_bytes + sizeof(std::uint64_t));
  return std::equal(sum.begin(), sum.end(), strong.begin());
}

bool BlockSearch::passes(std::uint64_t rolling) const {
  const std::uint64_t bit = rolling >> filter_shift_;
  return (filter_[bit / 64] >> (bit % 64) & 1) != 0;
}

Result<bool> BlockSearch::search(std::uint64_t& bytes, const Found& found) {
  for (;;) {
    if (give_from_ < give_to_) {
      const auto all = give(bytes, found);
      if (!all || !*all) {
        return all;
      }
      at_ += block_bytes_;
      looked_ = false;
    }
    if (wanted_ == 0 || in_vain_ > 2 * read_ + in_vain_free || (read_all_ && !buffered())) {
      return true;
    }
    if (bytes == 0) {
      return false;
    }
    if (!buffered()) {
      read_on(bytes);
    } else if (roll_on()) {
      match(bytes);
    }
  }
}

void BlockSearch::read_on(std::uint64_t& bytes) {
  if (end_ + read_bytes > buffer_.size()) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
              buffer_.begin());
    end_ -= std::exchange(at_, 0);
  }
  const std::size_t read = earlier_.read_on(Bytes(buffer_).subspan(end_, read_bytes)).value_or(0);
  read_all_ = read == 0;
  end_ += read;
  read_ += read;
  bytes -= std::min<std::uint64_t>(bytes, read);
}

/// To the next window that may hold a block. False: there is none in the buffer. REQUIRES: buffered().
bool BlockSearch::roll_on() {
  const std::byte* const buffer = buffer_.data();
  const std::size_t last = end_ - block_bytes_;
  std::size_t at = at_;
  RollingSum rolling = rolling_;
  if (looked_) {
    rolling.roll(buffer[at], buffer[at + block_bytes_]);
    ++at;
  } else {
    rolling.begin(window());
  }
  bool may_be_one = passes(rolling.value());
  for (; !may_be_one && at < last; ++at) {
    rolling.roll(buffer[at], buffer[at + block_bytes_]);
    may_be_one = passes(rolling.value());
  }
  at_ = at;
  rolling_ = rolling;
  looked_ = true;
  return may_be_one;
}

/// What the window holds is to be given.
void BlockSearch::match(std::uint64_t& bytes) {
  const auto same = std::ranges::equal_range(sorted_, rolling_.value(), {},
                                             [this](std::uint32_t block) { return rolling_of(block); });
  if (same.empty()) {
    return;
  }
  strong_ = strong_sum(window());
  bytes -= std::min(bytes, block_bytes_);
  // Blocks of one rolling sum have one strong sum, unless somebody has made them: then the first counts.
  if (strong_is(same.front(), strong_)) {
    give_from_ = static_cast<std::size_t>(same.begin() - sorted_.begin());
    give_to_ = give_from_ + same.size();
  } else {
    in_vain_ += block_bytes_;
  }
}

/// False: it has not given all.
Result<bool> BlockSearch::give(std::uint64_t& bytes, const Found& found) {
  for (; give_from_ < give_to_; ++give_from_) {
    const std::uint32_t block = sorted_[give_from_];
    if (state_[block] != State::wanted || !strong_is(block, strong_)) {
      continue;
    }
    if (bytes == 0) {
      return false;
    }
    bytes -= std::min(bytes, block_bytes_);
    const auto kept = found(block, window());
    if (!kept) {
      return std::unexpected(kept.error());
    }
    state_[block] = *kept ? State::found : State::left_out;
    --wanted_;
  }
  return true;
}

}  // namespace sluice::ftx
