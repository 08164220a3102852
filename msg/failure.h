// SPDX-License-Identifier: Apache-2.0
#pragma once

// Failures of TLI's calls as errors of this library.

#include <cerrno>
#include <string_view>

#include "base/result.h"
#include "tli/endpoint.h"

namespace sluice::msg {

/// What a failed call of TLI is as an errno.
inline int code_of(const tli::Failure& failure) {
  namespace tpi = wire::tpi;
  switch (failure.t_errno) {
    case tpi::TSYSERR:
      return failure.system_errno;
    case tpi::TADDRBUSY:
      return EADDRINUSE;
    case tpi::TNOADDR:
      return EADDRNOTAVAIL;
    case tpi::TACCES:
      return EACCES;
    default:
      return EINVAL;
  }
}

inline std::unexpected<Error> failed_in(std::string_view call, const tli::Failure& failure) {
  return fail(code_of(failure), tli::Endpoint::t_error(call, failure));
}

}  // namespace sluice::msg
