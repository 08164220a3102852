// SPDX-License-Identifier: Apache-2.0
#pragma once

// Selection: what of the paths that are asked for is sent, and how. It travels with a request to the end that sends
// (docs/formats/ftx.md, "Selection").
//
// Threat: a request that costs more than it weighs. Rules and names are bounded before they are stored; what a name may
// reach is decided where trees are walked (apps/ftx/files/source.h).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/filter_rule.h"

namespace sluice::ftx {

/// Of a selection. A command line that sends may name as many as it has memory for.
inline constexpr std::size_t selected_names_max = 4096;

struct Selection {
  FilterRules rules{};
  bool hard_links = false;  // files that are one file stay one
  bool digests = false;     // the list has those of the contents, which the receiver compares
  bool left_out = false;    // what is there and not sent is in the list, so that it is not removed
  /// What of the one directory is sent, each with the directories around it; without a value all that lies in it. A
  /// path (is_relative_path()), "" the directory itself. Of a directory with a '/' behind it, and of "", what lies in
  /// it comes, too, but not what lies deeper.
  std::optional<std::vector<std::string>> names{};
  bool attributes = false;  // the list has the extended attributes of files and directories
  bool user = false;        // likewise, who owns what is in it
  bool group = false;
  bool recursive = false;  // of directories among the names all comes that lies in them

  bool operator==(const Selection&) const = default;
};

/// Whether it may travel.
[[nodiscard]] bool fit(const Selection& selection);
[[nodiscard]] std::size_t encoded_bytes(const Selection& selection);
/// REQUIRES: fit(selection).
void put(Writer& writer, const Selection& selection);
/// Null: malformed. What follows stays in the reader.
[[nodiscard]] std::optional<Selection> take_selection(Reader& reader);

}  // namespace sluice::ftx
