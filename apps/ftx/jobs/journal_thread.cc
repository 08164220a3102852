// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/journal_thread.h"

#include <algorithm>

#include "apps/ftx/jobs/quiet_thread.h"

namespace sluice::ftx {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

JournalThread::~JournalThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void JournalThread::due(Partial& partial) {
  const std::lock_guard lock(mutex_);
  if (!due_.insert(&partial).second) {
    return;
  }
  if (!thread_.joinable()) {
    thread_ = quiet_thread([this] { run(); });
  }
  changed_.notify_all();
}

void JournalThread::forget(Partial& partial) {
  std::unique_lock lock(mutex_);
  due_.erase(&partial);
  changed_.wait(lock, [&] { return running_ != &partial; });
}

void JournalThread::run() {
  std::unique_lock lock(mutex_);
  std::chrono::nanoseconds pause = pause_min;
  while (!ends_) {
    changed_.wait(lock, [this] { return ends_ || !due_.empty(); });
    changed_.wait_for(lock, pause, [this] { return ends_; });
    const auto began = Clock::now();
    // One round: what becomes due meanwhile waits for the next.
    for (std::size_t left = due_.size(); left > 0 && !due_.empty() && !ends_; --left) {
      running_ = *due_.begin();
      due_.erase(due_.begin());
      lock.unlock();
      running_->commit();
      lock.lock();
      running_ = nullptr;
      changed_.notify_all();
    }
    pause = std::max<std::chrono::nanoseconds>(pause_min, pause_rounds * (Clock::now() - began));
  }
}

}  // namespace sluice::ftx
