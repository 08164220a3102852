// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which descriptors of this process are sockets of ours. The kernel knows: a socket of ours has a name of ours
// (sockets/protocol/protocol.h). What is called for each byte range asks a table instead, which follows what this
// library sees: sockets that it made, duplicates, and at the start of a program what was inherited.
//
// Thread-safe: one byte a descriptor.

#include <cstdint>
#include <optional>

#include "sockets/protocol/protocol.h"

namespace sluice::sockets {

/// As the table has it; nothing: not ours, as far as it knows.
[[nodiscard]] std::optional<SocketKind> known_kind(int descriptor);
/// As the kernel has it.
[[nodiscard]] std::optional<SocketKind> kind_of(int descriptor);
/// Asks the kernel, and notes it.
void learn_kind(int descriptor);
void note_kind(int descriptor, std::optional<SocketKind> kind);
/// Of all descriptors from `first` to `last`: they were closed.
void forget_kinds(unsigned first, unsigned last);

}  // namespace sluice::sockets
