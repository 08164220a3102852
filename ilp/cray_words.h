// SPDX-License-Identifier: Apache-2.0
#pragma once

// The word form of the stages that convert between Cray-1 and IEEE 754 floating point, and the constants that the
// vector form (ilp/cray-inl.h) shares with it. What a conversion means is said in ilp/cray.h.
//
// Integers only: the result depends on no rounding mode, and no flag for subnormals. (A conversion of an integer below
// 2^53 to binary64 is exact in every mode; it stands in for a count of leading zeros, which vectors lack.)
//
// Ownership: a stage is the caller's, for one pass. Thread safety: none.

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>

namespace sluice::ilp::cray {

constexpr std::uint64_t sign = std::uint64_t{1} << 63;

/// Binary64: the bit that stands for the exponent's 1, and hidden in front of the fraction for the significand's 1.
constexpr std::uint64_t hidden = std::uint64_t{1} << 52;
constexpr std::uint64_t infinity = 0x7ff * hidden;
constexpr std::uint64_t not_a_number = infinity | hidden >> 1;
/// Binary64: the exponent field of an integer whose lowest bit is 2^-1074, the lowest of subnormals.
constexpr std::uint64_t subnormal_scale = 1074;

/// Binary32 within binary64: the difference of the biases, and of the widths of the fractions.
constexpr std::uint64_t bias_32 = 1023 - 127;
constexpr int fraction_32_shift = 52 - 23;
/// Binary32: what the bits of an infinity start with, and the lowest bit of its subnormals, 2^-149.
constexpr std::uint64_t infinity_32 = 0x7f800000;
constexpr std::uint64_t not_a_number_32 = 0x7fc00000;
constexpr std::uint64_t hidden_32 = std::uint64_t{1} << 23;
constexpr std::uint64_t subnormal_scale_32 = 149;

/// Cray: one in the exponent, and the mantissa with its top bit, which a normalised number has set.
constexpr std::uint64_t exponent_one = std::uint64_t{1} << 48;
constexpr std::uint64_t mantissa = exponent_one - 1;
constexpr std::uint64_t top_bit = exponent_one >> 1;
constexpr std::uint64_t exponent_max = 077777;
constexpr std::uint64_t out_of_range = 060000;
constexpr std::uint64_t cray_infinity = out_of_range * exponent_one | top_bit;
constexpr std::uint64_t cray_not_a_number = exponent_max * exponent_one | top_bit;

/// 1.f * 2^(E - 1023) of binary64 is 0.1f * 2^(E - 1022): the Cray exponent field for the exponent field E is E + this.
constexpr std::uint64_t exponent_difference = 040000 - 1022;
/// m as a binary64 has the exponent field E, and is worth 2^48 times 0.m; so the exponent field for 0.m * 2^(e -
/// 040000) is E + e - this.
constexpr std::uint64_t mantissa_scale = 040000 + 48;

/// `value` / 2^`shift`, rounded to nearest, ties to even. REQUIRES: value < 2^53 or shift < 54; 1 <= shift <= 54.
[[nodiscard]] constexpr std::uint64_t rounded_shift(std::uint64_t value, std::uint64_t shift) {
  const std::uint64_t below_half = (std::uint64_t{1} << (shift - 1)) - 1;
  return (value + below_half + ((value >> shift) & 1)) >> shift;
}

/// As many places as make any significand vanish: all that a shift for a subnormal result need do.
constexpr std::int64_t shift_max = 54;

[[nodiscard]] inline std::uint64_t bits_of_integer(std::uint64_t value) {
  return std::bit_cast<std::uint64_t>(static_cast<double>(value));
}

[[nodiscard]] inline std::uint64_t cray_of_binary64(std::uint64_t bits) {
  const std::uint64_t signs = bits & sign;
  const std::uint64_t magnitude = bits & ~sign;
  if (magnitude >= infinity) {
    return signs | (magnitude == infinity ? cray_infinity : cray_not_a_number);
  }
  if (magnitude == 0) {
    return 0;
  }
  const bool subnormal = magnitude < hidden;
  const std::uint64_t rounded = rounded_shift(subnormal ? bits_of_integer(magnitude) : magnitude, 52 - 47);
  const std::uint64_t exponent = rounded & ~(top_bit - 1);  // one bit too low; added to itself it is right
  const std::uint64_t difference = exponent_difference - (subnormal ? subnormal_scale : 0);
  return signs | (rounded + exponent + (difference * exponent_one | top_bit));
}

[[nodiscard]] inline std::uint64_t binary64_of_cray(std::uint64_t word) {
  const std::uint64_t signs = word & sign;
  const std::uint64_t exponent = (word & ~sign) / exponent_one;
  if (exponent >= out_of_range) {
    return signs | (exponent == exponent_max ? not_a_number : infinity);
  }
  if ((word & mantissa) == 0) {
    return signs;
  }
  const std::uint64_t bits = bits_of_integer(word & mantissa);
  const auto field = static_cast<std::int64_t>(bits / hidden + exponent - mantissa_scale);
  if (field >= 0x7ff) {
    return signs | infinity;
  }
  if (field >= 1) {
    return signs | (bits + (exponent - mantissa_scale) * hidden);
  }
  const std::uint64_t significand = (bits & (hidden - 1)) | hidden;
  return signs | rounded_shift(significand, static_cast<std::uint64_t>(std::min(1 - field, shift_max)));
}

/// Exact.
[[nodiscard]] inline std::uint64_t binary64_of_binary32(std::uint32_t bits) {
  const std::uint64_t signs = std::uint64_t{bits} << 32 & sign;
  const std::uint64_t magnitude = bits & 0x7fffffffU;
  if (magnitude == 0) {
    return signs;
  }
  if (magnitude < hidden_32) {
    return signs | (bits_of_integer(magnitude) - subnormal_scale_32 * hidden);
  }
  const std::uint64_t wide = magnitude << fraction_32_shift;
  return signs | (magnitude >= infinity_32 ? wide | infinity : wide + bias_32 * hidden);
}

/// To nearest, ties to even.
[[nodiscard]] inline std::uint32_t binary32_of_binary64(std::uint64_t bits) {
  const auto signs = static_cast<std::uint32_t>((bits & sign) >> 32);
  const std::uint64_t magnitude = bits & ~sign;
  std::uint64_t narrow;
  if (magnitude > infinity) {
    narrow = not_a_number_32;
  } else if (magnitude >= (bias_32 + 0xff) * hidden) {
    narrow = infinity_32;
  } else if (magnitude >= (bias_32 + 1) * hidden) {
    narrow = rounded_shift(magnitude - bias_32 * hidden, fraction_32_shift);
  } else {
    const std::uint64_t significand = (magnitude & (hidden - 1)) | hidden;
    const auto field = static_cast<std::int64_t>(magnitude / hidden - bias_32);
    narrow = rounded_shift(significand, static_cast<std::uint64_t>(std::min(fraction_32_shift + 1 - field, shift_max)));
  }
  return signs | static_cast<std::uint32_t>(narrow);
}

}  // namespace sluice::ilp::cray

namespace sluice::ilp {

/// Binary64 to Cray. REQUIRES: the message is a multiple of 8, so pieces below it do not occur.
struct CrayFromBinary64Words {
  template <std::unsigned_integral Word>
  [[nodiscard]] Word word(Word value) const {
    if constexpr (sizeof(Word) == 8) {
      return cray::cray_of_binary64(value);
    } else {
      return value;
    }
  }
};

/// Cray to binary64. REQUIRES: the message is a multiple of 8, so pieces below it do not occur.
struct Binary64FromCrayWords {
  template <std::unsigned_integral Word>
  [[nodiscard]] Word word(Word value) const {
    if constexpr (sizeof(Word) == 8) {
      return cray::binary64_of_cray(value);
    } else {
      return value;
    }
  }
};

}  // namespace sluice::ilp
