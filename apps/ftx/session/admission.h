// SPDX-License-Identifier: Apache-2.0
#pragma once

// Admission control: whether one more session of a host may begin, and which one gives way to it.
//
// Threat: a host that takes what there is, so that nobody else is served. A host may have a part of the sessions; at
// that bound only its own give way. When all are taken, a newcomer gets the room of a session that its peer can do
// without, else of the host that has the most sessions, if that is more than the newcomer's host then has, else of one
// that has made no progress for stalled_after, if that host has more than the newcomer's has now; the stalest of these.
// Not the other way round: a flood stalls the one session of an honest host, and its own are always new. So a host with
// one session loses it only to a host that has none.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "apps/ftx/session/endpoint.h"
#include "base/time.h"

namespace sluice::ftx {

struct AdmissionLimits {
  std::size_t sessions_max;  // more than 0, as the others
  std::size_t per_host_max;
  Duration stalled_after = std::chrono::seconds(3);
};

/// A session that has room.
struct Holder {
  const Peer* host = nullptr;  // borrowed
  TimePoint last_progress_at{};
  bool dispensable = false;  // its peer can do without it
};

struct Admission {
  bool granted = false;
  std::optional<std::size_t> gives_way{};  // which of the holders goes for it
};

/// What becomes of one more session of `host`. Of one that is too many the answer may be to replace one, so that at
/// most limits.sessions_max and limits.per_host_max stay. Linear in the holders where there is room,
/// else quadratic.
[[nodiscard]] Admission admission(TimePoint now, const Peer& host, std::span<const Holder> holders,
                                  const AdmissionLimits& limits);

}  // namespace sluice::ftx
