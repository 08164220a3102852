// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two sums of a block: a rolling one, which goes from one byte to the next in a few instructions, and a strong one,
// which tells what the first finds (A. Tridgell, P. Mackerras: "The rsync algorithm", 1996).
//
// The rolling sum of x[0] .. x[n-1] is the sum of x[i] * M^(n-1-i) modulo 2^64: one of 32 bits would find a wrong block
// every few hundred kilobytes of a large file.
//
// The functions have no state; a RollingSum is not thread-safe.

#include <cstdint>

#include "apps/ftx/protocol/signature.h"
#include "base/bytes.h"

namespace sluice::ftx {

class RollingSum {
 public:
  static constexpr std::uint64_t multiplier = 0x9e37'79b9'7f4a'7c15;

  /// Of windows of `bytes`.
  explicit RollingSum(std::uint64_t bytes) : leaving_(power(bytes)) {}

  /// Begins with a window. REQUIRES: it has the size.
  void begin(ConstBytes window) {
    value_ = 0;
    for (const std::byte one : window) {
      value_ = value_ * multiplier + std::to_integer<std::uint64_t>(one);
    }
  }
  /// The window goes on by a byte.
  void roll(std::byte out, std::byte in) {
    value_ = value_ * multiplier + std::to_integer<std::uint64_t>(in) - leaving_ * std::to_integer<std::uint64_t>(out);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  [[nodiscard]] static constexpr std::uint64_t power(std::uint64_t exponent) {
    std::uint64_t result = 1;
    for (std::uint64_t base = multiplier; exponent > 0; exponent /= 2, base *= base) {
      result *= exponent % 2 != 0 ? base : 1;
    }
    return result;
  }

  std::uint64_t leaving_;
  std::uint64_t value_ = 0;
};

[[nodiscard]] StrongSum strong_sum(ConstBytes block);

/// Writes the signature of `block`. REQUIRES: `out` has block_signature_bytes.
void sign_block(ConstBytes block, Bytes out);

}  // namespace sluice::ftx
