// SPDX-License-Identifier: Apache-2.0
#pragma once

// WorkerThreads: Workers for the processors that the run loop leaves idle, one thread each and threads_max at most.
// They are started with the first piece of work, and so under the confinement of the thread that hands it over
// (apps/ftx/jobs/confined.h). Where the system refuses a thread, fewer do the work, or none.
//
// take() and finish() belong to one thread.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/ftx/files/workers.h"

namespace sluice::ftx {

class WorkerThreads final : public Workers {
 public:
  static constexpr unsigned threads_max = 3;
  /// What may wait. Who finds no room for more works, too, instead of waiting.
  static constexpr std::size_t bytes_max = std::size_t{4} << 20;
  static constexpr std::size_t pieces_max = 128;

  /// `threads`: at most so many.
  explicit WorkerThreads(unsigned threads = idle_processors());
  /// Does what was taken first.
  ~WorkerThreads() override;
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  [[nodiscard]] bool take(std::size_t bytes, std::function<void()>& work) override;
  void finish() override;

 private:
  struct Piece {
    std::size_t bytes = 0;
    std::function<void()> work;
  };

  [[nodiscard]] static unsigned idle_processors();
  void start();
  void run();

  unsigned threads_wanted_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;  // over all that follows
  std::condition_variable work_waits_;
  std::condition_variable all_done_;
  std::deque<Piece> waiting_;
  std::size_t bytes_ = 0;   // of what waits or is being done
  std::size_t pieces_ = 0;  // likewise
  bool ends_ = false;
};

}  // namespace sluice::ftx
