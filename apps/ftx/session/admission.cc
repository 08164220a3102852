// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/admission.h"

#include <algorithm>
#include <vector>

namespace sluice::ftx {

Admission admission(TimePoint now, const Peer& host, std::span<const Holder> holders, const AdmissionLimits& limits) {
  const auto sessions_of = [holders](const Peer& one) {
    return static_cast<std::size_t>(
        std::ranges::count_if(holders, [&one](const Holder& holder) { return *holder.host == one; }));
  };
  const std::size_t sessions = sessions_of(host);
  const bool host_is_full = sessions >= limits.per_host_max;
  if (!host_is_full && holders.size() < limits.sessions_max) {
    return {.granted = true};
  }
  // Without progress for the longest time, of those that are eligible.
  const auto stalest = [holders](const auto& eligible) {
    std::optional<std::size_t> result;
    for (std::size_t at = 0; at < holders.size(); ++at) {
      if (eligible(at) && (!result || holders[at].last_progress_at < holders[*result].last_progress_at)) {
        result = at;
      }
    }
    return result;
  };
  const auto own = [&](std::size_t at) { return *holders[at].host == host; };
  const auto spare = stalest([&](std::size_t at) { return holders[at].dispensable && (!host_is_full || own(at)); });
  if (spare) {
    return {.granted = true, .gives_way = spare};
  }
  std::vector<std::size_t> sessions_beside(holders.size());  // of the host of each
  std::ranges::transform(holders, sessions_beside.begin(),
                         [&](const Holder& holder) { return sessions_of(*holder.host); });
  if (const std::size_t most = std::ranges::max(sessions_beside); most > sessions + 1) {
    return {.granted = true, .gives_way = stalest([&](std::size_t at) { return sessions_beside[at] == most; })};
  }
  const auto stalled = stalest([&](std::size_t at) {
    return now - holders[at].last_progress_at >= limits.stalled_after && (own(at) || sessions_beside[at] > sessions);
  });
  return {.granted = stalled.has_value(), .gives_way = stalled};
}

}  // namespace sluice::ftx
