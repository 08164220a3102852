// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/pacing.h"

#include <algorithm>

namespace sluice::ftx {

void Pacer::on_sent(TimePoint now, std::size_t bytes) {
  const double cost_ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_);
  // next_send() already grants one burst; time that passes unused beyond it is lost.
  due_ = std::max(due_, now) + Duration(static_cast<Duration::rep>(cost_ns));
}

}  // namespace sluice::ftx
