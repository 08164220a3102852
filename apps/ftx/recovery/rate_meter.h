// SPDX-License-Identifier: Apache-2.0
#pragma once

// RateMeter: computes the delivery rate from the cumulative counters of reports, over spans that are long enough to be
// precise. Reads no clock. Not thread-safe.

#include <cstdint>
#include <optional>

#include "apps/ftx/protocol/message.h"
#include "base/time.h"

namespace sluice::ftx {

class RateMeter {
 public:
  /// Null until the receiver's clock has advanced by `span_min` since the last rate. `sent_at`: of report.highest.
  std::optional<std::uint64_t> on_report(const Report& report, TimePoint sent_at, Duration span_min);
  /// What the next rate will be at least, by what the last report said: as if nothing more came before.
  [[nodiscard]] std::uint64_t so_far() const { return so_far_; }

 private:
  [[nodiscard]] std::uint64_t rate(const Report& report, TimePoint sent_at, Duration span_min) const;

  bool started_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ns_ = 0;
  TimePoint sent_at_{};
  std::uint64_t so_far_ = 0;
};

}  // namespace sluice::ftx
