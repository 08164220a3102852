// SPDX-License-Identifier: Apache-2.0
#pragma once

// UDP datagrams over IPv4 between the kernel's sockets and a driver.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "ilp/kernels.h"
#include "stack/core/message.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace sluice::dlpi::test {

inline constexpr wire::Ipv4Address our_ip{{10, 77, 0, 1}};
inline constexpr wire::Ipv4Address kernel_ip{{10, 77, 0, 2}};
inline constexpr std::uint16_t test_port = 7000;

inline sockaddr_in socket_address(const wire::Ipv4Address& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(test_port);
  result.sin_addr.s_addr = htonl(address.value());
  return result;
}

/// A kernel UDP socket at kernel_ip, connected to our_ip, both on test_port.
inline int kernel_socket() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const sockaddr_in local = socket_address(kernel_ip);
  const sockaddr_in remote = socket_address(our_ip);
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&remote), sizeof remote), 0);
  return socket;
}

/// The IPv4 packet of a datagram.
inline std::vector<std::byte> datagram(const wire::Ipv4Address& from, const wire::Ipv4Address& to,
                                       std::string_view payload) {
  std::vector<std::byte> packet(28 + payload.size());
  wire::Ipv4Header ip;
  ip.payload_length = static_cast<std::uint16_t>(8 + payload.size());
  ip.protocol = wire::protocol_udp;
  ip.source = from;
  ip.destination = to;
  ip.emit(packet);
  wire::UdpHeader udp{.source_port = test_port,
                      .destination_port = test_port,
                      .payload_length = static_cast<std::uint16_t>(payload.size())};
  const std::uint16_t sum = add_sums(wire::udp_sum(from, to, udp), ilp::sum(as_bytes(payload)));
  udp.checksum = wire::udp_checksum_of(sum);
  udp.emit(Bytes(packet).subspan(20));
  std::ranges::copy(as_bytes(payload), packet.begin() + 28);
  return packet;
}

inline std::vector<std::byte> datagram_to_kernel(std::string_view payload) {
  return datagram(our_ip, kernel_ip, payload);
}

/// The payload of the datagram in a DL_UNITDATA_IND, its checksums verified; empty when they do not hold.
inline std::string verified_payload(Message& message) {
  Message data = message.unlink();
  EXPECT_TRUE(data.pull_up(data.size()));
  const ConstBytes packet = data.bytes();
  const auto ip = wire::Ipv4View::check(packet);
  if (!ip) {
    ADD_FAILURE() << "IPv4 header malformed: " << static_cast<int>(ip.error());
    return {};
  }
  const ConstBytes datagram = packet.subspan(ip->header_length(), ip->payload_length());
  const auto pseudo = wire::pseudo_header_sum(ip->source(), ip->destination(), 17, ip->payload_length());
  EXPECT_TRUE(sum_holds(add_sums(pseudo, ilp::sum(datagram))));
  return std::string(as_text(datagram.subspan(8)));
}

/// What the kernel's socket received; empty when nothing.
inline std::string received_by(int socket) {
  std::string buffer(65536, '\0');
  const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
  buffer.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return buffer;
}

}  // namespace sluice::dlpi::test
