// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this folder adds to a program's registry: the drivers `kernel_tcp` and `kernel_udp`.

#include "stack/core/registry.h"

namespace sluice::tpi {

/// REQUIRES: the registry has none of the names yet.
void add_providers(Registry& registry);

}  // namespace sluice::tpi
