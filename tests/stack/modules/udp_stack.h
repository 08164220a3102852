// SPDX-License-Identifier: Apache-2.0
#pragma once

// A udp module over an ip that answers, and what travels between them.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/modules/udp.h"
#include "stack/wire/checksum.h"
#include "tests/stack/modules/fake_ip.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {

using namespace wire::tpi;
using std::chrono::seconds;
using wire::IpAddress;
using wire::Ipv4Address;
using wire::Ipv6Address;
using wire::NetworkAddress;
using wire::TransportAddress;
using wire::UdpHeader;
using wire::network::Failure;
using wire::network::Received;
using wire::network::RouteAck;
using wire::network::Sending;
using wire::network::UnreachableReq;

inline const IpAddress local_v4 = Ipv4Address{{10, 0, 0, 1}};
inline const IpAddress peer_v4 = Ipv4Address{{10, 0, 0, 2}};
inline const IpAddress local_v6 = Ipv6Address{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline const IpAddress peer_v6 = Ipv6Address{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
inline constexpr std::uint16_t port = 7000;
inline constexpr std::uint16_t peer_port = 9;

/// A datagram's bytes, with the right checksum unless told otherwise.
inline std::string datagram(const IpAddress& from, std::uint16_t from_port, const IpAddress& to, std::uint16_t to_port,
                            std::string_view payload) {
  UdpHeader header{from_port, to_port, static_cast<std::uint16_t>(payload.size()), 0};
  const std::uint16_t sum = add_sums(wire::udp_sum(from, to, header), header_sum(as_bytes(payload)));
  header.checksum = wire::udp_checksum_of(sum);
  std::array<std::byte, UdpHeader::size> bytes{};
  header.emit(bytes);
  return std::string(as_text(bytes)) + std::string(payload);
}

inline Message indication(Stack& stack, const IpAddress& from, const IpAddress& to, std::string_view bytes,
                          bool group = false) {
  std::vector<std::byte> options(Received::size);
  Received{.local = to, .hop_limit = 64, .group = group, .header_size = 20}.encode(options);
  return unitdata_ind(stack, encoded(NetworkAddress{from, wire::protocol_udp}), options, bytes);
}

inline Message failure(Stack& stack, const IpAddress& to, std::string_view quote, int error, std::uint32_t mtu = 0) {
  std::vector<std::byte> options(Failure::size);
  Failure{.source = std::nullopt, .mtu = mtu}.encode(options);
  const std::vector<std::byte> address = encoded(NetworkAddress{to, wire::protocol_udp});
  return with_data(proto(stack, UderrorInd{.destination = address, .options = options, .error_type = error}),
                   data(stack, quote));
}

inline Message bind_req(Stack& stack, const TransportAddress& address) {
  return proto(stack, BindReq{.address = encoded(address)});
}

/// A udp module over an ip that answers.
class UdpStack : public Stack {
 public:
  explicit UdpStack(bool checksum = true) : ip_(push<FakeIp>()), udp_(push<Udp>(checksum)) {}

  FakeIp& ip() { return ip_; }
  Udp& udp() { return udp_; }
  [[nodiscard]] std::uint64_t counted(std::string_view name) const { return count(udp_, name); }

  /// Binds, and returns the address granted.
  TransportAddress bind(const TransportAddress& address = {Ipv6Address{}, port}) {
    down(bind_req(*this, address));
    return bound();
  }
  TransportAddress bound() {
    const Message message = head().take();
    const auto ack = BindAck::decode(message.bytes());
    SLUICE_REQUIRE(ack.has_value() && message.type() == MessageType::pcproto);
    return TransportAddress::decode(ack->address).value();
  }
  ErrorAck error_ack() {
    const Message message = head().take();
    SLUICE_REQUIRE(message.type() == MessageType::pcproto);
    return ErrorAck::decode(message.bytes()).value();
  }
  void send(const TransportAddress& to, std::string_view text) { down(unitdata_req(*this, encoded(to), {}, text)); }
  /// The errno of the T_UDERROR_IND that is next at the head.
  int uderror() {
    const Message message = head().take();
    return UderrorInd::decode(message.bytes()).value().error_type;
  }

 private:
  FakeIp& ip_;
  Udp& udp_;
};

}  // namespace sluice::test
