// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bytes for the wire tests: written as hex in tables, kept in vectors of exactly their size so that a sanitizer sees
// any read beyond them.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::wire::test {

using Buffer = std::vector<std::byte>;

inline constexpr MacAddress mac_a{{0x02, 0, 0, 0, 0, 0x0a}};
inline constexpr MacAddress mac_b{{0x02, 0, 0, 0, 0, 0x0b}};

/// "45 00 001c": hex digits in pairs; spaces between them mean nothing.
inline Buffer hex(std::string_view text) {
  Buffer bytes;
  unsigned value = 0;
  bool half = false;
  for (const char digit : text) {
    if (digit == ' ') {
      continue;
    }
    const auto nibble = static_cast<unsigned>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    value = value << 4 | nibble;
    if (half) {
      bytes.push_back(static_cast<std::byte>(value & 0xffU));
    }
    half = !half;
  }
  return bytes;
}

inline Buffer words(std::initializer_list<std::uint32_t> values) {
  Buffer bytes(values.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

inline Buffer operator+(Buffer left, const Buffer& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// A copy of `bytes` with one octet changed.
inline Buffer with(Buffer bytes, std::size_t offset, unsigned octet) {
  bytes.at(offset) = static_cast<std::byte>(octet);
  return bytes;
}

inline Buffer first(const Buffer& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

inline Buffer copy(ConstBytes bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace sluice::wire::test
