// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attempts: where HELLOs go while nobody has answered. Of several addresses the next is tried, beside those before it,
// after a delay: RFC 8305 section 5: "A simple implementation can have a fixed delay for how long to wait before
// starting the next connection attempt.  This delay is referred to as the "Connection Attempt Delay".  One recommended
// value for a default delay is 250 milliseconds."
//
// Not thread-safe.

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "apps/ftx/session/endpoint.h"
#include "base/time.h"

namespace sluice::ftx {

class Attempts {
 public:
  /// Between the first HELLOs to two addresses.
  static constexpr Duration delay = std::chrono::milliseconds(250);
  /// Between two to one: doubles.
  static constexpr Duration repeat_first = std::chrono::milliseconds(250);
  static constexpr Duration repeat_max = std::chrono::milliseconds(500);

  Attempts(TimePoint now, const Peer& first, std::span<const Peer> others) : several_(!others.empty()) {
    all_.push_back({first, now, repeat_first});
    for (const Peer& other : others) {
      all_.push_back({other, all_.back().repeat_at + delay, repeat_first});
    }
  }

  /// An address that a HELLO is to go to now. Nothing: to none.
  [[nodiscard]] std::optional<Peer> next(TimePoint now) {
    const auto due = std::ranges::find_if(all_, [&](const Attempt& one) { return now >= one.repeat_at; });
    if (due == all_.end()) {
      return std::nullopt;
    }
    due->repeat_at = now + due->interval;
    due->interval = std::min(due->interval * 2, repeat_max);
    return due->peer;
  }
  [[nodiscard]] TimePoint next_deadline() const {
    TimePoint next = never;
    for (const Attempt& one : all_) {
      next = std::min(next, one.repeat_at);
    }
    return next;
  }

  /// The address that an answer from `from` is of. A host with several addresses may answer from another one than it
  /// was asked at: where one alone was asked it is clear who did. Nothing: nobody asked there.
  [[nodiscard]] std::optional<Peer> answered(const Peer& from) const {
    const auto attempt = std::ranges::find(all_, from, &Attempt::peer);
    if (attempt != all_.end()) {
      return attempt->peer;
    }
    return several_ || all_.empty() ? std::nullopt : std::optional(all_.front().peer);
  }

  /// Nobody listens at `peer`. Where one address cannot be, the next need not wait. False when that was the last.
  [[nodiscard]] bool refused(TimePoint now, const Peer& peer) {
    if (std::erase_if(all_, [&](const Attempt& one) { return one.peer == peer; }) == 0) {
      return true;
    }
    const auto next = std::ranges::find_if(
        all_, [&](const Attempt& one) { return one.repeat_at > now && one.interval == repeat_first; });
    if (next != all_.end()) {
      next->repeat_at = now;
    }
    return !all_.empty();
  }

 private:
  struct Attempt {
    Peer peer;
    TimePoint repeat_at{};
    Duration interval{};
  };

  bool several_;
  std::vector<Attempt> all_;  // in order
};

}  // namespace sluice::ftx
