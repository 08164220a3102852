// SPDX-License-Identifier: Apache-2.0
#pragma once

// IPv4 options (RFC 791 section 3.1) as far as a host has to do with them: is it the end of a source route, and which
// options does the reply to an echo request carry? RFC 1122 section 3.2.2.6: "If a Record Route and/or Time Stamp
// option is received in an ICMP Echo Request, this option (these options) SHOULD be updated to include the current host
// and included in the IP header of the Echo Reply message, without "truncation". [...] If a Source Route option is
// received in an ICMP Echo Request, the return route MUST be reversed and used as a Source Route option for the Echo
// Reply message."
//
// Options come from outside: each is checked against the end of the header before it is read, and what does not fit
// ends the walk. Plain functions and values; not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::ip {

/// Whether `options` hold a source route that names further hosts. RFC 791 section 3.1: "If the address in destination
/// address field has been reached and the pointer is not greater than the length, the next address in the source route
/// replaces the address in the destination address field": that would be forwarding, which is a router's business.
[[nodiscard]] bool has_unfinished_source_route(ConstBytes options);

/// What the reply to an echo request carries.
struct EchoOptions {
  static constexpr std::size_t size_max = 40;

  std::array<std::byte, size_max> bytes{};
  std::size_t size = 0;                             // a multiple of 4
  std::optional<wire::Ipv4Address> first_hop = {};  ///< of the reversed source route: where the reply goes to

  [[nodiscard]] ConstBytes view() const { return ConstBytes(bytes).first(size); }
};

/// Of a request from `source` to `local` with these options, at `milliseconds` of our clock, which is not midnight's.
[[nodiscard]] EchoOptions options_of_reply(ConstBytes options, const wire::Ipv4Address& source,
                                           const wire::Ipv4Address& local, std::uint32_t milliseconds);

}  // namespace sluice::ip
