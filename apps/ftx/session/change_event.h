// SPDX-License-Identifier: Apache-2.0
#pragma once

// A Change as people know it from `rsync -i`: eleven characters, of which the first says what is done, the second with
// what, and the others how that differs (c content, s size, t time, p mode).

#include <span>
#include <string>

#include "apps/ftx/protocol/change.h"
#include "apps/ftx/session/event.h"

namespace sluice::ftx {

/// `sends`: this side does, so that content goes "<", away from here.
[[nodiscard]] std::string item_of(const Change& change, EntryKind kind, bool sends);

/// REQUIRES: fits(change, entries, ...).
[[nodiscard]] Event change_event(const Change& change, std::span<const FileEntry> entries, bool sends);

}  // namespace sluice::ftx
