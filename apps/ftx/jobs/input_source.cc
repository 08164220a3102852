// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/input_source.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "apps/ftx/jobs/quiet_thread.h"

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

std::unexpected<Failure> unopened(const std::string& name, int code) {
  return std::unexpected(Failure{ExitCode::source_unreadable, name + ": " + std::strerror(code)});
}

}  // namespace

std::expected<std::unique_ptr<InputSource>, Failure> InputSource::open(int descriptor, std::string name,
                                                                       std::size_t bytes) {
  auto input = GivenDescriptor::open(descriptor, GivenDescriptor::Access::read);
  if (!input) {
    return unopened(name, input.error().code);
  }
  Descriptor news(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news.valid()) {
    return unopened(name, errno);
  }
  return std::unique_ptr<InputSource>(new InputSource(*std::move(input), std::move(news), std::move(name), bytes));
}

InputSource::InputSource(GivenDescriptor input, Descriptor news, std::string name, std::size_t bytes)
    : input_(std::move(input)),
      news_(std::move(news)),
      name_(std::move(name)),
      entries_{{.name = "-", .mode = mode_of_a_redirection(), .kind = EntryKind::stream}},
      bytes_(bytes) {}

InputSource::~InputSource() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  input_.interrupt();
  if (thread_.joinable()) {
    thread_.join();
  }
}

// ---- what the run loop does ----

void InputSource::begin() {
  ring_.emplace(bytes_);
  thread_ = quiet_thread([this] { run(); });
}

void InputSource::heard() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(news_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  if (!ended_) {
    return;
  }
  // This may have been news from before the end. The loop learns of the next one by asking the kernel, which tells of
  // signals, too.
  if (end_ == End::untold) {
    end_ = End::told_of;
    tell();
  } else {
    end_ = End::heard;
  }
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
  return StreamState{ring_->end(), end_ == End::heard};
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
    const ssize_t got = input_.read_some(room.first(std::min(room.size(), read_bytes_max)));
    const int code = errno;
    lock.lock();
    if (got < 0 && code == EAGAIN) {
      continue;
    }
    error_ = got < 0 ? code : 0;
    ended_ = got == 0;
    ring_->add(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (std::exchange(asked_, false) || ended_) {
      tell();
    }
  }
}

/// The run loop. By either thread.
void InputSource::tell() {
  constexpr std::uint64_t once = 1;
  [[maybe_unused]] const auto written = ::write(news_.get(), &once, sizeof once);
}

}  // namespace sluice::ftx
