// SPDX-License-Identifier: Apache-2.0
#pragma once

// Deletion: what a receiver is to remove of the directories that a list has: all that the list has not. It stands
// behind the entries of a list (docs/formats/ftx.md, "Removing"); a receiver that asked for the files has its own.

#include <cstdint>
#include <optional>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/filter_rule.h"

namespace sluice::ftx {

struct Deletion {
  bool empty_sources = false;                // also where a source has nothing in it
  std::optional<std::uint32_t> files_max{};  // nothing at all is removed where it would be more
  FilterRules rules{};                       // what they exclude on the receiving side is kept

  bool operator==(const Deletion&) const = default;
};

inline constexpr std::size_t deletion_bytes_max = 1 + 4 + 2 + filter_rules_max * (3 + filter_pattern_bytes_max);

/// REQUIRES: fit(deletion.rules).
[[nodiscard]] std::size_t encoded_bytes(const Deletion& deletion);
void put(Writer& writer, const Deletion& deletion);
/// Null: malformed, or something follows.
[[nodiscard]] std::optional<Deletion> take_deletion(Reader& reader);

}  // namespace sluice::ftx
