// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice run`: a host on a stack. Its modules answer ARP, NDP, ping and what nobody listens to; this command only
// keeps them running and tells what they counted.

#include <string>

#include "stack/head/stack_file.h"

namespace sluice {

struct HostOptions {
  bool json = false;
};

/// Runs, once it knows that its addresses are its own, until SIGINT or SIGTERM. Prints one line when it is up, the
/// counters at SIGUSR1 and at the end. Answers an exit code.
int run_host(const StackDeclaration& stack, const HostOptions& options);

}  // namespace sluice
