// SPDX-License-Identifier: Apache-2.0
#pragma once

// The TCP header (RFC 9293 section 3.1) and its options (section 3.2; RFC 7323: window scale and timestamps; RFC 2018:
// selective acknowledgments).
//
// A segment is the header, which emit writes, the options, which encode writes behind it, and data; header_size counts
// the first two. The checksum is kept as it lies in memory (base/internet_checksum.h), because it covers the data,
// which is summed elsewhere: pseudo_header_sum() for protocol_tcp (checksum.h), the sum of header and options, and the
// data's sum make the total, of which checksum_of() is the field. A receiver accepts if sum_holds(total).
//
// Plain values; what is parsed keeps nothing of the bytes.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "base/contract.h"
#include "base/internet_checksum.h"

namespace sluice::wire {

/// The control bits, as they lie in octet 13 of the header.
enum TcpFlag : std::uint8_t {
  tcp_fin = 1,
  tcp_syn = 2,
  tcp_rst = 4,
  tcp_psh = 8,
  tcp_ack = 16,
  tcp_urg = 32,
  tcp_ece = 64,
  tcp_cwr = 128
};

/// RFC 2018 section 3: "Left Edge of Block: This is the first sequence number of this block. Right Edge of Block: This
/// is the sequence number immediately following the last sequence number of this block."
struct SackBlock {
  std::uint32_t left = 0;
  std::uint32_t right = 0;

  friend constexpr auto operator<=>(const SackBlock&, const SackBlock&) = default;
};

/// The options of one segment that are known here. Which of them a segment may have is for its reader and writer to
/// say: RFC 9293 section 3.1 has TCP "receive a TCP Option in any segment (MUST-5)".
struct TcpOptions {
  static constexpr std::size_t size_max = 40;
  static constexpr std::size_t sack_blocks_max = 4;  ///< 3 beside timestamps

  /// RFC 7323 section 3.2: TSval and TSecr.
  struct Timestamps {
    std::uint32_t value = 0;
    std::uint32_t echo = 0;

    friend constexpr auto operator<=>(const Timestamps&, const Timestamps&) = default;
  };

  std::optional<std::uint16_t> segment_bytes_max{};  ///< MSS
  /// The shift count as it came. RFC 7323 section 2.3: "If a Window Scale option is received with a shift.cnt value
  /// larger than 14, the TCP SHOULD log the error but MUST use 14 instead of the specified value." That is the
  /// reader's.
  std::optional<std::uint8_t> window_scale{};
  bool sack_permitted = false;
  std::optional<Timestamps> timestamps{};
  std::array<SackBlock, sack_blocks_max> sack{};  ///< the first sack_count count; their edges as they came
  std::size_t sack_count = 0;

  /// Never fails. An option that is not known is passed over; one of a length that cannot be (0, 1, or beyond the end)
  /// ends the list; one of a known kind with a length that this kind does not have is passed over. Of a kind that comes
  /// twice the last counts. `options` are the header's bytes from TcpHeader::size_min to header_size.
  [[nodiscard]] static TcpOptions parse(ConstBytes options);
  /// What encode writes: a multiple of 4, at most size_max. REQUIRES: sack_count <= sack_blocks_max, and the options
  /// fit. All do together without SACK blocks (24 bytes); n blocks take 8n + 4 more.
  [[nodiscard]] std::size_t encoded_size() const;
  /// Writes encoded_size() bytes and returns how many these are: each option begins so that its numbers are aligned,
  /// with No-Operation in front. REQUIRES: out holds them; as encoded_size().
  std::size_t encode(Bytes out) const;

  friend constexpr auto operator<=>(const TcpOptions&, const TcpOptions&) = default;
};

enum class TcpMalformed : std::uint8_t {
  short_header,    ///< under 20 bytes
  bad_data_offset  ///< under 5, or beyond the segment
};

struct TcpHeader {
  static constexpr std::size_t size_min = 20;
  static constexpr std::size_t size_max = size_min + TcpOptions::size_max;
  static constexpr std::size_t sequence_offset = 4;
  static constexpr std::size_t header_size_offset = 12;  // "data offset": 32-bit words, in the upper half of the byte
  static constexpr std::size_t flags_offset = 13;
  static constexpr std::size_t checksum_offset = 16;

  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgment = 0;
  std::uint8_t header_size = size_min;  ///< in bytes, options included: a multiple of 4, 20..60
  std::uint8_t flags = 0;               ///< TcpFlag
  std::uint16_t window = 0;             ///< as on the wire, unscaled
  std::uint16_t checksum = 0;           ///< as it lies in memory
  std::uint16_t urgent_pointer = 0;

  /// Whether any of these flags is set.
  [[nodiscard]] constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }

  /// `bytes` are the first bytes of the segment that lie together, `segment_size` is the size of all of it. The options
  /// need not be among `bytes`: who reads them sees to it that header_size bytes are.
  [[nodiscard]] static std::expected<TcpHeader, TcpMalformed> parse(ConstBytes bytes, std::size_t segment_size) {
    if (bytes.size() < size_min) {
      return std::unexpected(TcpMalformed::short_header);
    }
    // RFC 9293 section 3.1: "The number of 32-bit words in the TCP header. This indicates where the data begins."
    const std::byte* at = bytes.data();
    const auto header_size = static_cast<std::uint8_t>((static_cast<unsigned>(at[header_size_offset]) >> 4) * 4);
    if (header_size < size_min || header_size > segment_size) {
      return std::unexpected(TcpMalformed::bad_data_offset);
    }
    return TcpHeader{.source_port = load_big_endian<std::uint16_t>(at),
                     .destination_port = load_big_endian<std::uint16_t>(at + 2),
                     .sequence = load_big_endian<std::uint32_t>(at + sequence_offset),
                     .acknowledgment = load_big_endian<std::uint32_t>(at + 8),
                     .header_size = header_size,
                     .flags = static_cast<std::uint8_t>(at[flags_offset]),
                     .window = load_big_endian<std::uint16_t>(at + 14),
                     .checksum = load_checksum(at + checksum_offset),
                     .urgent_pointer = load_big_endian<std::uint16_t>(at + 18)};
  }
  /// Writes 20 bytes. REQUIRES: out holds them, header_size as said above.
  void emit(Bytes out) const {
    SLUICE_REQUIRE(out.size() >= size_min && header_size >= size_min && header_size <= size_max &&
                   header_size % 4 == 0);
    std::byte* at = out.data();
    store_big_endian(at, source_port);
    store_big_endian(at + 2, destination_port);
    store_big_endian(at + sequence_offset, sequence);
    store_big_endian(at + 8, acknowledgment);
    // The reserved bits "must be zero in generated segments and must be ignored in received segments".
    at[header_size_offset] = static_cast<std::byte>(header_size / 4U << 4);
    at[flags_offset] = std::byte{flags};
    store_big_endian(at + 14, window);
    store_checksum(at + checksum_offset, checksum);
    store_big_endian(at + 18, urgent_pointer);
  }

  friend constexpr auto operator<=>(const TcpHeader&, const TcpHeader&) = default;
};

}  // namespace sluice::wire
