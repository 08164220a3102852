// SPDX-License-Identifier: Apache-2.0
#pragma once

// ICMPv6 (RFC 4443): echo and the four errors. Neighbour discovery travels in ICMPv6 too and is decoded by ndp.h; look
// at the first byte (icmp6_type) to tell which to call.
//
// The checksum covers the IPv6 pseudo-header (pseudo_header_sum with protocol_icmp6), header and data, so it is the
// module's, as in icmp4.h; emit leaves it zero.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <variant>

#include "base/bytes.h"
#include "stack/wire/icmp.h"

namespace sluice::wire {

enum class Icmp6Type : std::uint8_t {
  destination_unreachable = 1,
  packet_too_big = 2,
  time_exceeded = 3,
  parameter_problem = 4,
  echo_request = 128,
  echo_reply = 129,
  router_solicitation = 133,
  router_advertisement = 134,
  neighbor_solicitation = 135,
  neighbor_advertisement = 136,
  redirect = 137,
};

/// The type of a message, which need not be one of those above; nothing if it is empty.
[[nodiscard]] inline std::optional<Icmp6Type> icmp6_type(ConstBytes bytes) {
  return bytes.empty() ? std::nullopt : std::optional(static_cast<Icmp6Type>(bytes[0]));
}

enum class Icmp6Malformed : std::uint8_t {
  short_message,  ///< under 8 bytes
  unknown_type,   ///< none of the types below. RFC 4443 section 2.4: an unknown error message "MUST be passed to the
                  ///< upper-layer process", an unknown informational one (type 128 and up) "MUST be silently discarded"
  bad_code        ///< an echo with a code other than 0
};

enum class Icmp6UnreachableCode : std::uint8_t {
  no_route = 0,
  prohibited = 1,
  beyond_scope = 2,
  address = 3,
  port = 4,
};

struct Icmp6Unreachable {
  Icmp6UnreachableCode code = Icmp6UnreachableCode::port;

  friend constexpr auto operator<=>(const Icmp6Unreachable&, const Icmp6Unreachable&) = default;
};

struct Icmp6PacketTooBig {
  std::uint32_t mtu = 0;  ///< of the next-hop link, in bytes

  friend constexpr auto operator<=>(const Icmp6PacketTooBig&, const Icmp6PacketTooBig&) = default;
};

struct Icmp6TimeExceeded {
  std::uint8_t code = 0;  ///< 0 hop limit, 1 fragment reassembly

  friend constexpr auto operator<=>(const Icmp6TimeExceeded&, const Icmp6TimeExceeded&) = default;
};

struct Icmp6ParameterProblem {
  std::uint8_t code = 0;      ///< 0 erroneous header field, 1 unrecognised next header, 2 unrecognised option
  std::uint32_t pointer = 0;  ///< offset of the offending byte in the quoted packet

  friend constexpr auto operator<=>(const Icmp6ParameterProblem&, const Icmp6ParameterProblem&) = default;
};

using Icmp6Message =
    std::variant<IcmpEcho, Icmp6Unreachable, Icmp6PacketTooBig, Icmp6TimeExceeded, Icmp6ParameterProblem>;

/// Decodes the header at the start of an ICMPv6 message. Unused fields are ignored.
[[nodiscard]] std::expected<Icmp6Message, Icmp6Malformed> parse_icmp6(ConstBytes bytes);

/// Writes the 8 bytes of the header, checksum zero. REQUIRES: out holds them.
void emit_icmp6(const Icmp6Message& message, Bytes out);

/// Whether the message reports an error, to which no ICMPv6 error may ever answer (RFC 4443 section 2.4 (e)).
[[nodiscard]] constexpr bool is_error(const Icmp6Message& message) {
  return !std::holds_alternative<IcmpEcho>(message);
}

}  // namespace sluice::wire
