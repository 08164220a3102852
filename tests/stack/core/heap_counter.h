// SPDX-License-Identifier: Apache-2.0
#pragma once

// Counts what this test program takes from the heap with operator new.

#include <cstddef>

namespace sluice::testing {

/// Calls of any operator new since the program started.
[[nodiscard]] std::size_t heap_allocations();

}  // namespace sluice::testing
