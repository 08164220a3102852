// SPDX-License-Identifier: Apache-2.0
#pragma once

// Addresses between the kernel's form and ours. The kernel shows IPv4 addresses on an IPv6 socket in IPv4-mapped form
// (RFC 4291 section 2.5.5.2); here they are plain IPv4 addresses.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

#include "stack/wire/address.h"

namespace sluice::tpi {

/// An address as the kernel has it. Unused bytes are zero, so that equal addresses have equal bytes.
struct SocketAddress {
  union {
    sockaddr generic;
    sockaddr_in v4;
    sockaddr_in6 v6{};
  };
  socklen_t size = 0;

  [[nodiscard]] bool operator==(const SocketAddress& other) const;
};

/// The address in our form; 0.0.0.0:0 where the kernel gave none. IPv4-mapped addresses become IPv4 addresses.
[[nodiscard]] wire::TransportAddress transport_address(const SocketAddress& address);

/// The address for a socket of IPv6, where an IPv4 address takes its IPv4-mapped form, or of IPv4. REQUIRES: an IPv4
/// address for a socket of IPv4.
[[nodiscard]] SocketAddress socket_address_of(const wire::TransportAddress& address, bool v6);

/// Makes `option` of a socket (SO_RCVBUF or SO_SNDBUF) so many bytes, or what the system allows of it.
void set_buffer(int descriptor, int option, std::size_t bytes);

}  // namespace sluice::tpi
