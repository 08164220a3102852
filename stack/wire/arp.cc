// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/arp.h"

#include "base/contract.h"
#include "stack/wire/protocol.h"

namespace sluice::wire {
namespace {

constexpr std::uint16_t hardware_ethernet = 1;

}  // namespace

std::expected<ArpPacket, ArpMalformed> ArpPacket::parse(ConstBytes bytes) {
  if (bytes.size() < size) {
    return std::unexpected(ArpMalformed::short_packet);
  }
  const std::byte* at = bytes.data();
  // RFC 826, "Packet Reception": "?Do I have the hardware type in ar$hrd? Yes: (almost definitely) [optionally check
  // the hardware length ar$hln]", and the same for the protocol.
  const auto hardware_length = static_cast<std::size_t>(at[4]);
  const auto protocol_length = static_cast<std::size_t>(at[5]);
  if (load_big_endian<std::uint16_t>(at) != hardware_ethernet || hardware_length != MacAddress::size) {
    return std::unexpected(ArpMalformed::bad_hardware);
  }
  if (load_big_endian<std::uint16_t>(at + 2) != ethertype_ipv4 || protocol_length != Ipv4Address::size) {
    return std::unexpected(ArpMalformed::bad_protocol);
  }
  const auto operation = static_cast<ArpOperation>(load_big_endian<std::uint16_t>(at + 6));
  if (operation != ArpOperation::request && operation != ArpOperation::reply) {
    return std::unexpected(ArpMalformed::bad_operation);
  }
  return ArpPacket{operation, MacAddress::load(at + 8), Ipv4Address::load(at + 14), MacAddress::load(at + 18),
                   Ipv4Address::load(at + 24)};
}

void ArpPacket::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  std::byte* at = out.data();
  store_big_endian(at, hardware_ethernet);
  store_big_endian(at + 2, ethertype_ipv4);
  at[4] = static_cast<std::byte>(MacAddress::size);
  at[5] = static_cast<std::byte>(Ipv4Address::size);
  store_big_endian(at + 6, static_cast<std::uint16_t>(operation));
  sender_mac.store(at + 8);
  sender_address.store(at + 14);
  target_mac.store(at + 18);
  target_address.store(at + 24);
}

}  // namespace sluice::wire
