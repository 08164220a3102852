// SPDX-License-Identifier: Apache-2.0
#pragma once

// FetchDestination: where a job that fetches puts what comes: into a directory, or, for the destination "-", to
// standard output (apps/ftx/jobs/output_destination.h).
//
// Not thread-safe.

#include <expected>
#include <memory>
#include <string>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/journal_thread.h"
#include "apps/ftx/jobs/output_destination.h"
#include "apps/ftx/jobs/worker_threads.h"
#include "apps/ftx/remote/paths.h"

namespace sluice::ftx {

/// The operand that stands for standard output; a file of that name is "./-".
inline constexpr std::string_view standard_output = "-";

class FetchDestination {
 public:
  [[nodiscard]] static std::expected<std::unique_ptr<FetchDestination>, Failure> open(const PushOptions& options);

  [[nodiscard]] Destination& destination() {
    return output_ ? static_cast<Destination&>(*output_) : static_cast<Destination&>(*directory_);
  }
  /// The one file's name there; empty: files keep their names.
  [[nodiscard]] const std::string& name() const { return place_.name; }
  [[nodiscard]] FileRights rights() const;
  /// A transfer has ended with `code`: where that is success, waits until who reads the output has it. Answers what the
  /// job ends with.
  [[nodiscard]] ExitCode complete(ExitCode code, Host& host, Observer& observer);

 private:
  FetchDestination() = default;

  Place place_;
  JournalThread journals_;  // before who uses it
  WorkerThreads workers_;   // likewise
  std::unique_ptr<DirectoryDestination> directory_;
  std::unique_ptr<OutputDestination> output_;
};

}  // namespace sluice::ftx
