// SPDX-License-Identifier: Apache-2.0
#pragma once

// The pass: carries out what a plan owes, touching each payload byte once.
//
// The data is cut where a step begins; between two cuts the same steps apply to every byte, and they are closed under a
// small table of kernels (ilp/kernels.h):
//
//     convert \ sum      none          one or more
//     none               copy          sum_copy; in place: sum
//     2, 4 or 8          swap_copy     sum_swap_copy
//
// All sums of a stretch come from one sum of its bytes as they were, since reversing units only exchanges the bytes of
// each 16-bit word (RFC 1071 section 2(B): "consistently swapping bytes simply rotates the bits within the sum"). Two
// conversions of the same unit cancel. Conversions of different units and stages of modules' own (stack/core/stage.h)
// are outside the table: where they apply, all steps run one after the other over tiles that stay in the first-level
// cache. A unit that straddles two blocks or places is put together aside.
//
// Ownership: borrows everything for the call. Threads: the set's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "stack/core/buffer_pool.h"

namespace sluice {

/// What a pass outside the table works on at a time: a share of a first-level cache of 32 KiB or more.
inline constexpr std::size_t pass_tile_bytes = Stage::run_bytes_max;

/// How a pass treats a stretch of bytes to which the same steps apply: a kernel of ilp/kernels.h, or tiles.
enum class PassKernel : std::uint8_t { none, copy, sum, sum_copy, swap, swap_copy, sum_swap_copy, tiles };

[[nodiscard]] std::string_view name_of(PassKernel kernel);

/// What steps come to that apply to the same bytes, added in their order. It chooses the kernel: for the pass, and for
/// those who explain one.
class CombinedSteps {
 public:
  void add_swap(std::size_t unit) {
    converts_ = true;
    tiled_ = tiled_ || (unit_ != 1 && unit_ != unit);
    unit_ = unit_ == unit ? std::size_t{1} : unit;
    widest_ = std::max(widest_, unit);
  }
  void add_sum() { sums_ = true; }
  void add_stage(bool converts) {
    tiled_ = true;
    converts_ = converts_ || converts;
  }

  /// The conversion, when it is one kernel's; 1: there is none, or two cancel.
  [[nodiscard]] std::size_t unit() const { return unit_; }
  /// Stretches are whole multiples of this; a power of two.
  [[nodiscard]] std::size_t widest() const { return widest_; }
  [[nodiscard]] bool converts() const { return converts_; }
  /// Outside the table: step after step.
  [[nodiscard]] bool tiled() const { return tiled_; }
  [[nodiscard]] PassKernel kernel(bool in_place) const {
    if (tiled_) {
      return PassKernel::tiles;
    }
    if (unit_ != 1) {
      return sums_ ? PassKernel::sum_swap_copy : in_place ? PassKernel::swap : PassKernel::swap_copy;
    }
    if (sums_) {
      return in_place ? PassKernel::sum : PassKernel::sum_copy;
    }
    return in_place ? PassKernel::none : PassKernel::copy;
  }
  /// Whether each byte is stored, and loaded.
  [[nodiscard]] bool stores(bool in_place) const { return !in_place || (tiled_ ? converts_ : unit_ != 1); }
  [[nodiscard]] bool loads(bool in_place) const { return stores(in_place) || sums_ || tiled_; }

 private:
  std::size_t unit_ = 1;
  std::size_t widest_ = 1;
  bool sums_ = false;
  bool tiled_ = false;
  bool converts_ = false;
};

/// Carries out `plan` on the data blocks of `chain` in place: bytes are written only where a conversion or the copy
/// from the user's memory is owed. Answers whether every check held; `plan` then owes nothing more, its changes have
/// run, or the failed check is counted. REQUIRES: blocks with bytes to convert are writable.
bool pass_in_place(Plan& plan, Block* chain, std::size_t data_size, Touches& touches);

/// As pass_in_place, but what comes out is written to `places`, one after the other; the blocks stay as they are.
/// REQUIRES: the places hold data_size bytes.
bool pass_to(Plan& plan, Block* chain, std::size_t data_size, std::span<const Bytes> places, Touches& touches);

/// As pass_to, or copy_to where `plan` is nullptr; and sums[i] becomes the sum of what is written to places[i]. In one
/// pass where nothing but copies and one conversion is owed, in a second one otherwise.
bool pass_to_summed(Plan* plan, Block* chain, std::size_t data_size, std::span<const Bytes> places,
                    std::span<std::uint16_t> sums, Touches& touches);

/// As pass_to, where nothing is owed.
void copy_to(Block* chain, std::size_t data_size, std::span<const Bytes> places, Touches& touches);

/// Where the data of `chain` lies, in order, given the copy that is owed to it (nullptr: none); how many runs that are,
/// or nothing when `out` has too little room.
std::optional<std::size_t> lying_runs(Block* chain, const DeferredCopy* copy, std::span<ConstBytes> out);

/// Writes to `out` what data bytes [offset, offset + out.size()) will be. Everything is still owed: no check is made,
/// no field filled, no stage asked for its result. For headers: it begins at the front. REQUIRES: the data has so many.
void pass_over_front(const Plan& plan, Block* chain, std::size_t data_size, std::size_t offset, Bytes out);

}  // namespace sluice
