// SPDX-License-Identifier: Apache-2.0
#pragma once

// Contracts state what a caller must guarantee. A broken one is a fault in the program, so the program stops, in
// every build type, with the expression and the place. Never use a contract for what comes from outside.

#include <cstdio>
#include <cstdlib>

namespace sluice::detail {

[[noreturn]] inline void contract_broken(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: contract broken: %s\n", file, line, expression);
  std::abort();
}

}  // namespace sluice::detail

#define SLUICE_REQUIRE(expression) \
  ((expression) ? static_cast<void>(0) : ::sluice::detail::contract_broken(#expression, __FILE__, __LINE__))
