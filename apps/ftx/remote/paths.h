// SPDX-License-Identifier: Apache-2.0
#pragma once

// Paths of a start, as the host resolves them that they name files of. No shell sees them.
//
// A relative path is relative to the home directory, and so is what follows "~/". Sources may be patterns (glob(7)).

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/exit_code.h"

namespace sluice::ftx {

/// The most files that the patterns of one start may name.
inline constexpr std::size_t sources_max = 1U << 20;

/// The user's home directory: $HOME, else as the user database says.
[[nodiscard]] std::string home_directory();

/// Where this user's keys, lists and settings lie: $XDG_CONFIG_HOME/ftx, else ~/.config/ftx.
[[nodiscard]] std::string config_directory();

/// An absolute path where `home` is one. A failure: "~name".
[[nodiscard]] std::expected<std::string, Failure> from_home(std::string_view path, std::string_view home);

/// Where files go: a directory that exists, and the name of the one file in it (empty: the files keep their names).
struct Place {
  std::string directory;
  std::string name;
  bool operator==(const Place&) const = default;
};
/// A directory that exists is entered; else the path is the new name of a file in a directory that exists.
[[nodiscard]] std::expected<Place, Failure> place_of(const std::string& path);

/// The files that `patterns` name, in order; one that exists under just this name is no pattern. A failure: one names
/// no file.
[[nodiscard]] std::expected<std::vector<std::string>, Failure> expand(std::span<const std::string> patterns,
                                                                      std::string_view home);

}  // namespace sluice::ftx
