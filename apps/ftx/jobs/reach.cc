// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/reach.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/ftx/transport/pipe_transport.h"

namespace sluice::ftx {

std::expected<Reach, Failure> Reach::to(Host& host, const std::vector<wire::IpAddress>& addresses, std::uint16_t port) {
  const auto is_v6_address = [](const wire::IpAddress& one) { return one.is_v6(); };
  Reach reach;
  reach.v6 = std::ranges::any_of(addresses, is_v6_address);
  const bool both = reach.v6 && !std::ranges::all_of(addresses, is_v6_address);
  auto transport = host.open({any_address(reach.v6), 0});
  if (!transport && both) {  // a host without IPv6
    reach.v6 = false;
    transport = host.open({any_address(false), 0});
  }
  if (!transport) {
    return std::unexpected(transport.error());
  }
  reach.transport = *std::move(transport);
  for (const wire::IpAddress& address : addresses) {
    if (reach.v6 || !address.is_v6()) {
      reach.peers.push_back(peer_of({address, port}));
    }
  }
  return reach;
}

bool is_v6(const Peer& peer) {
  const auto address = wire::TransportAddress::decode(peer.address());
  return address && address->address.is_v6() && !address->address.v6().is_ipv4_mapped();
}

std::string text_of(const Peer& peer) {
  if (peer == pipe_peer()) {
    return "ssh";
  }
  auto address = wire::TransportAddress::decode(peer.address());
  if (!address) {
    return {};
  }
  if (address->address.is_v6() && address->address.v6().is_ipv4_mapped()) {
    const auto v6 = address->address.v6();
    address->address = wire::Ipv4Address::load(std::as_bytes(std::span(v6.octets)).subspan(12).data());
  }
  return fmt::format("{} port {}", text_of(address->address), address->port);
}

}  // namespace sluice::ftx
