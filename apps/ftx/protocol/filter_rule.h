// SPDX-License-Identifier: Apache-2.0
#pragma once

// FilterRule: one rule of what is sent and what is removed, as values that travel: in a request to the end that walks
// the trees, and in a list to the end that removes (docs/formats/ftx.md, "Filter rules").
//
// Threat: rules that cost the other end more than they cost their author. Their number and their bytes are bounded
// here; apps/ftx/files/filter.h matches each in time that is linear in a path.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/protocol/cursor.h"

namespace sluice::ftx {

inline constexpr std::size_t filter_rules_max = 1024;
inline constexpr std::size_t filter_pattern_bytes_max = 1024;

struct FilterRule {
  bool include = false;
  bool negate = false;    // it counts for what does not match
  bool sends = true;      // it decides what is sent
  bool receives = true;   // it decides what is kept from being removed
  std::string pattern{};  // as rsync(1) has it, 1 .. filter_pattern_bytes_max bytes, none of them NUL

  bool operator==(const FilterRule&) const = default;
};
using FilterRules = std::vector<FilterRule>;

/// Whether a list of rules may travel.
[[nodiscard]] bool fit(const FilterRules& rules);
[[nodiscard]] std::size_t encoded_bytes(const FilterRules& rules);
/// REQUIRES: fit(rules).
void put(Writer& writer, const FilterRules& rules);
/// Null: malformed. What follows stays in the reader.
[[nodiscard]] std::optional<FilterRules> take_filter_rules(Reader& reader);

}  // namespace sluice::ftx
