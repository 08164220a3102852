// SPDX-License-Identifier: Apache-2.0
#pragma once

// BlockSearch: finds the blocks of a new file in an earlier version of it, wherever they lie there: whoever inserts a
// line moves all that follows. It reads the earlier version once, from its beginning to its end, a part each turn.
//
// Threat: a sender whose signatures say that every place may hold a block, so that each place costs a strong sum.
// The search ends when what it has summed in vain is twice what it has read, and some more; what it has found is found.
//
// Not thread-safe. memory_bytes() while it exists. A few instructions a byte, and a strong sum a block found.

#include <functional>
#include <vector>

#include "apps/ftx/files/block_signature.h"
#include "apps/ftx/files/sink.h"

namespace sluice::ftx {

class BlockSearch {
 public:
  /// `signatures` are those of blocks of `block_bytes`, and outlive this object, as does `earlier`.
  BlockSearch(ConstBytes signatures, std::uint64_t block_bytes, EarlierFile& earlier);
  [[nodiscard]] static std::uint64_t memory_bytes(std::uint64_t blocks, std::uint64_t block_bytes);

  /// Looks for a block no more: it is there.
  void leave_out(std::uint64_t block);

  /// Has a block of the new file, and its bytes. False: it cannot keep them.
  using Found = std::function<Result<bool>(std::uint64_t block, ConstBytes bytes)>;
  /// Goes on, as far as `bytes` reach, and takes from them what it has read, summed and given. True: it has come to the
  /// end. An earlier version that cannot be read ends there. Errors are those of `found`.
  [[nodiscard]] Result<bool> search(std::uint64_t& bytes, const Found& found);

  /// Blocks that search() has found and `found` has kept.
  [[nodiscard]] bool found(std::uint64_t block) const { return state_[block] == State::found; }
  [[nodiscard]] std::uint64_t blocks() const { return state_.size(); }

 private:
  enum class State : std::uint8_t { wanted, found, left_out };

  [[nodiscard]] ConstBytes window() const { return ConstBytes(buffer_).subspan(at_, block_bytes_); }
  /// The window is there; if it has been looked at, the byte behind it is, too.
  [[nodiscard]] bool buffered() const { return end_ >= at_ + block_bytes_ + (looked_ ? 1 : 0); }
  [[nodiscard]] std::uint64_t rolling_of(std::uint32_t block) const;
  [[nodiscard]] bool strong_is(std::uint32_t block, const StrongSum& sum) const;
  [[nodiscard]] bool passes(std::uint64_t rolling) const;
  void read_on(std::uint64_t& bytes);
  [[nodiscard]] bool roll_on();
  void match(std::uint64_t& bytes);
  [[nodiscard]] Result<bool> give(std::uint64_t& bytes, const Found& found);

  ConstBytes signatures_;
  std::uint64_t block_bytes_;
  EarlierFile& earlier_;
  std::vector<State> state_;           // of each block
  std::vector<std::uint32_t> sorted_;  // blocks by their rolling sums
  std::vector<std::uint64_t> filter_;  // a bit for what a rolling sum begins with
  unsigned filter_shift_;
  std::uint64_t wanted_;  // blocks

  std::vector<std::byte> buffer_;  // of the earlier version, up to end_
  std::size_t at_ = 0;             // where the window begins
  std::size_t end_ = 0;
  RollingSum rolling_;   // of the window, if looked_
  bool looked_ = false;  // the window holds nothing, or what match() has found
  bool read_all_ = false;
  // The blocks that the window holds and that are left to be given: places in sorted_, and their strong sum.
  std::size_t give_from_ = 0;
  std::size_t give_to_ = 0;
  StrongSum strong_{};
  std::uint64_t read_ = 0;     // bytes
  std::uint64_t in_vain_ = 0;  // bytes whose strong sum was that of no block
};

}  // namespace sluice::ftx
