// SPDX-License-Identifier: Apache-2.0
#pragma once

// ICMP for IPv4 (RFC 792): the messages that a host answers, sends and heeds. The 8 bytes of the header are decoded;
// what follows them is echo data or the quoted packet, for which see Ipv4View::check_quoted. The checksum: icmp.h.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <variant>

#include "base/bytes.h"
#include "stack/wire/icmp.h"

namespace sluice::wire {

enum class Icmp4Malformed : std::uint8_t {
  short_message,  ///< under 8 bytes
  unknown_type,   ///< none of the types below; RFC 1122 section 3.2.2: "it MUST be silently discarded"
  bad_code        ///< an echo with a code other than 0
};

/// Codes of Destination Unreachable (RFC 792, RFC 1122 section 3.2.2.1). Others may arrive: keep them as they are.
enum class Icmp4UnreachableCode : std::uint8_t {
  network = 0,
  host = 1,
  protocol = 2,
  port = 3,
  fragmentation_needed = 4,
  source_route_failed = 5,
  communication_prohibited = 13,
};

struct Icmp4Unreachable {
  Icmp4UnreachableCode code = Icmp4UnreachableCode::port;
  /// With fragmentation_needed: the next-hop MTU in bytes (RFC 1191 section 4), 0 from a router that does not tell.
  std::uint16_t next_hop_mtu = 0;

  friend constexpr auto operator<=>(const Icmp4Unreachable&, const Icmp4Unreachable&) = default;
};

struct Icmp4TimeExceeded {
  std::uint8_t code = 0;  ///< 0 in transit, 1 in fragment reassembly

  friend constexpr auto operator<=>(const Icmp4TimeExceeded&, const Icmp4TimeExceeded&) = default;
};

struct Icmp4ParameterProblem {
  std::uint8_t code = 0;
  std::uint8_t pointer = 0;  ///< offset of the offending byte in the quoted packet

  friend constexpr auto operator<=>(const Icmp4ParameterProblem&, const Icmp4ParameterProblem&) = default;
};

using Icmp4Message = std::variant<IcmpEcho, Icmp4Unreachable, Icmp4TimeExceeded, Icmp4ParameterProblem>;

/// Decodes the header at the start of an ICMP message. Unused fields are ignored.
[[nodiscard]] std::expected<Icmp4Message, Icmp4Malformed> parse_icmp4(ConstBytes bytes);

/// Writes the 8 bytes of the header, checksum zero. REQUIRES: out holds them.
void emit_icmp4(const Icmp4Message& message, Bytes out);

/// Whether the message reports an error, to which no ICMP error may ever answer (RFC 1122 section 3.2.2).
[[nodiscard]] constexpr bool is_error(const Icmp4Message& message) {
  return !std::holds_alternative<IcmpEcho>(message);
}

}  // namespace sluice::wire
