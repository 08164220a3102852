// SPDX-License-Identifier: Apache-2.0
#pragma once

// The modules and drivers that the programs of this project link: what their stack files can name.

#include "stack/core/registry.h"

namespace sluice {

[[nodiscard]] Registry standard_registry();

}  // namespace sluice
