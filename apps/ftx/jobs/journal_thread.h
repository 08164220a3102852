// SPDX-License-Identifier: Apache-2.0
#pragma once

// JournalThread: writes the journals of partial files beside the run loop, which therefore never waits for the disk of
// a transfer that goes on. What has to be written waits for pause_min, so that a file which is whole sooner costs no
// journal; and after each round for four times as long as that has taken, so that a slow disk has time for the data.
//
// The thread touches nothing but Partial::commit() of the partial files that it was given. Started with the first one.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "apps/ftx/files/partial.h"
#include "apps/ftx/jobs/jobs.h"

namespace sluice::ftx {

class JournalThread final : public JournalKeeper {
 public:
  static constexpr std::chrono::milliseconds pause_min{250};
  static constexpr int pause_rounds = 4;

  JournalThread() = default;
  ~JournalThread() override;
  JournalThread(const JournalThread&) = delete;
  JournalThread& operator=(const JournalThread&) = delete;

  void due(Partial& partial) override;
  /// Waits for a commit of `partial` that runs.
  void forget(Partial& partial) override;

 private:
  void run();

  std::mutex mutex_;  // over all that follows
  std::condition_variable changed_;
  std::unordered_set<Partial*> due_;
  Partial* running_ = nullptr;
  bool ends_ = false;
  std::thread thread_;
};

/// What the user has asked for.
[[nodiscard]] inline PartialOptions partials_of(const CommonOptions& options, JournalThread& journals) {
  return {.keep = options.keep_partial, .verify = options.verify, .keeper = &journals};
}

}  // namespace sluice::ftx
