// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/input_source.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace sluice::ftx {
namespace {

constexpr unsigned redirected_mode = 0666;

/// umask(2) tells it only by setting another one, which other threads of the process would notice. Where the kernel
/// does not tell it otherwise, nobody else gets to read the file.
std::uint16_t mode_of_a_redirection() {
  std::ifstream status("/proc/self/status");
  unsigned mask = 0077;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Umask:")) {
      mask = static_cast<unsigned>(std::strtoul(line.c_str() + 6, nullptr, 8));
    }
  }
  return static_cast<std::uint16_t>(redirected_mode & ~mask);
}

void signal_event(const Descriptor& event) {
  constexpr std::uint64_t once = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &once, sizeof once);
}

std::unexpected<Failure> unopened(const std::string& name, int code) {
  return std::unexpected(Failure{ExitCode::source_unreadable, name + ": " + std::strerror(code)});
}

}  // namespace

std::expected<std::unique_ptr<InputSource>, Failure> InputSource::open(int descriptor, std::string name,
                                                                       std::size_t bytes) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    return unopened(name, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return unopened(name, EISDIR);
  }
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Descriptor news(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid() || !news.valid()) {
    return unopened(name, errno);
  }
  Kind kind = S_ISREG(status.st_mode)    ? Kind::file
              : S_ISFIFO(status.st_mode) ? Kind::pipe
              : S_ISSOCK(status.st_mode) ? Kind::socket
                                         : Kind::other;
  // Whoever has the other descriptors of this pipe would be surprised by O_NONBLOCK.
  Descriptor own;
  if (kind == Kind::pipe) {
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    own = Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    kind = own.valid() ? Kind::pipe : Kind::other;
  }
  return std::unique_ptr<InputSource>(
      new InputSource(descriptor, std::move(own), std::move(wake), std::move(news), kind, std::move(name), bytes));
}

InputSource::InputSource(int descriptor, Descriptor own, Descriptor wake, Descriptor news, Kind kind, std::string name,
                         std::size_t bytes)
    : descriptor_(own.valid() ? own.get() : descriptor),
      own_(std::move(own)),
      wake_(std::move(wake)),
      news_(std::move(news)),
      kind_(kind),
      name_(std::move(name)),
      entries_{{.name = "-", .mode = mode_of_a_redirection(), .kind = EntryKind::stream}},
      bytes_(bytes) {}

InputSource::~InputSource() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  signal_event(wake_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

// ---- what the run loop does ----

void InputSource::begin() {
  ring_.emplace(bytes_);
  // Signals are for the run loop.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void InputSource::heard() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(news_.get(), &count, sizeof count);
}

Result<Source::StreamState> InputSource::stream_state() {
  const std::lock_guard lock(mutex_);
  if (!ring_) {
    begin();
  }
  if (error_ != 0) {
    return fail(error_, std::strerror(error_));
  }
  asked_ = true;
  return StreamState{ring_->end(), ended_};
}

void InputSource::stream_delivered(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  if (ring_ && offset > ring_->begin()) {
    const bool had_room = has_room();
    ring_->forget(offset);
    if (!had_room && has_room()) {
      changed_.notify_all();
    }
  }
}

/// The thread leaves alone what is in the ring.
Status InputSource::read(std::uint32_t /*index*/, std::uint64_t offset, Bytes out) {
  {
    const std::lock_guard lock(mutex_);
    if (!ring_ || !ring_->holds(offset, out.size())) {
      return fail(EIO, "what was read before cannot be read again");
    }
  }
  ring_->read(offset, out);
  return {};
}

// ---- what the thread does ----

void InputSource::run() {
  std::unique_lock lock(mutex_);
  while (error_ == 0 && !ended_) {
    changed_.wait(lock, [this] { return ends_ || has_room(); });
    if (ends_) {
      return;
    }
    const Bytes room = ring_->room();
    lock.unlock();
    const ssize_t got = read_some(room.first(std::min(room.size(), read_bytes_max)));
    const int code = errno;
    lock.lock();
    if (got < 0 && (code == EAGAIN || code == EINTR)) {
      continue;
    }
    error_ = got < 0 ? code : 0;
    ended_ = got == 0;
    ring_->add(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (std::exchange(asked_, false)) {
      signal_event(news_);
    }
  }
}

/// As read(2); EAGAIN: not now, or not any more.
ssize_t InputSource::read_some(Bytes out) const {
  if (kind_ == Kind::file) {
    return ::read(descriptor_, out.data(), out.size());
  }
  if (kind_ != Kind::other) {
    // Before poll(2), which does not tell of the end of a FIFO whose last writer was gone when it was opened.
    const ssize_t got = kind_ == Kind::socket ? ::recv(descriptor_, out.data(), out.size(), MSG_DONTWAIT)
                                              : ::read(descriptor_, out.data(), out.size());
    if (got >= 0 || errno != EAGAIN) {
      return got;
    }
  }
  std::array<pollfd, 2> watched{{{descriptor_, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  if (::poll(watched.data(), watched.size(), -1) < 0) {
    return -1;
  }
  if (kind_ == Kind::other && watched[0].revents != 0) {
    return ::read(descriptor_, out.data(), out.size());
  }
  errno = EAGAIN;
  return -1;
}

}  // namespace sluice::ftx
