// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a chain of modules does to each payload byte on its way down and up: which manipulations are asked for, which
// are carried out at once and which later, where the pass happens and in which kernel, and what that costs in loads and
// stores on either path. Of a live stream:
//
//     Explanation now = explain(*stream);
//
// or of modules that are made from a declaration and never opened: no device, no file, no socket is touched.
//
// It is a model of large messages that are not held up: PayloadWork of each module (stack/core/module.h), put through
// the rules of the message (stack/core/message.h) and of the pass (stack/core/pass.h). Left out: headers, parts that
// are too small to be shown (Loan::lent_bytes_min), messages that have to wait, are fragmented or go to several
// streams.
//
// How each thing counts, for each payload byte: a conversion in place is a load and a store; a sum or check in place a
// load; a copy a load and a store; a pass of a fused path that ends in other memory a load and a store, whatever it
// does.
//
// The declaration is text from outside: modules are made from checked parameters, and a program
// that prints their names escapes them. Ownership: values; the views are string literals of modules. Threads: the
// set's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/core/module.h"
#include "stack/head/stack_file.h"
#include "stack/head/stream.h"

namespace sluice {

/// Loads and stores for each payload byte.
struct ByteCost {
  unsigned loads = 0;
  unsigned stores = 0;

  ByteCost& operator+=(const ByteCost& more) {
    loads += more.loads;
    stores += more.stores;
    return *this;
  }
  friend bool operator==(const ByteCost&, const ByteCost&) = default;
};

/// One pass over the payload.
struct ExplainedPass {
  std::string_view kernel;  // copy, sum, sum_copy, swap, swap_copy, sum_swap_copy (ilp/kernels.h); tiles: see pass.h
  bool in_place = false;
  ByteCost cost;
};

/// One thing that a module has done to the payload.
struct ExplainedItem {
  std::string asks;       // "swap 4", "sum", "check", "copy", "gather", "land", "materialize", or the name of a stage
  std::string why;        // from where to where, or why it materializes; may be empty
  bool deferred = false;  // it joined the plan
  std::optional<ExplainedPass> pass;  // it was carried out so; neither: there was nothing to do
};

struct ExplainedModule {
  std::string name;
  std::vector<ExplainedItem> items;
  bool lent_here = false;           // from here on the bytes lie in memory that its owner will reclaim
  std::string_view uncounted = {};  // what else reads or writes the bytes here
  std::uint64_t materialized = 0;   // of a live stream: messages that were made real here so far
};

struct ExplainedSide {
  std::vector<ExplainedModule> modules;  // in the direction of flow
  ByteCost layered;
  ByteCost fused;
  ByteCost awaited;  // of the fused path, up, while the reader waits for the bytes (stack/core/reader_place.h)

  /// The layered path's passes made tile by tile, as a cache-blocked stack would: as many loads and stores, of which so
  /// many reach memory.
  [[nodiscard]] ByteCost cache_blocked_memory() const {
    return {layered.loads > 0 ? 1U : 0U, layered.stores > 0 ? 1U : 0U};
  }
  /// How often the payload is passed over on the path that `modules` tells about.
  [[nodiscard]] std::size_t passes() const;
};

struct Explanation {
  struct Measured {
    double loads = 0;  // for each payload byte
    double stores = 0;
  };

  ProcessingMode mode = ProcessingMode::layered;
  ExplainedSide down;
  ExplainedSide up;
  /// The module where segmented messages begin and end (Module::ends_segments()); empty: the stream head.
  std::string segments_from;
  /// Modules below that which are not made for segmented messages: for their sake the ends take such messages apart.
  /// Empty: they cross the stream whole.
  std::vector<std::string> not_for_segments;
  /// Who splits and sums such messages on their way down, as the driver says.
  std::string segments_summed_by;
  bool live = false;                      // `materialized` means something
  std::optional<Measured> measured = {};  // of all the set's streams, both ways
};

/// A module and what to call it.
struct NamedModule {
  std::string name;
  const Module* module = nullptr;
};

/// Of `modules`, from the head to the driver, on `path`. `program`: what the stream's user does to the payload above
/// the head; its work on the way up are stages that join what is owed before the head lands it (tli/endpoint.h,
/// t_landudata()). nullptr: nothing.
[[nodiscard]] Explanation explain(std::span<const NamedModule> modules, ProcessingMode mode,
                                  const Module* program = nullptr);

/// Of a stream as it is now, with what has been materialized where. With `payload_bytes`, what its set's messages have
/// carried down and up since it began, also what a byte has really cost.
[[nodiscard]] Explanation explain(Stream& stream, std::optional<std::uint64_t> payload_bytes = std::nullopt);

/// Of a declared stack, on `path`. An error when a module refuses its parameters; it names stack and module.
[[nodiscard]] Result<Explanation> explain(StreamSet& set, const StackDeclaration& stack, ProcessingMode mode,
                                          const Module* program = nullptr);

}  // namespace sluice
