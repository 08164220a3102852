// SPDX-License-Identifier: Apache-2.0
#pragma once

// The list of names that --files-from reads.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::ftx {

/// What separates names in a list.
enum class NameEnd : std::uint8_t { line, nul };

/// Selection::names of a list: relative paths, from which "." and empty components are dropped. A '/' or "/." at the
/// end stays as '/'; "." alone is "". With lines, empty ones and those that begin with '#' or ';' are skipped. The
/// error names the line, or with NUL the number of the name.
[[nodiscard]] std::expected<std::vector<std::string>, std::string> parse_name_list(std::string_view list, NameEnd end);

}  // namespace sluice::ftx
