// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_redirects.h"

#include <algorithm>

namespace sluice::ip {

using wire::IpAddress;

void Redirects::note(const IpAddress& destination, const IpAddress& next_hop, TimePoint now) {
  if (entries_.size() >= entries_max && !entries_.contains(destination)) {
    entries_.erase(std::ranges::min_element(
        entries_, [](const auto& a, const auto& b) { return a.second.expires < b.second.expires; }));
  }
  entries_[destination] = {next_hop, now + lifetime};
}

std::optional<Redirects::Entry> Redirects::lookup(const IpAddress& destination, TimePoint now) const {
  const auto found = entries_.find(destination);
  return found == entries_.end() || now >= found->second.expires ? std::nullopt : std::optional(found->second);
}

void Redirects::forget(const IpAddress& next_hop) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.next_hop == next_hop; });
}

}  // namespace sluice::ip
