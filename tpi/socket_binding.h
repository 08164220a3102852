// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a transport driver binds a socket of the kernel's for T_BIND_REQ and O_T_BIND_REQ, whatever the socket carries.

#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::tpi {

/// What a bind asks for.
struct BindRequest {
  wire::TransportAddress local;
  bool any_address = false;    // it names none
  bool replaces_busy = false;  // O_T_BIND_REQ

  /// No address means [::]:0. Nothing: the bytes are not one.
  [[nodiscard]] static std::optional<BindRequest> of(ConstBytes address, bool replaces_busy);

  [[nodiscard]] bool any_port() const { return local.port == 0 || replaces_busy; }
};

/// What T_ERROR_ACK says.
struct BindError {
  std::int32_t tli_error;
  std::int32_t unix_error;  // 0 where TLI has a name for it, else with TSYSERR
};
/// For a bind that the kernel refused.
[[nodiscard]] BindError bind_error(int code, bool any_port);

/// A socket bound as asked, or to what may replace that: where any address will do, one of IPv4 (the host may have no
/// IPv6); where the port is busy, a free one. `bind(address)` answers a Result.
template <class Bind>
[[nodiscard]] auto bind_socket(const BindRequest& request, const Bind& bind) {
  auto socket = bind(request.local);
  const bool without_v6 = !socket && (socket.error().code == EAFNOSUPPORT || socket.error().code == EADDRNOTAVAIL);
  if (without_v6 && request.any_address) {
    return bind(wire::TransportAddress{wire::Ipv4Address{}, 0});
  }
  if (!socket && request.replaces_busy && socket.error().code == EADDRINUSE) {
    return bind(wire::TransportAddress{request.local.address, 0});
  }
  return socket;
}

}  // namespace sluice::tpi
