// SPDX-License-Identifier: Apache-2.0
#pragma once

// PushSource: what the operands of a push name: files and directories, or standard input ("-").
//
// Not thread-safe.

#include <expected>
#include <memory>

#include "apps/ftx/files/source.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/input_source.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/security/confinement.h"

namespace sluice::ftx {

inline constexpr std::string_view input_operand = "-";

/// Standard input is sent as one file. A failure: what else is asked for has no meaning then. `path`: where it goes.
[[nodiscard]] std::expected<void, Failure> check_input(const PushOptions& options, std::string_view path);
/// REQUIRES: check_input() where this holds.
[[nodiscard]] bool sends_input(const PushOptions& options);

class PushSource {
 public:
  /// Whether finding out what there is may take a while. Not where it is sure to fail: then it fails at once.
  [[nodiscard]] static bool takes_time(const PushOptions& options);
  /// `options` outlive it.
  [[nodiscard]] static std::expected<PushSource, Failure> open(const PushOptions& options);

  [[nodiscard]] Source& operator*() const { return input_ ? static_cast<Source&>(*input_) : *files_; }
  /// For another session, since nothing has come of the first.
  [[nodiscard]] std::expected<void, Failure> open_again();

  /// Says what of the sources is not sent.
  void show_left_out(Observer& observer) const;
  /// What the process needs of the file system for it.
  [[nodiscard]] FileRights rights() const;

 private:
  explicit PushSource(const PushOptions& options) : options_(&options) {}

  friend class InputNews;
  const PushOptions* options_;
  std::unique_ptr<FileSource> files_;
  std::unique_ptr<InputSource> input_;
};

/// The loop of `host` wakes when there is more of standard input. Borrows both.
class InputNews {
 public:
  InputNews(Host& host, PushSource& source);
  ~InputNews();
  InputNews(const InputNews&) = delete;
  InputNews& operator=(const InputNews&) = delete;

 private:
  Host& host_;
  InputSource* input_;
};

}  // namespace sluice::ftx
