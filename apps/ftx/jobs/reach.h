// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reach: a transport for the server of an ftx:// URL, and the addresses where that may be.

#include <expected>
#include <memory>
#include <vector>

#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/url.h"

namespace sluice::ftx {

struct Reach {
  std::unique_ptr<Transport> transport;
  std::vector<Peer> peers;  // in the order in which they are tried; not empty
  bool v6 = false;          // one of them is an IPv6 address

  [[nodiscard]] static std::expected<Reach, Failure> to(Host& host, const std::vector<wire::IpAddress>& addresses,
                                                        std::uint16_t port);
};

/// An IPv6 address, and not one of IPv4 in its clothes.
[[nodiscard]] bool is_v6(const Peer& peer);

/// Address and port for people, "ssh" for the pipe; empty for no peer.
[[nodiscard]] std::string text_of(const Peer& peer);

}  // namespace sluice::ftx
