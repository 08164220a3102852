// SPDX-License-Identifier: Apache-2.0
#pragma once

// Byte ranges, and integers in network byte order at any alignment.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sluice {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// `value` with its bytes in the opposite order (std::byteswap, which libstdc++ 12 has only for C++23 library level).
template <std::unsigned_integral T>
[[nodiscard]] constexpr T byte_swapped(T value) {
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr T to_big_endian(T value) {
  return std::endian::native == std::endian::big ? value : byte_swapped(value);
}

/// The big-endian integer at `at`, any alignment. REQUIRES: sizeof(T) readable bytes.
template <std::unsigned_integral T>
[[nodiscard]] inline T load_big_endian(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return to_big_endian(value);
}

/// Stores `value` at `at` in big-endian order, any alignment. REQUIRES: sizeof(T) writable bytes.
template <std::unsigned_integral T>
inline void store_big_endian(std::byte* at, T value) {
  value = to_big_endian(value);
  std::memcpy(at, &value, sizeof value);
}

[[nodiscard]] inline ConstBytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

[[nodiscard]] inline std::string_view as_text(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sluice
