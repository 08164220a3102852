// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice nc` over a connection: standard input and output as its two directions, each ended for itself.

#include <optional>

#include "apps/sluice/netcat.h"
#include "apps/sluice/program.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice {

/// Calls `peer`, or, without one, waits for a caller, the first of whom it serves; answers an exit code. REQUIRES:
/// `endpoint` is of connection mode with orderly release, non-blocking, and bound; without a peer with a qlen.
int run_netcat_connection(Program& program, tli::Endpoint& endpoint, const NetcatOptions& options,
                          const std::optional<wire::TransportAddress>& peer);

}  // namespace sluice
