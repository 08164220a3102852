// SPDX-License-Identifier: Apache-2.0
#pragma once

// Seeded pseudo-random numbers: the same seed gives the same numbers on every machine. Not for secrets.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "base/bytes.h"

namespace sluice {

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
/// Satisfies std::uniform_random_bit_generator. Not thread-safe.
class Prng {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Prng(std::uint64_t seed) : state_(seed) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  constexpr result_type operator()() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// Fills `bytes` from as many numbers as it takes, each with its least significant byte first.
  void fill(Bytes bytes) {
    while (!bytes.empty()) {
      result_type number = (*this)();
      if constexpr (std::endian::native == std::endian::big) {
        number = std::byteswap(number);
      }
      const std::size_t size = std::min(bytes.size(), sizeof number);
      std::memcpy(bytes.data(), &number, size);
      bytes = bytes.subspan(size);
    }
  }

  /// Uniform in [0, bound). REQUIRES: bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{(*this)()} * bound) >> 64);
  }

  /// Uniform in [0, 1).
  constexpr double unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  /// True with the given probability in [0, 1].
  constexpr bool chance(double probability) { return unit() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace sluice
