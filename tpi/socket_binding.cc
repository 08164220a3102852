// SPDX-License-Identifier: Apache-2.0
#include "tpi/socket_binding.h"

#include "stack/wire/tpi.h"

namespace sluice::tpi {

using namespace wire::tpi;  // the errors

std::int32_t bind_error(int code, bool any_port) {
  switch (code) {
    case EADDRINUSE:
      return any_port ? TNOADDR : TADDRBUSY;
    case EACCES:
      return TACCES;
    case EADDRNOTAVAIL:  // not an address of this host
    case EINVAL:         // not an address that can be bound
    case EAFNOSUPPORT:
      return TBADADDR;
    default:
      return TSYSERR;
  }
}

}  // namespace sluice::tpi
