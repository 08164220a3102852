// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/admission.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace sluice::ftx {
namespace {

/// The holders, and how many sessions the host of each has.
class Holders {
 public:
  explicit Holders(std::span<const Holder> holders) : holders_(holders) {
    for (const Holder& holder : holders) {
      sessions_.push_back(sessions_of(*holder.host));
    }
  }

  [[nodiscard]] std::size_t sessions_of(const Peer& host) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(holders_, [&](const Holder& holder) { return *holder.host == host; }));
  }
  [[nodiscard]] std::size_t sessions_beside(std::size_t at) const { return sessions_[at]; }
  /// Of the greediest host. REQUIRES: there is a holder.
  [[nodiscard]] std::size_t most_sessions() const { return std::ranges::max(sessions_); }

  /// The one without progress for the longest time, of those that are `eligible`.
  [[nodiscard]] std::optional<std::size_t> stalest(const std::function<bool(std::size_t)>& eligible) const {
    std::optional<std::size_t> result;
    for (std::size_t at = 0; at < holders_.size(); ++at) {
      if (eligible(at) && (!result || holders_[at].last_progress_at < holders_[*result].last_progress_at)) {
        result = at;
      }
    }
    return result;
  }

 private:
  std::span<const Holder> holders_;
  std::vector<std::size_t> sessions_;
};

}  // namespace

Admission admission(TimePoint now, const Peer& host, std::span<const Holder> all, const AdmissionLimits& limits) {
  const Holders holders(all);
  const std::size_t sessions = holders.sessions_of(host);
  const auto own = [&](std::size_t at) { return *all[at].host == host; };
  const bool host_is_full = sessions >= limits.per_host_max;
  if (!host_is_full && all.size() < limits.sessions_max) {
    return {.granted = true};
  }
  const auto spare = [&](std::size_t at) { return all[at].dispensable && (!host_is_full || own(at)); };
  if (const auto found = holders.stalest(spare)) {
    return {.granted = true, .gives_way = found};
  }
  if (const std::size_t most = holders.most_sessions(); most > sessions + 1) {
    return {.granted = true,
            .gives_way = holders.stalest([&](std::size_t at) { return holders.sessions_beside(at) == most; })};
  }
  const auto stalled = holders.stalest([&](std::size_t at) {
    return now - all[at].last_progress_at >= limits.stalled_after &&
           (own(at) || holders.sessions_beside(at) > sessions);
  });
  return {.granted = stalled.has_value(), .gives_way = stalled};
}

}  // namespace sluice::ftx
