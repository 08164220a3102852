// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cray-1 64-bit floating point to and from IEEE 754 binary64 and binary32, at the speed of the machine's vectors.
//
// A Cray word (CRAY-1 Hardware Reference Manual 2240004, "Floating point arithmetic"), from the highest bit on:
//
//   | sign 1 | exponent 15, biased by 040000 | mantissa 48 |     value = (-1)^sign * 0.mantissa * 2^(exponent - 040000)
//
// Nothing is hidden: a normalised mantissa has its top bit set. Zero is all bits zero. An exponent of 060000 and above
// is out of range: it is how the machine marks overflow.
//
//                      | to Cray                                     | from Cray
//   rounding           | binary64 has 53 bits, 48 stay: to nearest,  | binary64: exact where the result is normal.
//                      | ties to even. binary32: exact.              | binary32: to nearest, ties to even.
//   above the range    | cannot be: Cray's range is larger           | infinity
//   below the range    | cannot be: subnormals become normalised     | subnormal, to nearest, ties to even; then zero
//   zero               | all bits zero, also for -0                  | mantissa 0: zero of the word's sign
//   unnormalised       | never written                               | by its value
//   infinity           | 060000, mantissa 0.5, sign kept             | what exponents of 060000 to 077776 give
//   not a number       | 077777, mantissa 0.5, sign kept             | what exponent 077777 gives, quiet, no payload
//
// So every binary32 comes back as it was, but for -0 (as 0) and payloads; so does every normalised Cray number in
// binary64's normal range through binary64. Results do not depend on the thread's rounding mode.
//
// `order` is the byte order of the Cray words: std::endian::big for the order of the machine, its files and its
// networks. IEEE numbers are in the host's order. No alignment is asked for.
//
// Ownership: ranges are borrowed for the call. Thread safety: any number of threads, on disjoint destinations.
// REQUIRES, for all: the source is a multiple of its number's size; the destination has room for as many numbers (what
// is behind them stays untouched); the two do not overlap, but those of 8 bytes to 8 may be the same.

#include <bit>

#include "base/bytes.h"

namespace sluice::ilp {

/// 8 bytes to 8. In binary64's terms of relative precision: 2^-48.
void cray_from_binary64(ConstBytes binary64, Bytes cray, std::endian order = std::endian::native);

/// 8 bytes to 8.
void binary64_from_cray(ConstBytes cray, Bytes binary64, std::endian order = std::endian::native);

/// 4 bytes to 8.
void cray_from_binary32(ConstBytes binary32, Bytes cray, std::endian order = std::endian::native);

/// 8 bytes to 4.
void binary32_from_cray(ConstBytes cray, Bytes binary32, std::endian order = std::endian::native);

}  // namespace sluice::ilp
