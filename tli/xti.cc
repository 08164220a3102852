// SPDX-License-Identifier: Apache-2.0
#include "tli/xti.h"

#include <unistd.h>

#include <array>
#include <cstdio>

namespace sluice::tli {

Outcome<long> t_sysconf(int name) {
  // "[TBADFLAG] name has an invalid value." (t_sysconf())
  return name == _SC_T_IOV_MAX ? Outcome<long>(static_cast<long>(T_IOV_MAX)) : failed(wire::tpi::TBADFLAG);
}

std::string_view t_strerror(int t_errno) {
  static constexpr std::array<std::string_view, 30> texts{
      "no error",
      "incorrect address format",
      "incorrect option format",
      "incorrect permissions",
      "not a transport endpoint",
      "could not allocate an address",
      "the call was issued in the wrong state",
      "bad call sequence number",
      "system error",
      "an event requires attention",
      "illegal amount of data",
      "buffer not large enough",
      "flow control",
      "no data is available",
      "no disconnect indication was found",
      "no unit data error was found",
      "bad flags",
      "no orderly release indication was found",
      "the provider does not support this call",
      "the state is changing",
      "unsupported structure type",
      "invalid transport provider name",
      "the queue length is zero",
      "the address is in use",
      "connection indications are outstanding",
      "the transport provider does not match",
      "the accepting endpoint has a queue length",
      "the accepting endpoint is bound to another address",
      "the connection indication queue is full",
      "protocol error",
  };
  if (t_errno >= 0 && static_cast<std::size_t>(t_errno) < texts.size()) {
    return texts[static_cast<std::size_t>(t_errno)];
  }
  // "If the error code is unknown, and the language is English, t_strerror() returns the string: "<error>: error
  // unknown"".
  static thread_local std::array<char, 48> unknown;
  const int length = std::snprintf(unknown.data(), unknown.size(), "%d: error unknown", t_errno);
  return {unknown.data(), static_cast<std::size_t>(length)};
}

}  // namespace sluice::tli
