// SPDX-License-Identifier: Apache-2.0
#pragma once

// TransferArguments: the operands and all flags of a transfer, but those that say how it is shown.
//
// Not thread-safe. The application refers to it: it must outlive the parse.

#include <CLI/CLI.hpp>
#include <expected>
#include <string>
#include <vector>

#include "apps/ftx/arguments/selection.h"
#include "apps/ftx/jobs/jobs.h"

namespace sluice::ftx {

class TransferArguments {
 public:
  explicit TransferArguments(CLI::App& app);
  TransferArguments(const TransferArguments&) = delete;
  TransferArguments& operator=(const TransferArguments&) = delete;

  /// Sources, then the destination.
  [[nodiscard]] const std::vector<std::string>& operands() const { return operands_; }
  /// What was asked for. REQUIRES: the application has parsed its arguments.
  [[nodiscard]] std::expected<PushOptions, Failure> options() const;

 private:
  PushOptions options_;
  SelectionArguments selection_;
  std::vector<std::string> operands_;
};

}  // namespace sluice::ftx
