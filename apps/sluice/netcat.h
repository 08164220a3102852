// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice nc`: standard input and output as datagrams, or as the two directions of a connection, as the stack's
// provider has it; over TLI on any stack.

#include <optional>
#include <string>
#include <vector>

#include "stack/head/stack_file.h"

namespace sluice {

struct NetcatOptions {
  bool listen = false;             // -l: the peer is whoever sends, or calls, first
  bool verbose = false;            // -v: where it is bound, on standard error
  std::uint16_t local_port = 0;    // -p: 0 lets the provider choose
  std::string peer;                // HOST:PORT, without -l
  std::optional<double> idle_s;    // -w: end after so long without data either way
  std::optional<double> linger_s;  // -q: end so long after the end of standard input
  std::vector<std::string> join;   // --join: groups to receive
  bool broadcast = false;          // --broadcast: may send to broadcast addresses
};

/// Answers an exit code.
int run_netcat(const StackDeclaration& stack, const NetcatOptions& options);

}  // namespace sluice
