// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ip module's parameters, checked. A plain value; the manual of each parameter is in ip.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "stack/core/registry.h"
#include "stack/wire/address.h"

namespace sluice::ip {

/// RFC 791 section 3.2: "Every internet module must be able to forward a datagram of 68 octets without further
/// fragmentation."
inline constexpr std::uint32_t mtu_min_v4 = 68;
/// RFC 8200 section 5: "IPv6 requires that every link in the Internet have an MTU of 1280 octets or greater."
inline constexpr std::uint32_t mtu_min_v6 = 1280;

struct Config {
  static constexpr std::size_t addresses_max = 16;

  std::vector<wire::IpPrefix> addresses;  ///< unicast, no two alike
  std::optional<wire::Ipv4Address> gateway_v4;
  std::optional<wire::Ipv6Address> gateway_v6;
  std::uint32_t mtu_max = 0xffff'ffff;  ///< in bytes; the link's own MTU counts where it is less
  std::uint8_t ttl = 64;
  bool ttl_is_given = false;
  std::size_t reassembly_bytes_max = std::size_t{4} << 20;
  std::size_t neighbours_max = 1024;
  bool answer_echo = true;
  bool duplicate_address_detection = false;
  bool redirects = false;
  bool fragment = true;
  bool autoconfigure = false;

  /// Whether there are addresses of that family, or may come to be.
  [[nodiscard]] bool has(wire::Family family) const;
  /// EINVAL with a sentence that names the parameter and what is wrong with it.
  [[nodiscard]] static Result<Config> from(const Parameters& parameters);
};

/// What the registry knows about each parameter.
[[nodiscard]] std::vector<ParameterSpec> parameter_specs();

}  // namespace sluice::ip
