// SPDX-License-Identifier: Apache-2.0
#pragma once

// How often this program has taken memory from the system's allocator: malloc, calloc, realloc, and operator new, which
// stands on them. Under a sanitizer, its own allocator tells.

#include <cstdint>

namespace sluice::test {

[[nodiscard]] std::uint64_t allocations();

}  // namespace sluice::test
