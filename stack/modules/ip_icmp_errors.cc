// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_icmp_errors.h"

#include <cerrno>
#include <variant>

namespace sluice::ip {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

/// RFC 1122 section 3.2.2.1: "A transport protocol that has its own mechanism for notifying the sender that a port is
/// unreachable [...] MUST nevertheless accept an ICMP Port Unreachable". Codes 6..12 are refinements of the first two.
int errno_of(wire::Icmp4UnreachableCode code) {
  using enum wire::Icmp4UnreachableCode;
  switch (code) {
    case network:
      return ENETUNREACH;
    case protocol:
      return ENOPROTOOPT;
    case port:
      return ECONNREFUSED;
    case fragmentation_needed:
      return EMSGSIZE;
    default:
      return EHOSTUNREACH;
  }
}

int errno_of(wire::Icmp6UnreachableCode code) {
  using enum wire::Icmp6UnreachableCode;
  switch (code) {
    case no_route:
      return ENETUNREACH;
    case port:
      return ECONNREFUSED;
    default:
      return EHOSTUNREACH;
  }
}

constexpr std::uint8_t unrecognised_next_header = 1;  // code of ICMPv6 Parameter Problem

}  // namespace

int errno_of(const wire::Icmp4Message& message) {
  return std::visit(
      Overloaded{[](const wire::Icmp4Unreachable& error) { return errno_of(error.code); },
                 [](const wire::Icmp4TimeExceeded&) { return EHOSTUNREACH; },
                 [](const wire::Icmp4ParameterProblem&) { return EPROTO; }, [](const wire::IcmpEcho&) { return 0; }},
      message);
}

int errno_of(const wire::Icmp6Message& message) {
  return std::visit(Overloaded{[](const wire::Icmp6Unreachable& error) { return errno_of(error.code); },
                               [](const wire::Icmp6PacketTooBig&) { return EMSGSIZE; },
                               [](const wire::Icmp6TimeExceeded&) { return EHOSTUNREACH; },
                               [](const wire::Icmp6ParameterProblem& error) {
                                 return error.code == unrecognised_next_header ? ENOPROTOOPT : EPROTO;
                               },
                               [](const wire::IcmpEcho&) { return 0; }},
                    message);
}

bool may_be_answered_by_error(wire::Family family, std::byte type) {
  constexpr std::byte echo_reply{0};
  constexpr std::byte echo_request{8};
  constexpr std::byte first_informational6{128};  // RFC 4443 section 2.1
  constexpr std::byte redirect6{137};             // RFC 4443 section 2.4 (e.2)
  return family == wire::Family::ipv4 ? type == echo_reply || type == echo_request
                                      : type >= first_informational6 && type != redirect6;
}

}  // namespace sluice::ip
