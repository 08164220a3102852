// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a transport driver binds a socket of the kernel's for T_BIND_REQ and O_T_BIND_REQ, whatever the socket carries.

#include <cerrno>
#include <cstdint>

#include "stack/wire/address.h"

namespace sluice::tpi {

/// The error of T_ERROR_ACK for a bind that the kernel refused; TSYSERR where TLI has no name for it.
[[nodiscard]] std::int32_t bind_error(int code, bool any_port);

/// A socket bound to `local`, or to what may replace it: where any address will do, one of IPv4 (the host may have no
/// IPv6); where the port is busy, a free one. `bind(address)` answers a Result.
template <class Bind>
[[nodiscard]] auto bind_socket(const wire::TransportAddress& local, bool any_address, bool replaces_busy,
                               const Bind& bind) {
  auto socket = bind(local);
  const bool without_v6 = !socket && (socket.error().code == EAFNOSUPPORT || socket.error().code == EADDRNOTAVAIL);
  if (without_v6 && any_address) {
    return bind(wire::TransportAddress{wire::Ipv4Address{}, 0});
  }
  if (!socket && replaces_busy && socket.error().code == EADDRINUSE) {
    return bind(wire::TransportAddress{local.address, 0});
  }
  return socket;
}

}  // namespace sluice::tpi
