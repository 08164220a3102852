// SPDX-License-Identifier: Apache-2.0
#pragma once

// Url: ftx://HOST:PORT/PATH, where the files go.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/wire/address.h"

namespace sluice::ftx {

inline constexpr std::uint16_t default_port = 7070;

struct Url {
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = default_port;
  std::string path;  // relative to what the server serves; may be empty
};

/// EINVAL, with a text that says what was expected.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

/// The address of `host`: an address is taken as it is, with its zone (fe80::1%eth0: stack/wire/zone.h); a name gives
/// the first answer of the system's resolver.
[[nodiscard]] Result<wire::IpAddress> resolve(const std::string& host);

/// An address for people: one that is link-local with the name of its zone.
[[nodiscard]] std::string text_of(const wire::IpAddress& address);

/// All of them, in the resolver's order, addresses_max at most.
inline constexpr std::size_t addresses_max = 8;
[[nodiscard]] Result<std::vector<wire::IpAddress>> resolve_all(const std::string& host);

}  // namespace sluice::ftx
