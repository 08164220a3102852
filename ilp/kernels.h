// SPDX-License-Identifier: Apache-2.0
#pragma once

// The data manipulations of a protocol stack, each as one pass over bytes at the speed of the machine's vectors.
//
// Every kernel is stateless, allocates nothing, and picks the best instruction set of the running CPU on its first
// use (SSSE3, SSE4, AVX2, AVX-512, NEON; plain words for short messages and where there are no vectors). Results do
// not depend on the instruction set: each kernel gives exactly what its namesake in ilp/scalar.h gives.
//
// Ownership: kernels borrow the ranges for the call. Thread safety: any number of threads, on disjoint destinations.
// REQUIRES, for all: a range has fewer than 2^36 bytes; a source and a destination do not overlap; a destination has
// at least the size of its source (bytes behind that size stay untouched). No alignment is asked for.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace sluice::ilp {

/// Ones' complement addition of two partial sums (RFC 1071 section 1: "by means of an 'end around carry'").
[[nodiscard]] constexpr std::uint16_t sum_add(std::uint16_t a, std::uint16_t b) {
  const std::uint32_t total = std::uint32_t{a} + b;
  return static_cast<std::uint16_t>((total & 0xffffU) + (total >> 16));
}

/// What a checksum field holds for a whole that sums to `sum`: the complement, of which zero is sent as all ones where
/// the protocol says so (ilp::Sum).
[[nodiscard]] constexpr std::uint16_t checksum_of(std::uint16_t sum, bool zero_is_sent_as_ones) {
  const auto checksum = static_cast<std::uint16_t>(~sum);
  return checksum == 0 && zero_is_sent_as_ones ? std::uint16_t{0xffff} : checksum;
}

/// The RFC 1071 sum of `bytes` before the final complement: the ones' complement sum of their 16-bit words as they lie
/// in memory, folded to 16 bits. An odd last byte is paired with a zero byte behind it.
///
/// Words are taken in the machine's own order; RFC 1071 section 2(B): "The sum of 16-bit integers can be computed in
/// either byte order." So the result is stored in a header as it is, without a conversion to network order. It is 0
/// only when all bytes are 0; otherwise a multiple of 65535 reads 0xffff.
[[nodiscard]] std::uint16_t sum(ConstBytes bytes);

/// What `bytes` add to the sum of a whole in which they start at an odd offset. RFC 1071 section 2(B): "consistently
/// swapping bytes simply rotates the bits within the sum, but does not affect their internal ordering."
[[nodiscard]] std::uint16_t sum_at_odd_offset(ConstBytes bytes);

/// Reverses the bytes of each unit in place. REQUIRES: `unit` is 2, 4 or 8; the size is a multiple of it.
void swap(std::size_t unit, Bytes bytes);

/// Writes `source` to `destination` with the bytes of each unit reversed. REQUIRES: as `swap`.
void swap_copy(std::size_t unit, ConstBytes source, Bytes destination);

/// Writes `source` to `destination`.
void copy(ConstBytes source, Bytes destination);

/// Writes `source` to `destination` and returns `sum(source)`, in one pass.
std::uint16_t sum_copy(ConstBytes source, Bytes destination);

/// As swap_copy, and returns `sum(source)`: what a receiver does whose sum covers the bytes as they came. One pass.
/// `destination` may be `source`. REQUIRES: as `swap`.
std::uint16_t sum_swap_copy(std::size_t unit, ConstBytes source, Bytes destination);

/// As swap_copy, and returns the sum of what was written: what a sender does. One pass. `destination` may be `source`.
/// REQUIRES: as `swap`.
std::uint16_t swap_sum_copy(std::size_t unit, ConstBytes source, Bytes destination);

}  // namespace sluice::ilp
