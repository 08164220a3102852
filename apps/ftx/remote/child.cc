// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/child.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "base/retried.h"

namespace sluice::ftx {
namespace {

std::unexpected<Error> system_error(const std::string& what, int code) {
  return fail(code, what + ": " + std::strerror(code));
}

/// File actions and attributes of posix_spawn, which want to be destroyed.
struct SpawnSettings {
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

/// "Except for SIGCHLD, signals set to be ignored (SIG_IGN) by the calling process image shall be set to be ignored by
/// the new process image" (POSIX, exec): ours are not the program's.
int default_signals(posix_spawnattr_t& attributes) {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    ::sigaddset(&ours, signal);
  }
  sigset_t none;
  ::sigemptyset(&none);
  int error = ::posix_spawnattr_setsigdefault(&attributes, &ours);
  error = error != 0 ? error : ::posix_spawnattr_setsigmask(&attributes, &none);
  return error != 0 ? error : ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

/// By its number, since <sys/pidfd.h> of glibc 2.36 is none for C++.
int open_process(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

int spawn(const std::vector<std::string>& arguments, int socket, pid_t& pid) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));  // posix_spawn() does not change them
  }
  pointers.push_back(nullptr);
  SpawnSettings settings;
  int error = ::posix_spawn_file_actions_adddup2(&settings.actions, socket, STDIN_FILENO);
  error = error != 0 ? error : ::posix_spawn_file_actions_adddup2(&settings.actions, STDIN_FILENO, STDOUT_FILENO);
  error = error != 0 ? error : ::posix_spawn_file_actions_addclosefrom_np(&settings.actions, STDERR_FILENO + 1);
  error = error != 0 ? error : default_signals(settings.attributes);
  return error != 0
             ? error
             : ::posix_spawnp(&pid, pointers[0], &settings.actions, &settings.attributes, pointers.data(), environ);
}

/// Programs that were left and may run yet.
class Left {
 public:
  void add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.push_back(pid);
  }
  /// Reaps those that have ended.
  void reap() {
    const std::lock_guard lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return retried([pid] { return ::waitpid(pid, nullptr, WNOHANG); }) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};

Left& left() {
  static Left programs;
  return programs;
}

constexpr int write_waits_max = 20;
constexpr auto write_wait = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<Child>> Child::start(const std::vector<std::string>& arguments) {
  SLUICE_REQUIRE(!arguments.empty());
  left().reap();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("cannot make a socket for " + arguments[0], errno);
  }
  pid_t pid = -1;
  const int error = spawn(arguments, ends[1], pid);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return system_error("cannot start " + arguments[0], error);
  }
  return std::unique_ptr<Child>(new Child(pid, ends[0], open_process(pid)));
}

Result<std::size_t> Child::read(Bytes out) {
  const ssize_t got = retried([&] { return ::recv(socket_, out.data(), out.size(), MSG_DONTWAIT); });
  if (got < 0) {
    // A program that ended without reading what we wrote resets the socket: it has closed its end.
    return errno == ECONNRESET ? Result<std::size_t>(0) : fail(errno);
  }
  return static_cast<std::size_t>(got);
}

Status Child::write(ConstBytes bytes) {
  int waits = write_waits_max;
  while (!bytes.empty()) {
    const ssize_t put =
        retried([&] { return ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL); });
    // A start is far shorter than what the socket holds, unless the program does not read.
    if (put < 0 && errno == EAGAIN && waits > 0) {
      pollfd asked{socket_, POLLOUT, 0};
      ::poll(&asked, 1, static_cast<int>(std::chrono::milliseconds(write_wait).count()));
      --waits;
      continue;
    }
    if (put < 0) {
      return fail(errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

void Child::close_input() { ::shutdown(socket_, SHUT_WR); }

std::optional<int> Child::status() {
  int status = 0;
  // ECHILD: where the program inherited that SIGCHLD is ignored, the system has reaped it and tells no status.
  if (!status_ && retried([&] { return ::waitpid(pid_, &status, WNOHANG); }) != 0) {
    status_ = status;
  }
  return status_;
}

bool Child::ended_within(Duration time) {
  // Without a descriptor to wait for, it looks in steps.
  constexpr Duration step = std::chrono::milliseconds(20);
  for (Duration waited{}; !status(); waited += step) {
    if (waited >= time) {
      return false;
    }
    pollfd asked{process_, POLLIN, 0};
    const Duration wait = process_ >= 0 ? time : step;
    ::poll(&asked, process_ >= 0 ? 1 : 0,
           static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count()));
    if (process_ >= 0) {
      return status().has_value();
    }
  }
  return true;
}

void Child::close_socket() {
  if (socket_ >= 0) {
    ::close(std::exchange(socket_, -1));
  }
}

void Child::leave() {
  close_socket();
  if (!std::exchange(left_, true) && !status()) {
    left().add(pid_);
  }
}

void Child::end() {
  close_socket();
  if (!left_ && !ended_within(grace)) {
    ::kill(pid_, SIGTERM);
    if (!ended_within(grace)) {
      ::kill(pid_, SIGKILL);
      static_cast<void>(ended_within(grace));
    }
  }
  if (process_ >= 0) {
    ::close(std::exchange(process_, -1));
  }
}

}  // namespace sluice::ftx
