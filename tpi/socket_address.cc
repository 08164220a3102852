// SPDX-License-Identifier: Apache-2.0
#include "tpi/socket_address.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "stack/wire/zone.h"

namespace sluice::tpi {
namespace {

constexpr std::array<std::uint8_t, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

SocketAddress v4_socket_address(const wire::TransportAddress& from) {
  SocketAddress address;
  address.v4.sin_family = AF_INET;
  address.v4.sin_port = to_big_endian(from.port);
  std::memcpy(&address.v4.sin_addr, from.address.bytes().data(), from.address.size());
  address.size = sizeof address.v4;
  return address;
}

/// An IPv4 address takes its IPv4-mapped form. A link-local one brings its zone (stack/wire/zone.h).
SocketAddress v6_socket_address(const wire::TransportAddress& from) {
  SocketAddress address;
  address.v6.sin6_family = AF_INET6;
  address.v6.sin6_port = to_big_endian(from.port);
  std::uint8_t* octets = address.v6.sin6_addr.s6_addr;
  if (from.address.is_v4()) {
    octets = std::copy(mapped_prefix.begin(), mapped_prefix.end(), octets);
  }
  std::memcpy(octets, from.address.bytes().data(), from.address.size());
  if (from.address.is_v6()) {
    const wire::Ipv6Address v6 = from.address.v6();
    address.v6.sin6_scope_id = wire::zone_of(v6);
    wire::with_zone(v6, 0).store(reinterpret_cast<std::byte*>(octets));
  }
  address.size = sizeof address.v6;
  return address;
}

}  // namespace

SocketAddress socket_address_of(const wire::TransportAddress& address, bool v6) {
  return v6 ? v6_socket_address(address) : v4_socket_address(address);
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return size == other.size && std::memcmp(&v6, &other.v6, size) == 0;
}

wire::TransportAddress transport_address(const SocketAddress& address) {
  if (address.size == 0) {
    return {};
  }
  if (address.generic.sa_family == AF_INET) {
    const auto* octets = reinterpret_cast<const std::byte*>(&address.v4.sin_addr);
    return {wire::Ipv4Address::load(octets), to_big_endian(address.v4.sin_port)};
  }
  const auto* octets = reinterpret_cast<const std::byte*>(&address.v6.sin6_addr);
  const std::uint16_t port = to_big_endian(address.v6.sin6_port);
  const bool mapped = std::memcmp(octets, mapped_prefix.data(), mapped_prefix.size()) == 0;
  return mapped
             ? wire::TransportAddress{wire::Ipv4Address::load(octets + mapped_prefix.size()), port}
             : wire::TransportAddress{wire::with_zone(wire::Ipv6Address::load(octets), address.v6.sin6_scope_id), port};
}

/// Without the privilege for the forced option, the kernel's limit (net.core.rmem_max, wmem_max) counts.
void set_buffer(int descriptor, int option, std::size_t bytes) {
  const int forced = option == SO_RCVBUF ? SO_RCVBUFFORCE : SO_SNDBUFFORCE;
  const int value = static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max() / 2));
  if (::setsockopt(descriptor, SOL_SOCKET, forced, &value, sizeof value) != 0) {
    static_cast<void>(::setsockopt(descriptor, SOL_SOCKET, option, &value, sizeof value));
  }
}

}  // namespace sluice::tpi
