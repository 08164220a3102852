// SPDX-License-Identifier: Apache-2.0
#pragma once

// The internet checksum (RFC 1071) of headers. Payloads are summed by ilp kernels through message.transform(); what is
// here joins those sums with the few bytes of a header or a pseudo-header.
//
// A *sum* here is always the ones'-complement sum of the 16-bit words as they lie in memory, loaded in the machine's
// own byte order and not complemented. RFC 1071 section 2 (B): "The sum of 16-bit integers can be computed in either
// byte order", the result is the same "except the bytes are swapped in the sum", so nothing needs swapping as long as
// every part of a sum, and the field it is compared with or stored in, is treated the same way. A *checksum* is the
// complement of a sum, again as it lies in memory: store_checksum and load_checksum copy its two bytes unchanged.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::wire {

/// Folds any number of added 16-bit words into 16 bits, adding carries back in (RFC 1071 section 2 (A)).
[[nodiscard]] constexpr std::uint16_t fold_sum(std::uint64_t sum) {
  sum = (sum & 0xffff'ffffU) + (sum >> 32);
  sum = (sum & 0xffff'ffffU) + (sum >> 32);
  sum = (sum & 0xffffU) + (sum >> 16);
  sum = (sum & 0xffffU) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

/// The sum of two parts, the second of which starts an even number of bytes after the first.
[[nodiscard]] constexpr std::uint16_t add_sums(std::uint16_t left, std::uint16_t right) {
  return fold_sum(static_cast<std::uint64_t>(left) + right);
}

/// The sum of two parts, the second of which starts `right_offset` bytes after the first. A part at an odd offset has
/// its bytes in the other halves of the words: RFC 1071 section 2 (B), "byte order independence".
[[nodiscard]] constexpr std::uint16_t add_sums(std::uint16_t left, std::uint16_t right, std::size_t right_offset) {
  return add_sums(left, right_offset % 2 == 0 ? right : byte_swapped(right));
}

/// The sum of a small header. An odd last byte is padded with a zero byte, as RFC 768 says for UDP: "padded with zero
/// octets at the end (if necessary) to make a multiple of two octets".
[[nodiscard]] constexpr std::uint16_t header_sum(ConstBytes header) {
  constexpr bool little = std::endian::native == std::endian::little;
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + 1 < header.size(); at += 2) {
    const auto first = static_cast<std::uint32_t>(header[at]);
    const auto second = static_cast<std::uint32_t>(header[at + 1]);
    sum += little ? first | (second << 8) : (first << 8) | second;
  }
  if (at < header.size()) {
    sum += static_cast<std::uint32_t>(header[at]) << (little ? 0 : 8);
  }
  return fold_sum(sum);
}

/// The sum of one 16-bit number that the header holds in network byte order.
[[nodiscard]] constexpr std::uint16_t number_sum(std::uint16_t number) { return to_big_endian(number); }

/// The pseudo-header sum of UDP and other transports: RFC 768 and RFC 9293 section 3.1 for IPv4 (zero, protocol,
/// 16-bit length), RFC 8200 section 8.1 for IPv6 (32-bit upper-layer packet length, zero, next header).
/// REQUIRES: both addresses of one family; `length` counts the transport header and its data.
[[nodiscard]] inline std::uint16_t pseudo_header_sum(const IpAddress& source, const IpAddress& destination,
                                                     std::uint8_t protocol, std::uint32_t length) {
  SLUICE_REQUIRE(source.family() == destination.family());
  const std::uint64_t numbers = static_cast<std::uint64_t>(number_sum(protocol)) +
                                number_sum(static_cast<std::uint16_t>(length >> 16)) +
                                number_sum(static_cast<std::uint16_t>(length));
  return fold_sum(numbers + header_sum(source.bytes()) + header_sum(destination.bytes()));
}

/// The checksum that makes everything that went into `sum` add up to all ones.
[[nodiscard]] constexpr std::uint16_t checksum_of(std::uint16_t sum) { return static_cast<std::uint16_t>(~sum); }

/// Whether a sum over data that includes its checksum says that the data is whole. RFC 1071 section 1: "If the result
/// is all 1 bits (-0 in 1's complement arithmetic), the check succeeds." Zero is the other zero: only data that is all
/// zeros gives it.
[[nodiscard]] constexpr bool sum_holds(std::uint16_t sum) { return sum == 0xffff; }

/// The checksum after one 16-bit word of the data changed. RFC 1624 section 3, equation 3: "HC' = ~(~HC + ~m + m')".
/// All three as they lie in memory.
[[nodiscard]] constexpr std::uint16_t updated_checksum(std::uint16_t checksum, std::uint16_t old_word,
                                                       std::uint16_t new_word) {
  const std::uint64_t sum = static_cast<std::uint64_t>(static_cast<std::uint16_t>(~checksum)) +
                            static_cast<std::uint16_t>(~old_word) + new_word;
  return checksum_of(fold_sum(sum));
}

/// The checksum (or sum) field at `at`, as it lies in memory. REQUIRES: 2 readable bytes.
[[nodiscard]] inline std::uint16_t load_checksum(const std::byte* at) {
  std::uint16_t checksum;
  std::memcpy(&checksum, at, sizeof checksum);
  return checksum;
}

/// REQUIRES: 2 writable bytes at `at`.
inline void store_checksum(std::byte* at, std::uint16_t checksum) { std::memcpy(at, &checksum, sizeof checksum); }

}  // namespace sluice::wire
