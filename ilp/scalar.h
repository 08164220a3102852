// SPDX-License-Identifier: Apache-2.0
#pragma once

// The meaning of each kernel of ilp/kernels.h, one byte or one 16-bit word at a time. Tests hold the kernels to these;
// nothing else should call them. Ownership, thread safety and requirements are those of ilp/kernels.h.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace sluice::ilp::scalar {

/// RFC 1071 section 1: "Adjacent octets to be checksummed are paired to form 16-bit integers, and the 1's complement
/// sum of these 16-bit integers is formed."
[[nodiscard]] inline std::uint16_t sum(ConstBytes bytes) {
  std::uint32_t total = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::array pair = {bytes[i], i + 1 < bytes.size() ? bytes[i + 1] : std::byte{0}};
    std::uint16_t word;
    std::memcpy(&word, pair.data(), sizeof word);
    total += word;
    total = (total & 0xffffU) + (total >> 16);
  }
  return static_cast<std::uint16_t>(total);
}

/// The bytes as they lie in the whole: the first is the second of its pair.
[[nodiscard]] inline std::uint16_t sum_at_odd_offset(ConstBytes bytes) {
  if (bytes.empty()) {
    return 0;
  }
  const std::array first_pair = {std::byte{0}, bytes[0]};
  const std::uint32_t total = std::uint32_t{sum(first_pair)} + sum(bytes.subspan(1));
  return static_cast<std::uint16_t>((total & 0xffffU) + (total >> 16));
}

inline void swap(std::size_t unit, Bytes bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += unit) {
    std::ranges::reverse(bytes.subspan(at, unit));
  }
}

inline void copy(ConstBytes source, Bytes destination) { std::ranges::copy(source, destination.begin()); }

inline void swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  copy(source, destination);
  swap(unit, destination.first(source.size()));
}

inline std::uint16_t sum_copy(ConstBytes source, Bytes destination) {
  copy(source, destination);
  return sum(source);
}

inline std::uint16_t sum_swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  const std::uint16_t before = sum(source);
  swap_copy(unit, source, destination);
  return before;
}

inline std::uint16_t swap_sum_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  swap_copy(unit, source, destination);
  return sum(destination.first(source.size()));
}

}  // namespace sluice::ilp::scalar
