// SPDX-License-Identifier: Apache-2.0
#pragma once

// One request of the server: connects, asks, waits for the answer, and keeps nothing.

#include "sockets/protocol/protocol.h"

namespace sluice::sockets {

/// Whether the environment names a server.
[[nodiscard]] bool has_server();

/// Asks about the socket `shown`, or about none (-1); `passed` gets the descriptor that the answer brings,
/// close-on-exec, or -1. `answer.error` is the outcome: ECONNRESET where there is no server any more. Waits as long as
/// the server does, also where signals come.
void ask_server(const Request& request, int shown, Answer& answer, int* passed = nullptr);

}  // namespace sluice::sockets
