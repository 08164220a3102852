// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/icmp6.h"

#include "base/contract.h"

namespace sluice::wire {
namespace {

void emit_header(Icmp6Type type, std::uint8_t code, std::uint32_t word, Bytes out) {
  emit_icmp_header(static_cast<std::uint8_t>(type), code, word, out);
}

struct Icmp6Emitter {
  Bytes out;

  void operator()(const IcmpEcho& echo) const {
    emit_header(echo.reply ? Icmp6Type::echo_reply : Icmp6Type::echo_request, 0, echo.word(), out);
  }
  void operator()(const Icmp6Unreachable& error) const {
    emit_header(Icmp6Type::destination_unreachable, static_cast<std::uint8_t>(error.code), 0, out);
  }
  void operator()(const Icmp6PacketTooBig& error) const { emit_header(Icmp6Type::packet_too_big, 0, error.mtu, out); }
  void operator()(const Icmp6TimeExceeded& error) const { emit_header(Icmp6Type::time_exceeded, error.code, 0, out); }
  void operator()(const Icmp6ParameterProblem& error) const {
    emit_header(Icmp6Type::parameter_problem, error.code, error.pointer, out);
  }
};

}  // namespace

std::expected<Icmp6Message, Icmp6Malformed> parse_icmp6(ConstBytes bytes) {
  if (bytes.size() < icmp_header_size) {
    return std::unexpected(Icmp6Malformed::short_message);
  }
  const auto type = static_cast<Icmp6Type>(bytes[0]);
  const auto code = static_cast<std::uint8_t>(bytes[1]);
  const auto rest = load_big_endian<std::uint32_t>(bytes.data() + 4);
  switch (type) {
    case Icmp6Type::echo_request:
    case Icmp6Type::echo_reply:
      if (code != 0) {
        return std::unexpected(Icmp6Malformed::bad_code);
      }
      return IcmpEcho{type == Icmp6Type::echo_reply, static_cast<std::uint16_t>(rest >> 16),
                      static_cast<std::uint16_t>(rest)};
    case Icmp6Type::destination_unreachable:
      return Icmp6Unreachable{static_cast<Icmp6UnreachableCode>(code)};
    // RFC 4443 section 3.2: the code is "set to 0 (zero) by the originator and ignored by the receiver".
    case Icmp6Type::packet_too_big:
      return Icmp6PacketTooBig{rest};
    case Icmp6Type::time_exceeded:
      return Icmp6TimeExceeded{code};
    case Icmp6Type::parameter_problem:
      return Icmp6ParameterProblem{code, rest};
    default:
      return std::unexpected(Icmp6Malformed::unknown_type);
  }
}

void emit_icmp6(const Icmp6Message& message, Bytes out) {
  SLUICE_REQUIRE(out.size() >= icmp_header_size);
  std::visit(Icmp6Emitter{out}, message);
}

}  // namespace sluice::wire
