// SPDX-License-Identifier: Apache-2.0
#pragma once

// Places in the stream of bytes that one end sends, as 64-bit numbers that never wrap. RFC 9293 section 3.4: "the
// actual sequence number space is finite, though large. This space ranges from 0 to 2^32 - 1. Since the space is
// finite, all arithmetic dealing with sequence numbers must be performed modulo 2^32." That is done here, at the edge,
// and nowhere else: inside a connection places are compared and subtracted as numbers are.
//
// Plain values; thread-safe as such.

#include <cstdint>

namespace sluice::byte_stream {

using Position = std::uint64_t;

/// From 2^32 on, so that a number just before the first is a position, too.
[[nodiscard]] constexpr Position first_position(std::uint32_t sequence_number) {
  return (Position{1} << 32) + sequence_number;
}

[[nodiscard]] constexpr std::uint32_t sequence_number(Position position) {
  return static_cast<std::uint32_t>(position);
}

/// The position with that sequence number that is nearest to `reference`. REQUIRES: reference >= 2^31.
[[nodiscard]] constexpr Position position_near(Position reference, std::uint32_t sequence_number) {
  const auto distance = static_cast<std::int32_t>(sequence_number - static_cast<std::uint32_t>(reference));
  return reference + static_cast<Position>(static_cast<std::int64_t>(distance));
}

/// Bytes [begin, end).
struct Range {
  Position begin = 0;
  Position end = 0;

  [[nodiscard]] constexpr std::uint64_t size() const { return end - begin; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

}  // namespace sluice::byte_stream
