// SPDX-License-Identifier: Apache-2.0
#pragma once

// The plan of a message: what is still owed to its bytes. A message of a fused path has one, on its first data block;
// Message keeps it right, and nobody else looks at it.
//
//     data of the message     | eth | ip | udp |  payload .........................  |
//     Swap{4}                                   ◄────────── covers ──────────────►
//     Sum                                 ◄──────────────── covers ──────────────►
//                                            ◄───────────── field ───────────────►
//     a stage of a module's own                 ◄────────── covers ──────────────►
//
// Each step covers so many bytes at the end of the data, where nothing comes or goes while something is owed: headers
// that are put in front of it, or taken off, leave it as it is. On the way down the copy from the user's memory is
// owed, too. All is carried out in order, together, in one pass (stack/core/pass.h).
//
// From the pool's free list: planning allocates nothing. A plan holds the stages that it owes (stack/core/stage.h), and
// lets go of them when they have run or the message is freed. Ownership: the message's. Threads: the set's.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "ilp/manipulation.h"
#include "stack/core/module_handle.h"
#include "stack/core/stage.h"

namespace sluice {

class Counter;
struct Block;

/// One manipulation that is owed.
struct PlannedStep {
  enum class Kind : std::uint8_t { swap, sum, check, own };

  Kind kind = Kind::swap;
  std::uint8_t unit = 1;              // swap: 2, 4 or 8; others: 1
  bool converts = false;              // bytes come out other than they went in
  bool verifies = false;              // the message may turn out to be bad
  bool zero_is_sent_as_ones = false;  // sum
  bool odd = false;              // sum, check: an odd number of the bytes it covered has been trimmed off and summed
  std::uint8_t field_size = 0;   // sum: 2; own: of the result; 0: none is wanted
  std::uint16_t initial = 0;     // sum, check: with what has been summed already
  std::uint32_t covers = 0;      // bytes at the end of the data
  std::uint32_t field = 0;       // sum, own: the result's bytes start so many bytes before the end of the data, unless
  std::byte* outside = nullptr;  // sum, own: they lie here
  ModuleHandle owner;            // check, own: whose counter `refused` is
  Counter* refused = nullptr;    // check, own

  /// Whether a field of the message gets its value when all else is done.
  [[nodiscard]] bool fills_message() const { return field_size > 0 && outside == nullptr; }
};

/// What a step of kind `own` runs.
struct PlannedStage {
  std::shared_ptr<Stage> stage;
  std::uint8_t argument_size = 0;
  std::array<std::byte, Stage::argument_bytes_max> argument;
};

/// The copy from the user's memory, which is owed as well: `size` bytes of `block` from `place` on still lie at
/// `source` or, of a message that was lent in several runs, there and in `more`, one after the other. The call that
/// lends them (stack/head/loan.h) keeps a list of these, to complete those that are left when it returns.
struct DeferredCopy {
  const std::byte* source = nullptr;  // nullptr: nothing is owed
  std::byte* place = nullptr;
  std::size_t size = 0;  // of all runs
  const Block* block = nullptr;
  std::span<const ConstBytes> more{};
  std::size_t first_size = 0;  // of the run at `source`
  DeferredCopy* next = nullptr;
  DeferredCopy** link = nullptr;  // what points to this

  void begin(ConstBytes lent, std::byte* to, const Block* holder, DeferredCopy*& list) {
    source = lent.data();
    place = to;
    size = first_size = lent.size();
    block = holder;
    next = list;
    link = &list;
    list = this;
    if (next != nullptr) {
      next->link = &next;
    }
  }
  /// The lent bytes continue with these runs, `bytes` in all. REQUIRES: begin() has just been called; the list stays
  /// where it is as long as the loan.
  void continue_with(std::span<const ConstBytes> runs, std::size_t bytes) {
    more = runs;
    size += bytes;
  }
  /// The bytes are where they belong, or nobody wants them any more.
  void end() {
    if (source != nullptr) {
      source = nullptr;
      more = {};
      *link = next;
      if (next != nullptr) {
        next->link = link;
      }
    }
  }
};

/// A change of protocol state that waits until the bytes are verified.
struct PlannedChange {
  static constexpr std::size_t captured_bytes_max = 24;

  ModuleHandle owner;
  void (*run)(const std::byte* captured) = nullptr;
  std::size_t checks_before = 0;  // it waits for so many checks of the plan
  alignas(8) std::array<std::byte, captured_bytes_max> captured;
};

struct Plan {
  static constexpr std::size_t steps_max = 4;
  static constexpr std::size_t changes_max = 2;

  Plan* next_free = nullptr;
  bool failed = false;  // a check did not hold: the message is good for nothing
  std::uint8_t step_count = 0;
  std::uint8_t change_count = 0;
  std::uint8_t check_count = 0;  // of the steps: those that verify
  bool has_stages = false;
  bool straight = true;               // no two of one kind, and no stages:
  const PlannedStep* swap = nullptr;  // then the conversion, if there is one,
  const PlannedStep* sum = nullptr;   // and the sum that is stored or checked
  DeferredCopy copy;
  std::array<PlannedStep, steps_max> steps;
  std::array<PlannedChange, changes_max> changes;
  std::array<PlannedStage, steps_max> stages;  // of the steps of kind `own`, under their indices

  [[nodiscard]] std::span<PlannedStep> owed() { return {steps.data(), step_count}; }
  [[nodiscard]] std::span<const PlannedStep> owed() const { return {steps.data(), step_count}; }
  /// Puts a step behind the others. REQUIRES: there is room for it.
  PlannedStep& add(PlannedStep::Kind kind, std::size_t covers) {
    PlannedStep& step = steps[step_count++];
    step = PlannedStep();
    step.kind = kind;
    step.covers = static_cast<std::uint32_t>(covers);
    const PlannedStep*& only = kind == PlannedStep::Kind::swap ? swap : sum;
    straight = straight && only == nullptr && kind != PlannedStep::Kind::own;
    only = &step;
    return step;
  }
  /// Whether a conversion may join it, given that the data is whole units: every earlier step must cover whole units,
  /// too, and a field that a sum still has to fill must not be converted before it is.
  [[nodiscard]] bool takes_swap(std::size_t unit) const {
    return !failed && step_count < steps_max &&
           std::ranges::all_of(
               owed(),
               [unit](const PlannedStep& step) { return (step.covers & (unit - 1)) == 0 && !step.fills_message(); });
  }
  [[nodiscard]] bool owes() const { return step_count > 0 || copy.source != nullptr; }
  /// Whether the bytes will not be what they are.
  [[nodiscard]] bool converts() const { return std::ranges::any_of(owed(), &PlannedStep::converts); }
  void clear() {
    copy.end();
    if (has_stages) [[unlikely]] {
      let_stages_go();
    }
    step_count = change_count = check_count = 0;
    straight = true;
    swap = sum = nullptr;
  }

 private:
  void let_stages_go();
};

}  // namespace sluice
