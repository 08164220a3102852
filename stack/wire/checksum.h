// SPDX-License-Identifier: Apache-2.0
#pragma once

// What transports add to the internet checksum (base/internet_checksum.h): the sum of the pseudo-header.

#include <cstdint>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "stack/wire/address.h"

namespace sluice::wire {

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

}  // namespace sluice::wire
