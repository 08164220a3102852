// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/icmp4.h"

#include "base/contract.h"
#include "stack/wire/checksum.h"

namespace sluice::wire {
namespace {

enum Type : std::uint8_t {
  echo_reply = 0,
  destination_unreachable = 3,
  echo_request = 8,
  time_exceeded = 11,
  parameter_problem = 12,
};

/// Type, code, zero checksum; `rest` is the second word of the header.
void emit_header(Type type, std::uint8_t code, std::uint32_t rest, Bytes out) {
  out[0] = static_cast<std::byte>(type);
  out[1] = static_cast<std::byte>(code);
  store_checksum(out.data() + icmp_checksum_offset, 0);
  store_big_endian(out.data() + 4, rest);
}

struct Emitter {
  Bytes out;

  void operator()(const IcmpEcho& echo) const {
    const auto identifier = static_cast<std::uint32_t>(echo.identifier);
    emit_header(echo.reply ? echo_reply : echo_request, 0, identifier << 16 | echo.sequence, out);
  }
  void operator()(const Icmp4Unreachable& error) const {
    emit_header(destination_unreachable, static_cast<std::uint8_t>(error.code), error.next_hop_mtu, out);
  }
  void operator()(const Icmp4TimeExceeded& error) const { emit_header(time_exceeded, error.code, 0, out); }
  void operator()(const Icmp4ParameterProblem& error) const {
    emit_header(parameter_problem, error.code, static_cast<std::uint32_t>(error.pointer) << 24, out);
  }
};

}  // namespace

std::expected<Icmp4Message, Icmp4Malformed> parse_icmp4(ConstBytes bytes) {
  if (bytes.size() < icmp_header_size) return std::unexpected(Icmp4Malformed::short_message);
  const auto type = static_cast<std::uint8_t>(bytes[0]);
  const auto code = static_cast<std::uint8_t>(bytes[1]);
  const auto first = load_big_endian<std::uint16_t>(bytes.data() + 4);
  const auto second = load_big_endian<std::uint16_t>(bytes.data() + 6);
  switch (type) {
    case echo_request:
    case echo_reply:
      if (code != 0) return std::unexpected(Icmp4Malformed::bad_code);
      return IcmpEcho{type == echo_reply, first, second};
    case destination_unreachable: {
      const auto reason = static_cast<Icmp4UnreachableCode>(code);
      const bool has_mtu = reason == Icmp4UnreachableCode::fragmentation_needed;
      return Icmp4Unreachable{reason, has_mtu ? second : std::uint16_t{0}};
    }
    case time_exceeded:
      return Icmp4TimeExceeded{code};
    case parameter_problem:
      return Icmp4ParameterProblem{code, static_cast<std::uint8_t>(first >> 8)};
    default:
      return std::unexpected(Icmp4Malformed::unknown_type);
  }
}

void emit_icmp4(const Icmp4Message& message, Bytes out) {
  SLUICE_REQUIRE(out.size() >= icmp_header_size);
  std::visit(Emitter{out}, message);
}

}  // namespace sluice::wire
