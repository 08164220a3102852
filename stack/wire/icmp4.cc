// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/icmp4.h"

#include "base/contract.h"

namespace sluice::wire {
namespace {

enum Type : std::uint8_t {
  echo_reply = 0,
  destination_unreachable = 3,
  echo_request = 8,
  time_exceeded = 11,
  parameter_problem = 12,
};

struct Icmp4Emitter {
  Bytes out;

  void operator()(const IcmpEcho& echo) const {
    emit_icmp_header(echo.reply ? echo_reply : echo_request, 0, echo.word(), out);
  }
  void operator()(const Icmp4Unreachable& error) const {
    emit_icmp_header(destination_unreachable, static_cast<std::uint8_t>(error.code), error.next_hop_mtu, out);
  }
  void operator()(const Icmp4TimeExceeded& error) const { emit_icmp_header(time_exceeded, error.code, 0, out); }
  void operator()(const Icmp4ParameterProblem& error) const {
    emit_icmp_header(parameter_problem, error.code, static_cast<std::uint32_t>(error.pointer) << 24, out);
  }
};

}  // namespace

std::expected<Icmp4Message, Icmp4Malformed> parse_icmp4(ConstBytes bytes) {
  if (bytes.size() < icmp_header_size) {
    return std::unexpected(Icmp4Malformed::short_message);
  }
  const auto type = static_cast<std::uint8_t>(bytes[0]);
  const auto code = static_cast<std::uint8_t>(bytes[1]);
  const auto first = load_big_endian<std::uint16_t>(bytes.data() + 4);
  const auto second = load_big_endian<std::uint16_t>(bytes.data() + 6);
  switch (type) {
    case echo_request:
    case echo_reply:
      if (code != 0) {
        return std::unexpected(Icmp4Malformed::bad_code);
      }
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
  std::visit(Icmp4Emitter{out}, message);
}

}  // namespace sluice::wire
