// SPDX-License-Identifier: Apache-2.0
#pragma once

// The meaning of each kernel of ilp/kernels.h, by loops that are plainly right. Tests hold the kernels to these;
// nothing else should call them. Ownership, thread safety and requirements are those of ilp/kernels.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/internet_checksum.h"

namespace sluice::ilp::scalar {

[[nodiscard]] inline std::uint16_t sum(ConstBytes bytes) { return header_sum(bytes); }

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
