// SPDX-License-Identifier: Apache-2.0
#pragma once

// The meaning of each conversion of ilp/cray.h, one number at a time, by the C library's arithmetic. Tests hold the
// conversions to these; nothing else should call them. REQUIRES: the default rounding mode.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::ilp::scalar {

[[nodiscard]] inline std::uint64_t cray_from_binary64(double value) {
  const std::uint64_t sign = std::uint64_t{std::signbit(value)} << 63;
  if (std::isnan(value)) {
    return sign | std::uint64_t{077777} << 48 | std::uint64_t{1} << 47;
  }
  if (std::isinf(value)) {
    return sign | std::uint64_t{060000} << 48 | std::uint64_t{1} << 47;
  }
  if (value == 0) {
    return 0;
  }
  int exponent;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  double mantissa = std::nearbyint(std::ldexp(fraction, 48));
  if (mantissa == 0x1p48) {
    mantissa = 0x1p47;
    ++exponent;
  }
  return sign | static_cast<std::uint64_t>(exponent + 040000) << 48 | static_cast<std::uint64_t>(mantissa);
}

[[nodiscard]] inline double binary64_from_cray(std::uint64_t word) {
  const double sign = word >> 63 != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(word >> 48 & 077777);
  if (exponent == 077777) {
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  }
  if (exponent >= 060000) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const auto mantissa = static_cast<double>(word & 0xffffffffffffU);
  return sign * std::ldexp(mantissa, exponent - 040000 - 48);
}

[[nodiscard]] inline std::uint64_t cray_from_binary32(float value) { return cray_from_binary64(double{value}); }

/// Rounded once: what binary64 rounds is far below what binary32 can tell from zero.
[[nodiscard]] inline float binary32_from_cray(std::uint64_t word) {
  return static_cast<float>(binary64_from_cray(word));
}

}  // namespace sluice::ilp::scalar
