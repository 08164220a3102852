// SPDX-License-Identifier: Apache-2.0
// Layered and fused stacks must be the same to everybody outside: the input chooses the stacks, the wire and what is
// done to them (tests/differential/cases.h).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "tests/differential/cases.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t operations_max = 60;
  sluice::differential::Choices choices(std::as_bytes(std::span(data, size)));
  const std::string differs = sluice::differential::run_case(choices, operations_max);
  if (!differs.empty()) {
    std::fprintf(stderr, "%s", differs.c_str());
    std::abort();
  }
  return 0;
}
