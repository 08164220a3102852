// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_flows.h"

#include <algorithm>

#include "stack/wire/protocol.h"

namespace sluice::ip {

std::uint32_t ports_of(std::uint8_t protocol, std::uint32_t word) {
  constexpr std::uint8_t dccp = 33;
  constexpr std::uint8_t sctp = 132;
  constexpr std::uint8_t udp_lite = 136;
  switch (protocol) {
    case wire::protocol_udp:
    case wire::protocol_tcp:
    case dccp:
    case sctp:
    case udp_lite:
      return word;
    default:
      return 0;
  }
}

std::size_t SentFlows::set_of(const Flow& flow) {
  const std::hash<wire::IpAddress> hash;
  return wire::detail::mixed(hash(flow.destination) + 3 * hash(flow.source) + flow.ports + flow.protocol) %
         (flows_max / ways);
}

void SentFlows::note(const Flow& flow) {
  Set& set = sets_[set_of(flow)];
  const auto end = set.flows.begin() + set.used;
  if (const auto known = std::find_if(set.flows.begin(), end, [&](const Flow& at) { return at.same(flow); });
      known != end) {
    known->dont_fragment = flow.dont_fragment;
    return;
  }
  set.flows[set.next] = flow;
  set.next = static_cast<std::uint8_t>((set.next + 1) % ways);
  set.used = static_cast<std::uint8_t>(std::min<std::size_t>(set.used + std::size_t{1}, ways));
}

const Flow* SentFlows::find(const Flow& flow) const {
  const Set& set = sets_[set_of(flow)];
  const auto end = set.flows.begin() + set.used;
  const auto found = std::find_if(set.flows.begin(), end, [&](const Flow& at) { return at.same(flow); });
  return found == end ? nullptr : &*found;
}

}  // namespace sluice::ip
