// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ioctls of timod (timod(4M), <sys/timod.h>): each carries one TPI request and is answered, at once and whole, by
// that request's acknowledgement. An error of the provider is an acknowledged ioctl whose return value is not zero:
// "the lower 8 bits of the return value will be one of the TLI error codes [...] If the TLI error is of type TSYSERR,
// then the next 8 bits of the return value will contain an error as defined in intro(2)".

#include <cstdint>

namespace sluice::wire::timod {

inline constexpr std::int32_t TIMOD = 'T' << 8;

enum Command : std::int32_t {
  TI_GETINFO = TIMOD | 140,     ///< T_INFO_REQ in, T_INFO_ACK out
  TI_OPTMGMT = TIMOD | 141,     ///< T_OPTMGMT_REQ in, T_OPTMGMT_ACK out
  TI_BIND = TIMOD | 142,        ///< T_BIND_REQ in, T_BIND_ACK out
  TI_UNBIND = TIMOD | 143,      ///< T_UNBIND_REQ in, T_OK_ACK out
  TI_GETMYNAME = TIMOD | 144,   ///< nothing in, the bound address's bytes out
  TI_SYNC = TIMOD | 148,        ///< nothing, or anything, in, T_INFO_ACK out
  TI_GETADDRS = TIMOD | 149,    ///< T_ADDR_REQ in, T_ADDR_ACK out
  TI_CAPABILITY = TIMOD | 150,  ///< T_CAPABILITY_REQ in, T_CAPABILITY_ACK out
};

}  // namespace sluice::wire::timod
