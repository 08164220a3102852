// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every wire decoder must keep, whatever the bytes: what it accepts, it emits in a form that it decodes to the
// same value. A target aborts where that does not hold; a sanitizer aborts where bytes beyond the input are read.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/contract.h"

namespace sluice::fuzz {

[[nodiscard]] inline ConstBytes input(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// For headers of a fixed size with parse and emit, in front of `payload_size` more bytes.
template <class Header>
void round_trip_header(const Header& header, std::size_t payload_size) {
  std::vector<std::byte> bytes(Header::size + payload_size);
  header.emit(bytes);
  const auto again = Header::parse(bytes);
  SLUICE_REQUIRE(again && *again == header);
}

/// For primitives whose largest size is a constant.
template <class Primitive>
void round_trip_bounded(ConstBytes block) {
  const auto value = Primitive::decode(block);
  if (!value) {
    return;
  }
  std::vector<std::byte> bytes(Primitive::encoded_size_max);
  bytes.resize(value->encode(bytes));
  const auto again = Primitive::decode(bytes);
  SLUICE_REQUIRE(again && *again == *value);
}

/// For primitives with strings of free length, compared by their encoding.
template <class Primitive>
void round_trip_free(ConstBytes block) {
  const auto value = Primitive::decode(block);
  if (!value) {
    return;
  }
  std::vector<std::byte> bytes(value->encoded_size());
  SLUICE_REQUIRE(value->encode(bytes) == bytes.size());
  const auto again = Primitive::decode(bytes);
  SLUICE_REQUIRE(again && again->encoded_size() == bytes.size());
  std::vector<std::byte> bytes_again(bytes.size());
  again->encode(bytes_again);
  SLUICE_REQUIRE(bytes_again == bytes);
}

}  // namespace sluice::fuzz
