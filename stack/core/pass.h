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

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "stack/core/buffer_pool.h"

namespace sluice {

/// What a pass outside the table works on at a time: a share of a first-level cache of 32 KiB or more.
inline constexpr std::size_t pass_tile_bytes = Stage::run_bytes_max;

/// Carries out `plan` on the data blocks of `chain` in place: bytes are written only where a conversion is owed.
/// Answers whether every check held; `plan` then owes nothing more, its changes have run, or the failed check is
/// counted. REQUIRES: blocks with bytes to convert are writable.
bool pass_in_place(Plan& plan, Block* chain, std::size_t data_size, Touches& touches);

/// As pass_in_place, but what comes out is written to `places`, one after the other; the blocks stay as they are.
/// `plan` may be nullptr: a copy. REQUIRES: the places hold data_size bytes.
bool pass_to(Plan* plan, Block* chain, std::size_t data_size, std::span<const Bytes> places, Touches& touches);

/// Carries out one step in place. Answers whether it held.
bool pass_of_step(const PlannedStep& step, Block* chain, std::size_t data_size, Touches& touches);

/// Writes to `out` what data bytes [offset, offset + out.size()) will be. Everything is still owed: no check is made,
/// no field filled, no stage asked for its result. For headers: it begins at the front. REQUIRES: the data has so many.
void pass_over_front(const Plan& plan, Block* chain, std::size_t offset, Bytes out);

}  // namespace sluice
