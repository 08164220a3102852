// SPDX-License-Identifier: Apache-2.0
#pragma once

// What benchmarks with interleaved arms share: the thread's CPU clock, and samples with their median and quartiles.

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <vector>

namespace sluice::bench {

/// CPU time of this thread, user and system, with the softirq work that the kernel does in its context. (A kernel with
/// CONFIG_IRQ_TIME_ACCOUNTING would leave the latter out.)
inline double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

class Samples {
 public:
  void add(double value) { values_.insert(std::ranges::upper_bound(values_, value), value); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  /// REQUIRES: there is a sample.
  [[nodiscard]] double quantile(double fraction) const {
    return values_[static_cast<std::size_t>(fraction * static_cast<double>(values_.size() - 1) + 0.5)];
  }
  [[nodiscard]] double median() const { return quantile(0.5); }
  /// All of them, multiplied. REQUIRES: factor >= 0.
  [[nodiscard]] Samples times(double factor) const {
    Samples all = *this;
    for (double& value : all.values_) {
      value *= factor;
    }
    return all;
  }

 private:
  std::vector<double> values_;  // sorted
};

}  // namespace sluice::bench
