// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a program has set with setsockopt(2) and the stack heeds, in the kernel's numbers and units, and as options of
// an endpoint:
//
//     | setsockopt(2)                  | of the endpoint                 | value                        |
//     |--------------------------------|---------------------------------|------------------------------|
//     | SO_KEEPALIVE                   | T_TCP_KEEPALIVE                 | 0, 1                         |
//     | SO_RCVBUF, SO_SNDBUF           | XTI_RCVBUF, XTI_SNDBUF          | bytes, bounded by quotas.h   |
//     | TCP_NODELAY                    | T_TCP_NODELAY                   | 0, 1                         |
//     | TCP_MAXSEG                     | T_TCP_MAXSEG_LIMIT              | 88..32767 bytes              |
//     | TCP_KEEPIDLE, TCP_KEEPINTVL    | T_TCP_KEEPIDLE, T_TCP_KEEPINTVL | 1..32767 seconds             |
//     | TCP_KEEPCNT                    | T_TCP_KEEPCNT                   | 1..127                       |
//     | IPV6_V6ONLY, before it is bound| T_IPV6_V6ONLY                   | 0, 1                         |
//
// A connection that a socket accepts has its options, as with the kernel's. What the provider does not have is kept all
// the same: a program must not fail for want of it.
//
// Plain values; thread-safe as such.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tli/endpoint.h"

namespace sluice::sockets {

class EndpointOptions {
 public:
  /// 0; ENOPROTOOPT: none of the table; EINVAL: not its value.
  [[nodiscard]] int set(std::int32_t level, std::int32_t name, std::int32_t value);
  /// What was set, or what the kernel's sockets have without; nothing for none of the table.
  [[nodiscard]] std::optional<std::int32_t> get(std::int32_t level, std::int32_t name) const;
  /// Asks the endpoint for all that was set.
  void apply(tli::Endpoint& endpoint) const;

 private:
  static constexpr std::size_t count = 9;
  std::array<std::optional<std::int32_t>, count> values_;  // in the order of the table in the source
};

}  // namespace sluice::sockets
