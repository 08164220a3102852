// SPDX-License-Identifier: Apache-2.0
#pragma once

// The algebra of the internet checksum (RFC 1071, RFC 1624): how sums are folded, joined, complemented, compared and
// updated. Sums of payload come from the kernels of ilp/; what is here joins them with each other and with the few
// bytes of a header.
//
// A *sum* is always the ones'-complement sum of 16-bit words as they lie in memory, loaded in the machine's own byte
// order and not complemented. RFC 1071 section 2 (B): "The sum of 16-bit integers can be computed in either byte
// order", the result is the same "except the bytes are swapped in the sum". So nothing needs swapping as long as every
// part of a sum, and the field it is compared with or stored in, is treated the same way. A sum is 0 only when every
// byte is 0; any other multiple of 65535 reads 0xffff.
//
// A *checksum* is the complement of a sum, again as it lies in memory: store_checksum and load_checksum copy its two
// bytes unchanged.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/bytes.h"

namespace sluice {

/// Folds any number of added 16-bit words into 16 bits. RFC 1071 section 1: "any overflows from the most significant
/// bits are added into the least significant bits". A number that is added to itself with its halves exchanged has in
/// its upper half the sum of both, and what overflowed from the lower one.
[[nodiscard]] constexpr std::uint16_t fold_sum(std::uint64_t sum) {
  sum += std::rotl(sum, 32);
  auto half = static_cast<std::uint32_t>(sum >> 32);
  half += std::rotl(half, 16);
  return static_cast<std::uint16_t>(half >> 16);
}

/// The sum of two parts, the second of which starts an even number of bytes after the first. RFC 1071 section 2 (A):
/// "As long as the even/odd assignment of bytes is respected, the sum can be done in any order, and it can be
/// arbitrarily split into groups."
[[nodiscard]] constexpr std::uint16_t add_sums(std::uint16_t left, std::uint16_t right) {
  const std::uint32_t sum = std::uint32_t{left} + right;
  return static_cast<std::uint16_t>((sum & 0xffffU) + (sum >> 16));
}

/// The sum of two parts, the second of which starts `right_offset` bytes after the first. At an odd offset each of its
/// bytes is in the other half of a word. RFC 1071 section 2 (B): "consistently swapping bytes simply rotates the bits
/// within the sum, but does not affect their internal ordering."
[[nodiscard]] constexpr std::uint16_t add_sums(std::uint16_t left, std::uint16_t right, std::size_t right_offset) {
  return add_sums(left, right_offset % 2 == 0 ? right : byte_swapped(right));
}

/// The sum of a few bytes, such as a header. RFC 1071 section 1: "Adjacent octets to be checksummed are paired to form
/// 16-bit integers, and the 1's complement sum of these 16-bit integers is formed." An odd last byte is padded with a
/// zero byte, as RFC 768 says for UDP: "padded with zero octets at the end (if necessary) to make a multiple of two
/// octets".
[[nodiscard]] constexpr std::uint16_t header_sum(ConstBytes header) {
  constexpr bool little = std::endian::native == std::endian::little;
  std::uint64_t sum = 0;
  std::size_t at = 0;
  if (!std::is_constant_evaluated()) {  // 2^16 and 2^64 are 1 modulo 65535: words of any width sum alike
    const auto add = [&](std::size_t offset) {
      std::uint64_t word;
      std::memcpy(&word, header.data() + offset, sizeof word);
      sum += word;
      sum += sum < word ? 1U : 0U;
    };
    for (; at + 32 <= header.size(); at += 32) {
      add(at);
      add(at + 8);
      add(at + 16);
      add(at + 24);
    }
    for (; at + 8 <= header.size(); at += 8) {
      add(at);
    }
  }
  if (at < header.size()) {
    sum = (sum & 0xffff'ffffU) + (sum >> 32);  // room for a few more bytes
  }
  for (; at < header.size(); ++at) {
    sum += static_cast<std::uint64_t>(header[at]) << ((at % 2 == 0) == little ? 0 : 8);
  }
  return fold_sum(sum);
}

/// The sum of one 16-bit number that the header holds in network byte order.
[[nodiscard]] constexpr std::uint16_t number_sum(std::uint16_t number) { return to_big_endian(number); }

/// The checksum that makes everything that went into `sum` add up to all ones. Protocols in which a field of zero says
/// that there is no checksum send all ones instead, the other zero of ones' complement arithmetic.
[[nodiscard]] constexpr std::uint16_t checksum_of(std::uint16_t sum, bool zero_is_sent_as_ones = false) {
  const auto checksum = static_cast<std::uint16_t>(~sum);
  return checksum == 0 && zero_is_sent_as_ones ? std::uint16_t{0xffff} : checksum;
}

/// Whether a sum over data that includes its checksum says that the data is whole. RFC 1071 section 1: "If the result
/// is all 1 bits (-0 in 1's complement arithmetic), the check succeeds."
[[nodiscard]] constexpr bool sum_holds(std::uint16_t sum) { return sum == 0xffff; }

/// The checksum after a part of the data changed, which started at an even offset and summed to `old_sum`, to one that
/// sums to `new_sum`; a 16-bit word is its own sum. RFC 1624 section 3, equation 3: "HC' = ~(~HC + ~m + m')".
[[nodiscard]] constexpr std::uint16_t updated_checksum(std::uint16_t checksum, std::uint16_t old_sum,
                                                       std::uint16_t new_sum) {
  return checksum_of(add_sums(add_sums(checksum_of(checksum), checksum_of(old_sum)), new_sum));
}

/// The checksum (or sum) field at `at`, as it lies in memory. REQUIRES: 2 readable bytes.
[[nodiscard]] inline std::uint16_t load_checksum(const std::byte* at) {
  std::uint16_t checksum;
  std::memcpy(&checksum, at, sizeof checksum);
  return checksum;
}

/// REQUIRES: 2 writable bytes at `at`.
inline void store_checksum(std::byte* at, std::uint16_t checksum) { std::memcpy(at, &checksum, sizeof checksum); }

}  // namespace sluice
