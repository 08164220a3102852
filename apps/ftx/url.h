// SPDX-License-Identifier: Apache-2.0
#pragma once

// ftx://HOST:PORT/PATH: where files go.

#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/wire/address.h"

namespace sluice::ftx {

inline constexpr std::uint16_t default_port = 7070;

struct Url {
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = default_port;
  std::string path;  // relative to what the server serves; may be empty
};

/// EINVAL with a text that says what was expected.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

/// The address of a host: an address as it stands, else what the system's resolver answers first.
[[nodiscard]] Result<wire::IpAddress> resolve(const std::string& host);

}  // namespace sluice::ftx
