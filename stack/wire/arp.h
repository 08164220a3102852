// SPDX-License-Identifier: Apache-2.0
#pragma once

// ARP (RFC 826) for IPv4 over Ethernet: the 28 bytes after the Ethernet header.

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::wire {

enum class ArpMalformed : std::uint8_t {
  short_packet,  ///< under 28 bytes
  bad_hardware,  ///< hardware type is not Ethernet (1), or its addresses are not 6 bytes
  bad_protocol,  ///< protocol type is not IPv4 (0x0800), or its addresses are not 4 bytes
  bad_operation  ///< neither request nor reply
};

enum class ArpOperation : std::uint16_t { request = 1, reply = 2 };

struct ArpPacket {
  static constexpr std::size_t size = 28;

  ArpOperation operation = ArpOperation::request;
  MacAddress sender_mac;       ///< ar$sha
  Ipv4Address sender_address;  ///< ar$spa
  MacAddress target_mac;       ///< ar$tha; unspecified in a request
  Ipv4Address target_address;  ///< ar$tpa

  /// Bytes after the packet are link padding.
  [[nodiscard]] static std::expected<ArpPacket, ArpMalformed> parse(ConstBytes bytes);
  /// Writes 28 bytes. REQUIRES: out holds them.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const ArpPacket&, const ArpPacket&) = default;
};

}  // namespace sluice::wire
