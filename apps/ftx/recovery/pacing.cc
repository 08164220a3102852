// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/recovery/pacing.h"

#include <algorithm>

namespace sluice::ftx {
namespace {

constexpr Duration quantum_max = std::chrono::microseconds(250);
constexpr std::size_t quantum_bytes_max = 64 * 1024;
constexpr std::size_t quantum_bytes_min = 8 * 1024;

Duration time_to_send(std::size_t bytes, std::uint64_t bytes_per_second) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second)));
}

}  // namespace

void Pacer::on_sent(TimePoint now, std::size_t bytes) {
  // next_send() already grants one burst; time that passes unused beyond it is lost.
  due_ = std::max(due_, now) + time_to_send(bytes, rate_);
  used_up_ = due_ - burst > now;
}

Duration Pacer::quantum() const {
  const Duration quantum = std::min(quantum_max, time_to_send(quantum_bytes_max, rate_));
  return quantum >= time_to_send(quantum_bytes_min, rate_) ? quantum : Duration{};
}

}  // namespace sluice::ftx
