// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which module may stand on which: each needs a service below it and offers one above.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "stack/core/registry.h"

namespace sluice {

struct ChainFault {
  std::size_t position = 0;  // in the chain, of the first entry that does not find the service it needs
  std::string text;          // what it needs, what it found, and what to push between them where something fits
};

/// What is wrong with `chain` (the driver first); nothing when every entry finds the service it needs. REQUIRES: the
/// chain is not empty.
[[nodiscard]] std::optional<ChainFault> chain_fault(std::span<const Entry* const> chain, const Registry& registry);

}  // namespace sluice
