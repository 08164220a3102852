// SPDX-License-Identifier: Apache-2.0
#include "tpi/socket_binding.h"

#include "stack/wire/tpi.h"

namespace sluice::tpi {

using namespace wire::tpi;  // the errors

std::optional<BindRequest> BindRequest::of(ConstBytes address, bool replaces_busy) {
  if (address.empty()) {
    return BindRequest{.local = {wire::Ipv6Address{}, 0}, .any_address = true, .replaces_busy = replaces_busy};
  }
  const auto local = wire::TransportAddress::decode(address);
  return local ? std::optional(BindRequest{.local = *local, .replaces_busy = replaces_busy}) : std::nullopt;
}

BindError bind_error(int code, bool any_port) {
  switch (code) {
    case EADDRINUSE:
      return {any_port ? TNOADDR : TADDRBUSY, 0};
    case EACCES:
      return {TACCES, 0};
    case EADDRNOTAVAIL:  // not an address of this host
    case EINVAL:         // not an address that can be bound
    case EAFNOSUPPORT:
      return {TBADADDR, 0};
    default:
      return {TSYSERR, code};
  }
}

}  // namespace sluice::tpi
