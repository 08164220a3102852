// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which names a peer may state. A name is shown on a terminal and becomes a path below a held directory, so both
// uses are made safe here, at the boundary; the walk with O_NOFOLLOW (apps/ftx/directory.h) then keeps symbolic links
// out.

#include <string>
#include <string_view>
#include <vector>

namespace sluice::ftx {

inline constexpr std::size_t component_bytes_max = 255;  // NAME_MAX

/// True when a terminal shows `text` as it is: no C0 control, no DEL, no C1 control (in UTF-8: C2 80 .. C2 9F).
[[nodiscard]] bool is_printable(std::string_view text);

/// `text` with every byte that is_printable refuses replaced by '?'.
[[nodiscard]] std::string printable(std::string_view text);

/// One path component that may name a file: printable, 1..255 bytes, no '/', not "." or "..".
[[nodiscard]] bool is_component(std::string_view name);

/// A relative path of components, no empty one; a single trailing '/' is allowed and says "a directory".
/// The empty path is the served directory itself.
[[nodiscard]] bool is_relative_path(std::string_view path);

/// The components of `path`. REQUIRES: is_relative_path(path).
[[nodiscard]] std::vector<std::string_view> components(std::string_view path);

}  // namespace sluice::ftx
