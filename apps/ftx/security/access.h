// SPDX-License-Identifier: Apache-2.0
#pragma once

// Access: what a client may do to the files of a standing server. A set of two: fetch them, and send some.

#include <cstdint>

namespace sluice::ftx {

enum class Access : std::uint8_t { none = 0, read = 1, write = 2, both = 3 };

[[nodiscard]] constexpr Access operator&(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}

[[nodiscard]] constexpr bool allows(Access access, Access wanted) { return (access & wanted) == wanted; }

}  // namespace sluice::ftx
