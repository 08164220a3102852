// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests over seeds: how many, and which, as the environment says.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

namespace sluice {

/// The number in the environment's variable `name`.
inline std::uint64_t number_from(const std::string& name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Runs `one_case` with each seed from 1 on, until one fails, and names that. NAME_CASES: how many are tried, `cases`
/// if absent; NAME_SEED: that one alone.
inline void over_seeds(const std::string& name, std::uint64_t cases,
                       const std::function<void(std::uint64_t)>& one_case) {
  const std::uint64_t one = number_from(name + "_SEED", 0);
  const std::uint64_t last = one == 0 ? number_from(name + "_CASES", cases) : one;
  for (std::uint64_t seed = one == 0 ? 1 : one; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(name + "_SEED=" + std::to_string(seed));
    one_case(seed);
  }
}

}  // namespace sluice
