// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pacing: the sender spaces its datagrams at a rate instead of sending a whole window at once.
//
// Pacer answers when the next datagram may leave. It allows bursts of up to `burst` of sending time, so that a coarse
// timer does not lower the rate. It does not save up unused time beyond one burst.
//
// Reads no clock. Not thread-safe.

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice::ftx {

class Pacer {
 public:
  static constexpr Duration burst = std::chrono::milliseconds(2);

  void set_rate(std::uint64_t bytes_per_second) { rate_ = bytes_per_second; }
  [[nodiscard]] std::uint64_t rate() const { return rate_; }
  void on_sent(TimePoint now, std::size_t bytes);
  [[nodiscard]] TimePoint next_send() const { return due_ - burst; }
  /// True when the sender has used less than the rate allows.
  [[nodiscard]] bool behind(TimePoint now) const { return now > due_; }

 private:
  std::uint64_t rate_ = 1;
  TimePoint due_{};
};

}  // namespace sluice::ftx
