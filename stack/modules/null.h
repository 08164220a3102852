// SPDX-License-Identifier: Apache-2.0
#pragma once

// null - passes everything
//
// What a module costs that does nothing: the base line for benchmarks, and the smallest example of a module.
//
// Accepts and produces
//   Any message, unchanged, in both directions. A transparent module: the service above is the one below.
//
// Parameters
//   none
//
// Counters
//   none
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it.
//
// Example
//   push = ["null", "null", "null"]
//
// Threads: as its stream set's.

#include "stack/core/registry.h"

namespace sluice {

class Null : public Module {
 public:
  Null() : Module("null") {}

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
};

[[nodiscard]] Entry null_entry();

}  // namespace sluice
