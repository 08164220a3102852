// SPDX-License-Identifier: Apache-2.0
#pragma once

// FairShare: the rate of a flow that cruises beside others, such that all who do the same get equal shares (deviation
// 13 of bbr.h).
//
// Flows that each send what they have measured keep the ratio in which they began. So each round with a standing queue
// takes a part of the rate, until the queue shrinks, and each round without one adds an amount that does not depend on
// the rate. Flows of one queue see it at the same time: what they give up is in proportion to what they have, what they
// take is equal, and with each queue they come closer. That additive increase and multiplicative decrease end in equal
// shares is shown in Chiu and Jain, Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in
// Computer Networks, 1989.
//
// A queue that does not shrink although this flow has yielded for `patience` rounds belongs to somebody who does not:
// TCP that goes by loss fills it on purpose. Then this flow is pressed: it yields no more until a round had no queue,
// and is less patient the next time.
//
// Knows no path and no clock: Bbr says when a round of cruising is over. Not thread-safe.

#include <cstdint>
#include <optional>
#include <utility>

namespace sluice::ftx {

class FairShare {
 public:
  /// A round of cruising. Rates are in bytes a second.
  struct Round {
    bool queue = false;    // one stood from its beginning to its end
    bool shrinks = false;  // that queue, against the round before: what has been yielded is enough
    bool used = true;      // what was allowed was sent; else nobody knows whether more would go, and nothing is added
    std::uint64_t rate = 0;
    std::uint64_t datagram_rate = 0;  // a datagram a round trip
  };
  void on_round(const Round& round);
  /// Cruising ends for a probe. Returns rate(), which is null from then on.
  std::optional<std::uint64_t> end();

  /// Null while nobody else is known of, or while pressed.
  [[nodiscard]] std::optional<std::uint64_t> rate() const { return rate_; }
  /// False while growing finds what others leave: a probe would take from them.
  [[nodiscard]] bool may_probe() const { return !rate_ || quiet_rounds_ >= probing_rounds; }
  [[nodiscard]] bool pressed() const { return pressed_; }

  static constexpr double yield = 0.97;  // what a round with a queue leaves of the rate
  /// What a round without a queue adds: so many datagrams a round trip, or so many for each in succession, or that part
  /// of the rate (so that a fast flow alone loses little to a queue of its own), whichever is the most.
  static constexpr double growth = 2;
  static constexpr double growth_by_round = 0.25;
  static constexpr std::uint64_t growth_part = 128;
  // In rounds:
  static constexpr unsigned patience_max = 16;
  static constexpr unsigned patience_min = 8;
  static constexpr unsigned probing_rounds = 20;  // so many without a queue: nobody else is there

 private:
  void yield_to_queue(const Round& round);
  void grow(const Round& round);

  std::optional<std::uint64_t> rate_;
  unsigned queue_rounds_ = 0;  // with one that did not shrink, since the last without one
  unsigned quiet_rounds_ = 0;  // in succession
  unsigned patience_ = patience_max;
  bool pressed_ = false;
};

}  // namespace sluice::ftx
