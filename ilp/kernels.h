// SPDX-License-Identifier: Apache-2.0
#pragma once

// The data manipulations of a protocol stack, each as one pass over bytes at the speed of the machine's vectors.
//
// Every kernel is stateless, allocates nothing, and picks the best instruction set of the running CPU on its first
// use (SSSE3, SSE4, AVX2, AVX-512 with and without VNNI, NEON; plain words for short messages and where there are no
// vectors). Results do not depend on the instruction set: each kernel gives exactly what its namesake in ilp/scalar.h
// gives.
//
// Ownership: kernels borrow the ranges for the call. Thread safety: any number of threads, on disjoint destinations.
// REQUIRES, for all: a range has fewer than 2^36 bytes; a source and a destination do not overlap; a destination has
// at least the size of its source (bytes behind that size stay untouched). No alignment is asked for.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace sluice::ilp {

/// The RFC 1071 sum of `bytes` before the final complement: the ones' complement sum of their 16-bit words as they lie
/// in memory, folded to 16 bits. An odd last byte is paired with a zero byte behind it.
///
/// base/internet_checksum.h says what such a sum is, and has what is done with it: joining, complementing, storing.
[[nodiscard]] std::uint16_t sum(ConstBytes bytes);

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
