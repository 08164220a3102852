// SPDX-License-Identifier: Apache-2.0
#pragma once

// Change: what a receiver does with an entry of the list, or with what the list does not have, as it says before it
// does it (docs/formats/ftx.md, "What will change").

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

struct Change {
  enum class Kind : std::uint8_t {
    content = 1,     // the content of a file travels
    made = 2,        // a directory or a link is made, or a link anew
    linked = 3,      // a file becomes another name of `other`
    attributes = 4,  // time, mode, owners or extended attributes alone are set
    removed = 5,     // it is not in the list
  };
  /// How what is there differs.
  enum Difference : std::uint8_t {
    is_new = 1,
    content = 2,
    size = 4,
    time = 8,
    mode = 16,
    user = 32,
    group = 64,
    extended = 128,  // extended attributes
  };

  Kind kind{};
  std::uint8_t differences = 0;  // `is_new` alone, or any of the others
  std::uint32_t entry = 0;       // its place in the list, counted from 1; 0 of what is removed
  std::uint32_t other = 0;       // of `linked`: likewise
  std::string path{};            // of what is removed, below where the transfer goes; of a directory with a '/' behind

  bool operator==(const Change&) const = default;
};

/// In bytes, as a datagram carries it.
inline constexpr std::size_t change_bytes_max = 8 + 1024;
/// A receiver says no more of one transfer.
inline constexpr std::uint64_t changes_max = std::uint64_t{1} << 24;

/// `path` as a Change may carry it: printable, and of a longer one the last components behind ".../".
[[nodiscard]] std::string change_path(std::string_view path);

/// REQUIRES: the path is what change_path() has made.
void put(Writer& writer, const Change& change);
/// Null: malformed, or none that could be.
[[nodiscard]] std::optional<Change> take_change(Reader& reader);

/// Whether it can be said of an entry of `entries`, the last of which that was spoken of was `before` (counted from 1;
/// 0: none).
[[nodiscard]] bool fits(const Change& change, const std::vector<FileEntry>& entries, std::uint32_t before);

}  // namespace sluice::ftx
