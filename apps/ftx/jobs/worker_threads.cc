// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/worker_threads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "apps/ftx/jobs/quiet_thread.h"

namespace sluice::ftx {

unsigned WorkerThreads::idle_processors() { return std::max(std::thread::hardware_concurrency(), 1U) - 1; }

WorkerThreads::WorkerThreads(unsigned threads) : threads_wanted_(std::min(threads, threads_max)) {}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_waits_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void WorkerThreads::start() {
  try {
    while (threads_.size() < threads_wanted_) {
      threads_.push_back(quiet_thread([this] { run(); }));
    }
  } catch (const std::system_error&) {
    threads_wanted_ = static_cast<unsigned>(threads_.size());
  }
}

bool WorkerThreads::take(std::size_t bytes, std::function<void()>& work) {
  if (threads_.size() < threads_wanted_) {
    start();
  }
  if (threads_.empty()) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (pieces_ == pieces_max || (pieces_ > 0 && bytes_ + bytes > bytes_max)) {
      return false;
    }
    bytes_ += bytes;
    ++pieces_;
    waiting_.push_back({bytes, std::exchange(work, nullptr)});
  }
  work_waits_.notify_one();
  return true;
}

void WorkerThreads::finish() {
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return pieces_ == 0; });
}

void WorkerThreads::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_waits_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      return;
    }
    Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    piece.work();
    piece.work = nullptr;  // and what it holds
    lock.lock();
    bytes_ -= piece.bytes;
    if (--pieces_ == 0) {
      all_done_.notify_all();
    }
  }
}

}  // namespace sluice::ftx
