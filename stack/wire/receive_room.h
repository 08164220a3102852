// SPDX-License-Identifier: Apache-2.0
#pragma once

// SLIOCRECEIVEROOM, an I_STR ioctl of ours that every driver answers: how many bytes of user data it holds, at least,
// for a program that does not read. Its return value is that number; 0: the driver does not know. A program that
// announces credit to its peer (apps/ftx) asks for it.

#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice::wire {

inline constexpr std::int32_t SLIOCRECEIVEROOM = ('S' << 8) | 1;  // NOLINT: named as ioctls are

[[nodiscard]] constexpr std::int32_t receive_room_value(std::size_t bytes) {
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(bytes < most ? bytes : most);
}

}  // namespace sluice::wire
