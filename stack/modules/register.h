// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this folder adds to a registry.

#include "stack/core/registry.h"

namespace sluice {

/// Adds every module of this folder. REQUIRES: the registry has none of them.
void add_modules(Registry& registry);

}  // namespace sluice
