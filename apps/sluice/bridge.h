// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice bridge`: two links joined, frame by frame. With `fault` on one of the stacks it is a wide-area link: every
// frame one way passes that module upwards, every frame the other way downwards.

#include "stack/head/stack_file.h"

namespace sluice {

struct BridgeOptions {
  bool json = false;
};

/// Runs until SIGINT or SIGTERM, then prints the counters of both stacks. REQUIRES: both stacks offer the DLPI link
/// service.
int run_bridge(const StackDeclaration& first, const StackDeclaration& second, const BridgeOptions& options);

}  // namespace sluice
