// SPDX-License-Identifier: Apache-2.0
#pragma once

// The seed of a real program's stream set and sessions: identifiers, ports and cookies must not be guessed from
// outside.

#include <cstdint>
#include <random>

namespace sluice {

[[nodiscard]] inline std::uint64_t entropy() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace sluice
