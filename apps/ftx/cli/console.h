// SPDX-License-Identifier: Apache-2.0
#pragma once

// Console: prints the events of a transfer, as JSON lines on standard output or as text. Shows progress only on a
// terminal.

#include "apps/ftx/session/event.h"

namespace sluice::ftx {

class Console {
 public:
  enum class Side : std::uint8_t { sender, receiver };
  Console(bool json, Side side);

  void show(const Event& event);
  /// A failure outside of a session. Answers its exit code.
  ExitCode fail(const Failure& failure);

 private:
  void show_text(const Event& event);
  void show_progress(const Event& event);
  void clear_progress();

  bool json_;
  Side side_;
  bool terminal_;
  bool progress_shown_ = false;
};

}  // namespace sluice::ftx
