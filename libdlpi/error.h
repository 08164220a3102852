// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a call of libdlpi fails: an error number, as in libdlpi(3LIB), and its text.
//
// Numbers below 10000 are dl_errno values, which the link gave (stack/wire/dlpi_constants.h: DL_BADADDR, DL_OUTSTATE,
// ...); DL_SYSERR means a system error. Those from 10000 on are the library's own, with the values of <libdlpi.h>.
//
// Plain values, free of threads.

#include <expected>
#include <string>
#include <utility>

#include "stack/wire/dlpi_constants.h"

namespace sluice::dlpi {

enum LibraryError : int {
  DLPI_SUCCESS = 10000,
  DLPI_EINVAL = 10001,          ///< invalid argument
  DLPI_ELINKNAMEINVAL = 10002,  ///< invalid link name
  DLPI_ENOLINK = 10003,         ///< no such link
  DLPI_EBADLINK = 10004,        ///< what was opened does not speak DLPI
  DLPI_EINHANDLE = 10005,       ///< invalid handle; never given here, where a handle is an object
  DLPI_ETIMEDOUT = 10006,
  DLPI_EVERNOTSUP = 10007,   ///< unsupported DLPI version
  DLPI_EMODENOTSUP = 10008,  ///< the link is not connectionless
  DLPI_EUNAVAILSAP = 10009,  ///< another SAP was bound than was asked for
  DLPI_FAILURE = 10010,      ///< the operation failed
  DLPI_ENOTSTYLE2 = 10011,
  DLPI_EBADMSG = 10012,       ///< the link sent a malformed or unexpected message
  DLPI_ERAWNOTSUP = 10013,    ///< the link has no raw mode
  DLPI_ENOTEINVAL = 10014,    ///< invalid notification type
  DLPI_ENOTENOTSUP = 10015,   ///< the link does not tell that notification
  DLPI_ENOTEIDINVAL = 10016,  ///< no registration has that identifier
  DLPI_EIPNETINFONOTSUP = 10017,
};

/// Why a call failed.
struct Failure {
  int error = DLPI_FAILURE;
  /// With DL_SYSERR: the errno value.
  int system_errno = 0;
  /// What whoever opened the link said about it; empty where the numbers say all.
  std::string detail = {};

  friend bool operator==(const Failure&, const Failure&) = default;
};

template <class T = void>
using Outcome = std::expected<T, Failure>;

[[nodiscard]] inline std::unexpected<Failure> failed(int error, int system_errno = 0, std::string detail = {}) {
  return std::unexpected(Failure{error, system_errno, std::move(detail)});
}
[[nodiscard]] inline std::unexpected<Failure> system_failure(int system_errno, std::string detail = {}) {
  return failed(static_cast<int>(wire::dlpi::DL_SYSERR), system_errno, std::move(detail));
}

/// The text of an error. dlpi_strerror(3DLPI): "If err is DL_SYSERR, a string that describes the current value of errno
/// is returned"; here it is the errno in the failure.
[[nodiscard]] std::string dlpi_strerror(const Failure& failure);

}  // namespace sluice::dlpi
