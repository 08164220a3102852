// SPDX-License-Identifier: Apache-2.0
#pragma once

// A bounded queue between two threads: one puts, the other takes. Who puts waits while it is full; who takes may wait
// until something is there. All that the thread which puts has done before is seen by the one that takes.
//
// A lock, not atomic indices: it is held for a few instructions, both sides must be able to sleep anyway, and the
// sanitizer can check it.
//
// Threads: one that puts, one that takes. Ownership: owns what waits in it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

#include "base/time.h"

namespace sluice::msg {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t items_max) : items_max_(items_max) {}

  /// Waits while `items_max` wait. Whether it was empty before: then the other thread may be asleep.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return items_.size() < items_max_; });
    const bool was_empty = items_.empty();
    items_.push_back(std::move(item));
    lock.unlock();
    changed_.notify_one();
    return was_empty;
  }

  /// All that waits, in order.
  [[nodiscard]] std::deque<T> take_all() {
    const std::scoped_lock lock(mutex_);
    return take_locked();
  }

  /// As take_all(), after waiting until something is there or the steady clock has reached `deadline`.
  [[nodiscard]] std::deque<T> wait_and_take(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const auto filled = [this] { return !items_.empty(); };
    if (deadline == never) {
      changed_.wait(lock, filled);
    } else {
      const auto steady = std::chrono::duration_cast<std::chrono::steady_clock::duration>(deadline.time_since_epoch());
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(steady), filled);
    }
    return take_locked();
  }

  [[nodiscard]] bool empty() const {
    const std::scoped_lock lock(mutex_);
    return items_.empty();
  }

 private:
  std::deque<T> take_locked() {
    std::deque<T> taken = std::exchange(items_, {});
    if (!taken.empty()) {
      changed_.notify_one();  // who puts may wait for room
    }
    return taken;
  }

  const std::size_t items_max_;
  mutable std::mutex mutex_;
  std::condition_variable
      changed_;  // only one of the two threads can wait at a time: full and empty exclude each other
  std::deque<T> items_;
};

}  // namespace sluice::msg
