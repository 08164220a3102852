// SPDX-License-Identifier: Apache-2.0
#pragma once

// RemoteStart: the near side of a start. ssh, which starts `ftx remote` on the other host, may log in while the caller
// still finds out what to send; then it gets the request. RemoteStart waits for the answer, and watches both until the
// transfer is over: the far side ends when the pipe does.
//
// Where UDP does not come through the transfer goes on over the pipe itself: switch_over() asks the far side to, and
// the caller carries datagrams through socket() from then on.
//
// Every failure says what to do, by exit codes of its own (apps/ftx/protocol/exit_code.h): ssh_missing, ssh_failed,
// remote_missing, remote_version, remote_lost.
//
// Borrows the run loop. Not thread-safe.

#include <expected>
#include <functional>
#include <memory>
#include <optional>

#include "apps/ftx/remote/child.h"
#include "apps/ftx/remote/ssh_command.h"
#include "apps/ftx/remote/start_message.h"
#include "edge/run_loop.h"

namespace sluice::ftx {

class RemoteStart {
 public:
  /// How long `ssh -G` may take.
  static constexpr Duration query_time_max = std::chrono::seconds(5);

  /// Starts ssh, and waits for nothing.
  [[nodiscard]] static std::expected<std::unique_ptr<Child>, Failure> start_ssh(const SshCommand& command);
  /// Sends the request. `ssh`: of start_ssh(command).
  [[nodiscard]] static std::expected<std::unique_ptr<RemoteStart>, Failure> begin(RunLoop& loop, SshCommand command,
                                                                                  std::unique_ptr<Child> ssh,
                                                                                  const StartRequest& request);
  ~RemoteStart();
  RemoteStart(const RemoteStart&) = delete;
  RemoteStart& operator=(const RemoteStart&) = delete;

  /// Runs the loop until the far side is ready, `deadline` has come or `stopped()` holds. Once. Nothing of what comes
  /// from there is read before.
  [[nodiscard]] std::expected<StartReady, Failure> ready(TimePoint deadline, const std::function<bool()>& stopped);

  /// Why the transfer cannot go on: the far side said so, or it or ssh is gone.
  [[nodiscard]] std::optional<Failure> lost();

  /// How long the pipe took, there and back, right after ready(); null: not known yet.
  [[nodiscard]] std::optional<Duration> round_trip() const { return round_trip_; }

  /// Asks the far side to go on through the pipe with a session of this secret, and waits until it has gone over.
  /// Afterwards what comes through socket() is the caller's to read, and its end the caller's to tell. REQUIRES:
  /// ready() has answered.
  [[nodiscard]] std::expected<void, Failure> switch_over(const StartSwitch& change, TimePoint deadline,
                                                         const std::function<bool()>& stopped);
  [[nodiscard]] int socket() const { return child_->socket(); }
  [[nodiscard]] pid_t process() const { return child_->pid(); }
  /// The transfer is over well, and not by the pipe: ssh needs a round trip and more to end, for which nobody waits.
  void leave() { leaves_ = true; }
  /// The caller has read the end of the pipe.
  void pipe_ended() { input_ended_ = true; }

  /// What a program prints until it ends, `time_max` has passed or `stopped()` holds; hardly more than `bytes_max`.
  [[nodiscard]] static std::string printed_by(RunLoop& loop, const std::vector<std::string>& arguments,
                                              std::size_t bytes_max, Duration time_max,
                                              const std::function<bool()>& stopped);
  /// The host name that ssh goes to, as its configuration says; `host` where ssh does not tell.
  [[nodiscard]] static std::string host_name(RunLoop& loop, const SshCommand& command, const std::string& host,
                                             const std::function<bool()>& stopped);

 private:
  RemoteStart(RunLoop& loop, SshCommand command, std::unique_ptr<Child> child);
  void follow();
  /// Takes what has come; false when nothing waits any more.
  bool receive();
  void take_messages();
  void stop_receiving();
  void note_end();
  [[nodiscard]] Failure failure_of_end();
  void measure();

  RunLoop& loop_;
  SshCommand command_;
  std::unique_ptr<Child> child_;
  StartReader reader_{StartReader::Preamble::skipped};
  std::optional<StartReady> ready_{};
  std::optional<Failure> failure_{};
  TimePoint echo_at_{};
  std::optional<Duration> round_trip_{};
  bool switching_ = false;
  bool switched_ = false;     // what comes is the caller's
  bool input_ended_ = false;  // the pipe's
  bool watching_process_ = false;
  bool leaves_ = false;
};

}  // namespace sluice::ftx
