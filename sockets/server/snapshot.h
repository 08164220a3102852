// SPDX-License-Identifier: Apache-2.0
#pragma once

// Statistics as they are passed from the server to who asks: a sealed file in memory (sockets/protocol/protocol.h).
//
// Plain functions; thread-safe.

#include <span>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "sockets/protocol/protocol.h"

namespace sluice::sockets {

/// An errno where the system has no descriptor or memory left. REQUIRES: totals.records is that of `records`.
[[nodiscard]] Result<Descriptor> make_snapshot(const Totals& totals, std::span<const SocketRecord> records);

/// EPROTO: no such file, of this version.
[[nodiscard]] Result<std::pair<Totals, std::vector<SocketRecord>>> read_snapshot(const Descriptor& file);

}  // namespace sluice::sockets
