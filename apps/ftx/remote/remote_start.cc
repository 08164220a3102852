// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/remote_start.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr int ssh_failed_status = 255;
// What shells answer (POSIX, Shell Command Language, 2.8.2): "If a command is not found, the exit status shall be 127.
// If the command name is found, but it is not an executable utility, the exit status shall be 126."
constexpr int not_executable_status = 126;
constexpr int not_found_status = 127;
/// What an ftx without `remote` answers.
constexpr int usage_status = static_cast<int>(ExitCode::usage);
/// What `ssh -G` prints is shorter.
constexpr std::size_t configuration_bytes_max = 256 * 1024;
/// How often to look for the end of a program where the system has no descriptor for it.
constexpr Duration look_interval = std::chrono::milliseconds(100);
/// How long the end of a program that takes nothing any more may take to be noticed.
constexpr Duration lost_time_max = std::chrono::seconds(2);

}  // namespace

RemoteStart::RemoteStart(RunLoop& loop, SshCommand command, std::unique_ptr<Child> child)
    : loop_(loop), command_(std::move(command)), child_(std::move(child)) {}

void RemoteStart::follow() {
  loop_.watch(child_->socket(), [this] { return receive(); });
  if (child_->process() >= 0) {
    watching_process_ = true;
    loop_.watch(child_->process(), [this] {
      loop_.unwatch(child_->process());
      watching_process_ = false;
      while (receive()) {
      }
      if (!switched_) {
        stop_receiving();
      }
      return false;
    });
  }
}

RemoteStart::~RemoteStart() {
  if (!switched_) {
    stop_receiving();
  }
  if (watching_process_) {
    loop_.unwatch(child_->process());
  }
  if (leaves_) {
    child_->leave();
  }
}

std::expected<std::unique_ptr<Child>, Failure> RemoteStart::start_ssh(const SshCommand& command) {
  auto ssh = Child::start(start_arguments(command));
  if (!ssh) {
    return std::unexpected(Failure{ExitCode::ssh_missing,
                                   ssh.error().text + "; install the OpenSSH client, or name a program with --ssh"});
  }
  return *std::move(ssh);
}

std::expected<std::unique_ptr<RemoteStart>, Failure> RemoteStart::begin(RunLoop& loop, SshCommand command,
                                                                        std::unique_ptr<Child> ssh,
                                                                        const StartRequest& request) {
  auto bytes = encode(request);
  if (!bytes) {
    return std::unexpected(Failure{ExitCode::usage, "the paths are too long, or too many, for one start"});
  }
  std::unique_ptr<RemoteStart> start(new RemoteStart(loop, std::move(command), std::move(ssh)));
  // A program that is gone already says so when its output is read.
  [[maybe_unused]] const Status written = start->child_->write(*bytes);
  wipe(*bytes);
  return start;
}

bool RemoteStart::receive() {
  if (input_ended_ || switched_) {
    return false;
  }
  std::array<std::byte, 4096> bytes;
  const auto got = child_->read(Bytes(bytes).first(std::min(bytes.size(), reader_.room())));
  if (!got && got.error().code == EAGAIN) {
    return false;
  }
  if (!got || *got == 0) {
    stop_receiving();
    return false;
  }
  reader_.feed(ConstBytes(bytes).first(*got));
  take_messages();
  return !failure_ && !switched_;
}

void RemoteStart::stop_receiving() {
  if (!std::exchange(input_ended_, true)) {
    loop_.unwatch(child_->socket());
  }
}

void RemoteStart::take_messages() {
  while (!failure_) {
    auto message = reader_.next();
    if (!message) {
      failure_ = message.error();
    } else if (!*message) {
      return;
    } else if (auto* ready = std::get_if<StartReady>(&**message); ready != nullptr && !ready_) {
      ready_ = std::move(*ready);
      measure();
    } else if (std::holds_alternative<StartEcho>(**message) && ready_ && !round_trip_) {
      round_trip_ = loop_.now() - echo_at_;
    } else if (std::holds_alternative<StartSwitched>(**message) && switching_ && !reader_.holds_more()) {
      // It has nothing to say before it has heard from here.
      switched_ = true;
      loop_.unwatch(child_->socket());
      return;
    } else if (auto* told = std::get_if<StartFailure>(&**message)) {
      failure_ = Failure{told->code, fmt::format("{}: {}", command_.login, told->text)};
    } else {
      failure_ = Failure{ExitCode::protocol_error, "the other ftx broke the start: a message out of turn"};
    }
  }
}

void RemoteStart::measure() {
  echo_at_ = loop_.now();
  // A program that is gone says so when its output is read.
  [[maybe_unused]] const Status written = child_->write(encode(StartEcho{}));
}

std::expected<void, Failure> RemoteStart::switch_over(const StartSwitch& change, TimePoint deadline,
                                                      const std::function<bool()>& stopped) {
  SLUICE_REQUIRE(ready_ && !switching_);
  switching_ = true;
  auto bytes = encode(change);
  if (!child_->write(bytes)) {
    // A program that is gone says more when its output is read.
    deadline = std::min(deadline, loop_.now() + lost_time_max);
  }
  wipe(bytes);
  const auto settled = [&] { return switched_ || lost() || stopped(); };
  while (!settled() && loop_.now() < deadline) {
    loop_.run_until(settled, child_->process() < 0 ? std::min(deadline, loop_.now() + look_interval) : deadline);
  }
  if (switched_) {
    return {};
  }
  if (failure_) {
    return std::unexpected(*failure_);
  }
  if (stopped()) {
    return std::unexpected(Failure{ExitCode::interrupted, "interrupted"});
  }
  return std::unexpected(
      Failure{ExitCode::timeout, fmt::format("{}: the ftx there fell silent; run it again", command_.login)});
}

/// The pipe has ended, or ssh has, without a message that says why.
Failure RemoteStart::failure_of_end() {
  const std::string& there = command_.login;
  const std::string start = fmt::format("'{} remote' on {}", command_.remote_ftx, there);
  const auto status = child_->status();
  const int code = status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
  if (ready_) {
    return {ExitCode::remote_lost,
            fmt::format("{}: the ftx there, or the connection of ssh to it, ended before the transfer; run it again",
                        there)};
  }
  if (code == ssh_failed_status || (status && WIFSIGNALED(*status))) {
    return {ExitCode::ssh_failed, fmt::format("ssh to {} failed; what it said is above. Try: {} {} true", there,
                                              command_.program.front(), there)};
  }
  if (code == not_found_status || code == not_executable_status) {
    return {ExitCode::remote_missing,
            fmt::format("there is no '{}' to run on {}: install ftx there, or name it with --remote-ftx PATH",
                        command_.remote_ftx, there)};
  }
  if (code == usage_status) {
    return {ExitCode::remote_version,
            fmt::format("{} does not know this start: install the same version of ftx on both hosts", start)};
  }
  const std::string printed = reader_.preamble();
  return {ExitCode::remote_lost,
          fmt::format("{} ended{} before it answered{}", start, code >= 0 ? fmt::format(" with status {}", code) : "",
                      printed.empty() ? "" : fmt::format("; it printed '{}'", printed))};
}

void RemoteStart::note_end() {
  if (failure_) {
    return;
  }
  if (child_->process() < 0 && child_->status()) {
    while (receive()) {
    }
    if (!switched_) {
      stop_receiving();
    }
  }
  // Its status says more than its silence: it comes right behind.
  if (input_ended_ && (ready_ || child_->status())) {
    failure_ = failure_of_end();
  }
}

std::optional<Failure> RemoteStart::lost() {
  note_end();
  return failure_;
}

std::expected<StartReady, Failure> RemoteStart::ready(TimePoint deadline, const std::function<bool()>& stopped) {
  follow();
  const auto settled = [&] { return ready_ || lost() || stopped(); };
  while (!settled() && loop_.now() < deadline) {
    loop_.run_until(settled, child_->process() < 0 ? std::min(deadline, loop_.now() + look_interval) : deadline);
  }
  if (ready_) {
    return *ready_;
  }
  if (failure_) {
    return std::unexpected(*failure_);
  }
  if (stopped()) {
    return std::unexpected(Failure{ExitCode::interrupted, "interrupted"});
  }
  return std::unexpected(
      Failure{input_ended_ ? ExitCode::remote_lost : ExitCode::ssh_failed,
              fmt::format("{}: no answer through ssh in time; see --connect-timeout", command_.login)});
}

std::string RemoteStart::printed_by(RunLoop& loop, const std::vector<std::string>& arguments, std::size_t bytes_max,
                                    Duration time_max, const std::function<bool()>& stopped) {
  auto child = Child::start(arguments);
  if (!child) {
    return {};
  }
  (*child)->close_input();
  std::string printed;
  bool ended = false;
  loop.watch((*child)->socket(), [&] {
    std::array<std::byte, 4096> bytes;
    const auto got = (*child)->read(bytes);
    ended = got ? *got == 0 || printed.size() > bytes_max : got.error().code != EAGAIN;
    if (got) {
      printed += as_text(ConstBytes(bytes).first(*got));
    }
    return got && !ended;
  });
  loop.run_until([&] { return ended || stopped(); }, loop.now() + time_max);
  loop.unwatch((*child)->socket());
  return printed;
}

std::string RemoteStart::host_name(RunLoop& loop, const SshCommand& command, const std::string& host,
                                   const std::function<bool()>& stopped) {
  const std::string name =
      hostname_in(printed_by(loop, query_arguments(command), configuration_bytes_max, query_time_max, stopped));
  return name.empty() ? host : name;
}

}  // namespace sluice::ftx
