// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unpaced: no congestion control, for a path that has one of its own, such as a pipe of ssh: it takes what it can, in
// order and without loss, and its delays are its own. What the receiver announces that it can hold (ReceiveCredit)
// bounds what is under way.
//
// Not for datagrams on a network. Reads no clock. Not thread-safe.

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx {

class Unpaced final : public CongestionControl {
 public:
  [[nodiscard]] std::string_view name() const override { return "none"; }
  void on_sent(TimePoint, std::size_t) override {}
  void on_report(TimePoint, const Delivery&) override {}
  [[nodiscard]] std::uint64_t window_bytes() const override { return UINT64_MAX; }
  [[nodiscard]] TimePoint next_send() const override { return TimePoint::min(); }
  [[nodiscard]] bool behind(TimePoint) const override { return false; }
};

}  // namespace sluice::ftx
