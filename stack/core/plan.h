// SPDX-License-Identifier: Apache-2.0
#pragma once

// The plan of a message: what is still owed to its bytes. A message of a fused path has one, on its first data block;
// Message keeps it right, and nobody else looks at it.
//
//     data of the message     | eth | ip | udp |  payload .........................  |
//     Swap{4}                                   from ────────────────────────────►
//     Sum                                 from ──────────────────────────────────►
//                                            ▲ field
//     a stage of a module's own                 from ────────────────────────────►
//
// Each step covers the data from its `from` on to the end; headers that are prepended later are in front of it. Steps
// are carried out in order, together, in one pass (stack/core/pass.h).
//
// From the pool's free list: planning allocates nothing. A plan holds the stages that it owes (stack/core/stage.h), and
// lets go of them when they have run or the message is freed. Ownership: the message's. Threads: the set's.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ilp/manipulation.h"
#include "stack/core/module_handle.h"
#include "stack/core/stage.h"

namespace sluice {

class Counter;

/// One manipulation that is owed.
struct PlannedStep {
  enum class Kind : std::uint8_t { swap, sum, check, own };

  Kind kind = Kind::swap;
  std::uint8_t unit = 1;              // swap: 2, 4 or 8; others: 1
  bool zero_is_sent_as_ones = false;  // sum
  bool odd = false;              // sum, check: an odd number of the bytes it covered has been trimmed off and summed
  std::uint16_t initial = 0;     // sum, check: with what has been summed already
  std::size_t from = 0;          // data bytes in front that it does not cover
  std::size_t field = 0;         // sum, own: offset in the data of the result's bytes, unless
  std::byte* outside = nullptr;  // sum, own: they lie here
  ModuleHandle owner;            // check, own: whose counter `refused` is
  Counter* refused = nullptr;    // check, own
  std::shared_ptr<Stage> stage;  // own
  std::uint8_t field_size = 0;   // own: of the result; 0: none is wanted
  std::uint8_t argument_size = 0;
  std::array<std::byte, Stage::argument_bytes_max> argument;  // own

  /// Whether bytes come out other than they went in.
  [[nodiscard]] bool converts() const { return kind == Kind::swap || (kind == Kind::own && stage->nature().converts); }
  /// Whether the message may turn out to be bad.
  [[nodiscard]] bool verifies() const { return kind == Kind::check || (kind == Kind::own && stage->nature().verifies); }
  [[nodiscard]] std::size_t result_size() const { return kind == Kind::own ? field_size : sizeof(std::uint16_t); }
  /// Whether a field of the message gets its value when all else is done.
  [[nodiscard]] bool fills_message() const {
    return outside == nullptr && (kind == Kind::sum || (kind == Kind::own && field_size > 0));
  }
};

/// A change of protocol state that waits until the bytes are verified.
struct PlannedChange {
  static constexpr std::size_t captured_bytes_max = 24;

  ModuleHandle owner;
  void (*run)(std::byte* captured) = nullptr;
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
  std::array<PlannedStep, steps_max> steps;
  std::array<PlannedChange, changes_max> changes;

  [[nodiscard]] std::span<PlannedStep> owed() { return {steps.data(), step_count}; }
  [[nodiscard]] std::span<const PlannedStep> owed() const { return {steps.data(), step_count}; }
  /// Whether the bytes will not be what they are.
  [[nodiscard]] bool converts() const { return std::ranges::any_of(owed(), &PlannedStep::converts); }
  void clear() {
    for (PlannedStep& step : owed()) {
      step.stage.reset();
    }
    step_count = change_count = check_count = 0;
  }
};

}  // namespace sluice
