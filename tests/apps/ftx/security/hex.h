// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bytes from and to hexadecimal digits, for vectors.

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace sluice::ftx::test {

inline std::vector<std::byte> from_hex(std::string_view digits) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + at, digits.data() + at + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

inline std::string to_hex(ConstBytes bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += digits[value >> 4];
    text += digits[value & 15];
  }
  return text;
}

/// `count` bytes that count up from `first`.
inline std::vector<std::byte> counting(std::size_t count, unsigned first = 0) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::byte>(first + i));
  }
  return bytes;
}

}  // namespace sluice::ftx::test
