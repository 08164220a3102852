// SPDX-License-Identifier: Apache-2.0
#pragma once

// StartPipe: the far side of a start, on standard input and output: gets the request, answers, and notices when the
// near side is gone, or wants to go on through the pipe.
//
// Borrows the run loop and the descriptors. Not thread-safe.

#include <expected>
#include <functional>
#include <optional>

#include "apps/ftx/remote/start_message.h"
#include "edge/run_loop.h"

namespace sluice::ftx {

class StartPipe {
 public:
  StartPipe(RunLoop& loop, int in, int out);
  ~StartPipe();
  StartPipe(const StartPipe&) = delete;
  StartPipe& operator=(const StartPipe&) = delete;

  /// Runs the loop until the request is there, `deadline` has come or `stopped()` holds.
  [[nodiscard]] std::expected<StartRequest, Failure> request(TimePoint deadline, const std::function<bool()>& stopped);
  void answer(const StartReady& ready);
  void answer(const Failure& failure);

  /// The near side goes on through the pipe: the session is to begin anew with this secret.
  [[nodiscard]] bool switch_asked() const { return switch_.has_value(); }
  /// Answers that this side has gone over. From then on the descriptors are the caller's, and nothing here reads or
  /// writes them. REQUIRES: switch_asked().
  [[nodiscard]] Secret switch_over();
  [[nodiscard]] int in() const { return in_; }
  [[nodiscard]] int out() const { return out_; }
  /// The near side has closed the pipe, or broken the rules.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  bool receive();
  void end();
  void break_off(std::string text);
  [[nodiscard]] bool take(StartMessage message);
  void write(ConstBytes bytes);

  RunLoop& loop_;
  int in_;
  int out_;
  StartReader reader_{StartReader::Preamble::none};
  std::optional<StartRequest> request_{};
  std::optional<Failure> failure_{};
  std::optional<StartSwitch> switch_{};
  bool requested_ = false;
  bool echoed_ = false;
  bool switched_ = false;
  bool ended_ = false;
};

}  // namespace sluice::ftx
