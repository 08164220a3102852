// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `sluice` answers to the shell.

namespace sluice {

enum ExitCode : int {
  exit_ok = 0,
  exit_failed = 1,      // it ran, and something went wrong
  exit_usage = 2,       // the command line makes no sense
  exit_stack_file = 3,  // the stack file cannot be read or is wrong
  exit_open = 4,        // the stack cannot be opened: no such device, no permission
};

}  // namespace sluice
