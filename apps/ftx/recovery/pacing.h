// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pacing: the sender spaces its datagrams at a rate instead of sending a whole window at once.
//
// Pacer answers when the next datagram may leave. It allows bursts of up to `burst` of sending time, so that a coarse
// timer does not lower the rate. It does not save up unused time beyond one burst.
//
// Once a burst is used up, the datagrams that follow leave by the quantum: "In order to amortize per-packet host
// overheads involved in the sending process, high-performance transport sender implementations often schedule an
// aggregate containing multiple packets [...] worth of data as a single quantum" (draft-ietf-ccwg-bbr, "Send Quantum").
// The quantum is what leaves in a quarter of a millisecond (a whole one in the draft), at most 64 KBytes. Each wait
// costs a timer and a wake, and in a virtual machine setting a timer takes longer than sending a datagram. (Measured at
// 1 Gbit/s under a hypervisor: without the quantum three datagrams left together, and the sender took 1.9 CPU seconds
// for 256 MiB instead of 0.6; a whole millisecond gains nothing more.) Where that is less than 8 KBytes there is no
// quantum, since the wakes are few: of what comes in pairs more is lost to a policer or to a queue that others keep
// full (simulated: a policer of 100 Mbit/s drops 3.4 % instead of 1.6; measured: beside TCP BBR it had 0.6 of an equal
// share instead of 0.7).
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
  [[nodiscard]] TimePoint next_send() const { return due_ - burst + (used_up_ ? quantum() : Duration{}); }
  /// True when the sender has used less than the rate allows.
  [[nodiscard]] bool behind(TimePoint now) const { return now > due_; }

  /// How long it takes to send, at this rate, what leaves together.
  [[nodiscard]] Duration quantum() const;

 private:
  std::uint64_t rate_ = 1;  // bytes a second
  TimePoint due_{};         // when all that was sent would have left, at this rate
  bool used_up_ = false;    // the burst is
};

}  // namespace sluice::ftx
