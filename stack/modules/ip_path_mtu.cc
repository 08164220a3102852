// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_path_mtu.h"

#include <algorithm>
#include <array>

#include "stack/modules/ip_config.h"

namespace sluice::ip {
namespace {

/// RFC 1191 section 7.1, "A table of plateaus": what to try next when the router does not say.
std::uint32_t plateau_below(std::uint32_t size) {
  static constexpr std::array<std::uint32_t, 9> plateaus{32000, 17914, 8166, 4352, 2002, 1492, 1006, 552, 0};
  return *std::ranges::find_if(plateaus, [&](std::uint32_t plateau) { return plateau < size || plateau == 0; });
}

/// What to believe of a report; 0 when nothing of it.
std::uint32_t believed(const wire::IpAddress& destination, std::uint32_t reported, std::uint32_t packet_size) {
  if (destination.is_v6()) {
    // RFC 8201 section 4: "If a node receives a Packet Too Big message reporting a next-hop MTU that is less than the
    // IPv6 minimum link MTU, it must discard it."
    return reported < mtu_min_v6 ? 0 : reported;
  }
  // RFC 1191 section 5: an old router's message "will contain zero in the field". What is less than any link may have
  // (section 3: "A host MUST never reduce its estimate of the Path MTU below 68 octets.") tells nothing.
  if (reported != 0 && reported < mtu_min_v4) {
    return 0;
  }
  return std::max(reported == 0 ? plateau_below(packet_size) : reported, PathMtu::floor_v4);
}

}  // namespace

PathMtu::Estimate PathMtu::lookup(const wire::IpAddress& destination, std::uint32_t link_mtu, TimePoint now) const {
  const auto found = entries_.find(destination);
  if (found == entries_.end() || found->second.expires <= now || found->second.mtu >= link_mtu) {
    return {link_mtu, never};
  }
  return found->second;
}

PathMtu::Report PathMtu::report(const wire::IpAddress& destination, std::uint32_t reported, std::uint32_t packet_size,
                                std::uint32_t link_mtu, TimePoint now) {
  const std::uint32_t mtu = believed(destination, reported, packet_size);
  // RFC 1191 section 3, RFC 8201 section 4: a host "MUST NOT increase its estimate of the Path MTU in response to the
  // contents" of such a message. One that does not fit what it quotes is forged or late.
  if (mtu == 0 || mtu >= packet_size || packet_size > link_mtu) {
    return Report::implausible;
  }
  if (mtu >= lookup(destination, link_mtu, now).mtu) {
    return Report::known;
  }
  if (entries_.size() >= entries_max && !entries_.contains(destination)) {
    make_room();
  }
  entries_.insert_or_assign(destination, Estimate{mtu, now + lifetime});
  return Report::lowered;
}

void PathMtu::make_room() {
  entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.expires; }));
}

}  // namespace sluice::ip
