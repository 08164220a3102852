// SPDX-License-Identifier: Apache-2.0
#pragma once

// What ICMP for IPv4 (RFC 792) and for IPv6 (RFC 4443) have in common: 8 bytes of header, of which the second word
// depends on the type, and echoes.
//
// The checksum covers header and data, so it is the module's: sum both, and accept if sum_holds; or sum with a zero
// field, which is what emit leaves, and store checksum_of(sum) at icmp_checksum_offset.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/internet_checksum.h"

namespace sluice::wire {

inline constexpr std::size_t icmp_header_size = 8;
inline constexpr std::size_t icmp_checksum_offset = 2;

/// Echo and Echo Reply.
struct IcmpEcho {
  bool reply = false;
  std::uint16_t identifier = 0;
  std::uint16_t sequence = 0;

  /// The second word of the header.
  [[nodiscard]] constexpr std::uint32_t word() const {
    return static_cast<std::uint32_t>(std::uint32_t{identifier} << 16 | sequence);
  }
  friend constexpr auto operator<=>(const IcmpEcho&, const IcmpEcho&) = default;
};

/// Type, code, zero checksum; `word` is the second word of the header. REQUIRES: room for icmp_header_size.
inline void emit_icmp_header(std::uint8_t type, std::uint8_t code, std::uint32_t word, Bytes out) {
  out[0] = std::byte{type};
  out[1] = std::byte{code};
  store_checksum(out.data() + icmp_checksum_offset, 0);
  store_big_endian(out.data() + 4, word);
}

}  // namespace sluice::wire
