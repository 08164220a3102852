// SPDX-License-Identifier: Apache-2.0
#pragma once

// Workers: do pieces of a sink's work beside its thread, such as making a file in a new directory, which costs the
// operating system far more than the network costs ftx. apps/ftx/jobs/worker_threads.h has threads for it; without any
// the sink does all itself, always in the same order.

#include <cstddef>
#include <functional>

namespace sluice::ftx {

class Workers {
 public:
  virtual ~Workers() = default;
  /// Has `work` done once, at any time from now on, beside other work; it holds `bytes` of memory, and may hold a
  /// descriptor. False: they are busy enough, and `work` is as it was.
  [[nodiscard]] virtual bool take(std::size_t bytes, std::function<void()>& work) = 0;
  /// Waits until everything that was taken is done.
  virtual void finish() = 0;
};

}  // namespace sluice::ftx
