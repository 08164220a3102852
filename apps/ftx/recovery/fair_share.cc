// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/fair_share.h"

#include <algorithm>

namespace sluice::ftx {

void FairShare::on_round(const Round& round) {
  if (round.queue) {
    quiet_rounds_ = 0;
    if (!round.shrinks) {
      ++queue_rounds_;
      yield_to_queue(round);
    }
    return;
  }
  if (queue_rounds_ > 0 && !pressed_) {  // yielding has helped
    patience_ = std::min(2 * patience_, patience_max);
  }
  queue_rounds_ = 0;
  ++quiet_rounds_;
  pressed_ = false;
  if (rate_ && round.used) {
    grow(round);
  }
}

void FairShare::yield_to_queue(const Round& round) {
  if (pressed_) {
    return;
  }
  if (queue_rounds_ > patience_) {
    pressed_ = true;
    rate_.reset();
    patience_ = std::max(patience_ / 2, patience_min);
  } else if (queue_rounds_ > 1) {  // the queue of the first round of a cruise may be that of its own probe
    rate_ = static_cast<std::uint64_t>(yield * static_cast<double>(round.rate));
  }
}

void FairShare::grow(const Round& round) {
  const double datagrams = std::max(growth, growth_by_round * quiet_rounds_);
  const auto added = static_cast<std::uint64_t>(datagrams * static_cast<double>(round.datagram_rate));
  rate_ = round.rate + std::max(added, round.rate / growth_part);
}

std::optional<std::uint64_t> FairShare::end() {
  queue_rounds_ = 0;
  return std::exchange(rate_, std::nullopt);
}

}  // namespace sluice::ftx
