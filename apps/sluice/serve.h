// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice serve`: owns a stack, whose sockets unmodified programs use (`sluice exec`); and `sluice exec` itself.

#include <string>
#include <vector>

#include "sockets/server/quotas.h"
#include "stack/head/stack_file.h"

namespace sluice {

struct ServeOptions {
  std::string path;  // of the server's socket; empty: default_server_path()
  std::string mode = "0600";
  // Of each user.
  std::size_t sockets_max = sockets::Quotas::Limits{}.sockets;
  std::size_t listening_max = sockets::Quotas::Limits{}.listening;
  std::size_t connecting_max = sockets::Quotas::Limits{}.connecting;
  std::size_t memory_mib_max = sockets::Quotas::Limits{}.memory >> 20;
  bool json = false;
};

/// $SLUICE_SOCKETS, else a path below $XDG_RUNTIME_DIR, else one below /tmp with the user's number in it.
[[nodiscard]] std::string default_server_path();

/// Serves sockets of the first of `declared` that makes connections, and of the first that takes datagrams; answers an
/// exit code. Where a driver is `packet` and the file leaves its ring open, it has one by the frame.
int run_server(const std::vector<StackDeclaration>& declared, const ServeOptions& options);

/// Becomes `command` with its sockets on the server at `path` (empty: default_server_path()); answers an exit code
/// where it cannot: 126 and 127 as the shell has them.
int run_on_server(const std::string& path, const std::vector<std::string>& command);

}  // namespace sluice
