// SPDX-License-Identifier: Apache-2.0
// Layered and fused stacks, drawn at random, must be the same to everybody outside: SLUICE_DIFFERENTIAL_CASES says how
// many cases (10,000 if absent; 2,000 under sanitizers), SLUICE_DIFFERENTIAL_SEED the first seed. A case that differs
// prints its seed. A million under AddressSanitizer:
//
//     SLUICE_DIFFERENTIAL_CASES=1000000 build/asan/tests/differential_test

#include <gtest/gtest.h>

#include <string>

#include "base/sanitizers.h"
#include "tests/differential/cases.h"
#include "tests/seeds.h"

namespace sluice::differential {
namespace {

constexpr std::uint64_t cases_default = sanitized ? 2'000 : 10'000;
constexpr std::uint64_t shards = 4;
constexpr std::size_t operations_max = 40;

class Differential : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Differential, ALayeredAndAFusedStackAreTheSame) {
  const std::uint64_t first = number_from("SLUICE_DIFFERENTIAL_SEED", 1);
  const std::uint64_t cases = number_from("SLUICE_DIFFERENTIAL_CASES", cases_default);
  for (std::uint64_t at = GetParam(); at < cases; at += shards) {
    Choices choices(first + at);
    const std::string differs = run_case(choices, operations_max);
    ASSERT_TRUE(differs.empty()) << differs << "SLUICE_DIFFERENTIAL_SEED=" << first + at
                                 << " SLUICE_DIFFERENTIAL_CASES=1";
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, Differential, testing::Range(std::uint64_t{0}, shards));

}  // namespace
}  // namespace sluice::differential
