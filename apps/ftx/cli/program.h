// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two jobs of the ftx program, serve and push: each connects a session to a transport and a run loop.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/protocol/exit_code.h"
#include "stack/core/module.h"

namespace sluice::ftx {

struct CommonOptions {
  std::string stack_file;  // empty: kernel UDP
  std::string stack_name;
  std::optional<ProcessingMode> mode;  // --mode; without it: what the stack file says, and fused over kernel UDP
  bool json = false;
  double idle_timeout_s = 30;
};

struct ServeOptions : CommonOptions {
  std::string directory;
  std::string listen;  // an IP address; empty: any
  std::uint16_t port = 0;
  bool once = false;  // end after the first transfer
};

struct PushOptions : CommonOptions {
  std::vector<std::string> sources;
  std::string destination;          // ftx://HOST:PORT/PATH
  std::optional<double> rate_mbit;  // --rate
  bool cubic = false;               // --congestion cubic; else bbr
  bool background = false;
  std::optional<std::size_t> datagram_bytes;
};

/// Receives into a directory until SIGINT or SIGTERM.
[[nodiscard]] ExitCode serve(const ServeOptions& options);

/// Sends files.
[[nodiscard]] ExitCode push(const PushOptions& options);

}  // namespace sluice::ftx
