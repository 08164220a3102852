// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text from outside on its way to a terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// UTF-8 `text` without anything that a terminal would obey: control characters (C0, DEL, C1) become \n, \t, \r or
/// \xHH; a backslash stays as it is. What is longer than `bytes_max` ends in "...".
[[nodiscard]] std::string escaped(std::string_view text, std::size_t bytes_max = 1000);

}  // namespace sluice
