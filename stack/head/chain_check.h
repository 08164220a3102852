// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which module may stand on which: each needs a service below it and offers one above.

#include <span>
#include <string>

#include "stack/core/registry.h"

namespace sluice {

/// Empty when every entry of `chain` (the driver first) finds the service it needs; else one sentence that names
/// the first that does not, what it needs, what it found, and what to push between them where something fits.
[[nodiscard]] std::string chain_fault(std::span<const Entry* const> chain, const Registry& registry);

}  // namespace sluice
