// SPDX-License-Identifier: Apache-2.0
#pragma once

// Console: prints the events of a transfer, as JSON lines on standard output, as text, or not at all. Shows progress
// only on a terminal.

#include "apps/ftx/session/event.h"

namespace sluice::ftx {

class Console {
 public:
  enum class Side : std::uint8_t { sender, receiver };
  enum class Form : std::uint8_t { text, json, nothing };
  Console(Form form, Side side);

  void show(const Event& event);
  /// A failure outside of a session. Answers its exit code.
  ExitCode fail(const Failure& failure);

 private:
  void show_text(const Event& event);
  void show_progress(const Event& event);
  void clear_progress();

  Form form_;
  Side side_;
  bool terminal_;
  bool progress_shown_ = false;
};

}  // namespace sluice::ftx
