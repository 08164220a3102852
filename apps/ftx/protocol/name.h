// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which file names a peer may send. ftx shows a name on a terminal and opens it below the served directory; the checks
// here make both safe. The walk with O_NOFOLLOW (apps/ftx/files/directory.h) then keeps symbolic links out.

#include <string>
#include <string_view>
#include <vector>

namespace sluice::ftx {

inline constexpr std::size_t component_bytes_max = 255;  // NAME_MAX

/// True when `text` holds no control character: no C0 control, no DEL, no C1 control (in UTF-8: C2 80 .. C2 9F).
[[nodiscard]] bool is_printable(std::string_view text);

/// `text` with '?' in place of every byte that is_printable() refuses.
[[nodiscard]] std::string printable(std::string_view text);

/// One path component that may name a file: printable, 1..255 bytes, no '/', not "." or "..".
[[nodiscard]] bool is_component(std::string_view name);

/// A relative path whose components all satisfy is_component(). One trailing '/' is allowed and means a directory. The
/// empty path means the served directory.
[[nodiscard]] bool is_relative_path(std::string_view path);

/// What stands behind the last '/'.
[[nodiscard]] constexpr std::string_view last_component(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0
}

/// Whether a path with this last component names a directory without its name, so that what lies in it is meant.
[[nodiscard]] constexpr bool means_content(std::string_view last) {
  return last.empty() || last == "." || last == "..";
}

/// The components of `path`. REQUIRES: is_relative_path(path).
[[nodiscard]] std::vector<std::string_view> components(std::string_view path);

}  // namespace sluice::ftx
