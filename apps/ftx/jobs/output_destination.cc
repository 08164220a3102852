// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/output_destination.h"

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
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>

namespace sluice::ftx {
namespace {

/// So much goes into a pipe that is ready to be written, without waiting.
constexpr std::size_t atomic_bytes = 4096;  // PIPE_BUF
constexpr std::size_t write_bytes_max = 256 * 1024;
constexpr std::array<std::byte, 64 * 1024> hole{};

}  // namespace

/// The one file.
class OutputDestination::File final : public SinkFile {
 public:
  explicit File(OutputDestination& output) : output_(output) {}

  [[nodiscard]] bool takes(std::uint64_t offset, std::size_t size) override { return output_.takes(offset, size); }
  [[nodiscard]] Status write(std::uint64_t offset, ConstBytes bytes) override { return output_.put(offset, bytes); }
  [[nodiscard]] Status read(std::uint64_t offset, Bytes out) override {
    output_.read(offset, out);
    return {};
  }
  [[nodiscard]] Status finalize() override {
    output_.end();
    return {};
  }
  [[nodiscard]] Status commit() override { return {}; }
  std::string keep() override { return output_.name_; }

 private:
  OutputDestination& output_;
};

class OutputDestination::Files final : public Sink {
 public:
  explicit Files(OutputDestination& output) : output_(output) {}

  [[nodiscard]] Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
    output_.begin(entry);
    return std::make_unique<File>(output_);
  }
  [[nodiscard]] std::uint64_t room_bytes() override { return output_.room(); }
  [[nodiscard]] Status finish() override { return {}; }
  [[nodiscard]] std::string path(const FileEntry& /*entry*/) const override { return output_.name_; }

 private:
  OutputDestination& output_;
};

Result<std::unique_ptr<OutputDestination>> OutputDestination::open(int descriptor, std::string name) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    return fail(errno, name + ": " + std::strerror(errno));
  }
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return fail(errno, name + ": " + std::strerror(errno));
  }
  Kind kind = S_ISREG(status.st_mode)    ? Kind::file
              : S_ISFIFO(status.st_mode) ? Kind::pipe
              : S_ISSOCK(status.st_mode) ? Kind::socket
                                         : Kind::other;
  // Whoever has the other descriptors of this pipe would be surprised by O_NONBLOCK.
  Descriptor own;
  if (kind == Kind::pipe) {
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    own = Descriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    kind = own.valid() ? Kind::pipe : Kind::other;
  }
  return std::unique_ptr<OutputDestination>(
      new OutputDestination(descriptor, std::move(own), std::move(wake), kind, std::move(name)));
}

OutputDestination::~OutputDestination() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  constexpr std::uint64_t once = 1;
  [[maybe_unused]] const auto woken = ::write(wake_.get(), &once, sizeof once);
  if (thread_.joinable()) {
    thread_.join();
  }
}

Result<std::unique_ptr<Sink>> OutputDestination::open(std::string_view /*path*/, std::span<const FileEntry> entries) {
  if (entries.size() != 1 || !entries.front().regular()) {
    return fail(EINVAL, "only one file, and no directory, goes to " + name_);
  }
  return std::make_unique<Files>(*this);
}

std::unexpected<Error> OutputDestination::failed(int code) const {
  return fail(code, name_ + ": " + std::strerror(code));
}

// ---- what the run loop does ----

void OutputDestination::begin(const FileEntry& entry) {
  entry_ = entry;
  window_.emplace(window_bytes + kept_bytes, kept_bytes);
  // Signals are for the run loop; and a reader that is gone is an error of write(), not the end of the process.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool OutputDestination::takes(std::uint64_t offset, std::size_t size) {
  const std::lock_guard lock(mutex_);
  return error_ != 0 || window_->takes(offset, size);
}

std::uint64_t OutputDestination::room() {
  const std::lock_guard lock(mutex_);
  return window_ ? window_->room() : window_bytes;
}

Status OutputDestination::put(std::uint64_t offset, ConstBytes bytes) {
  const std::lock_guard lock(mutex_);
  if (error_ != 0) {
    return failed(error_);
  }
  const std::uint64_t before = window_->prefix();
  window_->put(offset, bytes);
  if (window_->prefix() > before) {
    changed_.notify_all();
  }
  return {};
}

void OutputDestination::read(std::uint64_t offset, Bytes out) {
  const std::lock_guard lock(mutex_);
  window_->read(offset, out);
}

void OutputDestination::end() {
  const std::lock_guard lock(mutex_);
  whole_ = true;
  changed_.notify_all();
}

Status OutputDestination::drain(const std::function<bool()>& turn) {
  std::unique_lock lock(mutex_);
  while (error_ == 0 && !all_written()) {
    lock.unlock();
    if (!turn()) {
      return failed(EINTR);
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::milliseconds(10), [this] { return error_ != 0 || all_written(); });
  }
  return error_ == 0 ? Status() : failed(error_);
}

// ---- what the thread does ----

/// What the file has next; empty: it has not come. Bytes of the window stay where they are without the lock.
ConstBytes OutputDestination::next(bool& zeros) const {
  const bool ready = window_->prefix() > window_->taken();
  const FileRun run = ready ? entry_.run_at(window_->taken()) : FileRun{entry_.size_bytes, 0};
  zeros = written_ < run.at && (ready || whole_);
  if (zeros) {
    return ConstBytes(hole).first(std::min<std::uint64_t>(run.at - written_, hole.size()));
  }
  return ready ? window_->ready().first(std::min<std::uint64_t>({run.bytes, window_->ready().size(), write_bytes_max}))
               : ConstBytes();
}

bool OutputDestination::has_next() const {
  bool zeros = false;
  return !next(zeros).empty();
}

void OutputDestination::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || has_next() || all_written(); });
    if (ends_ || all_written()) {
      break;
    }
    bool zeros = false;
    const ConstBytes bytes = next(zeros);
    lock.unlock();
    const ssize_t done = write_some(bytes);
    const int code = errno;
    lock.lock();
    if (done < 0) {
      error_ = code;
      break;
    }
    written_ += static_cast<std::uint64_t>(done);
    if (!zeros) {
      window_->take(static_cast<std::size_t>(done));
    }
  }
  changed_.notify_all();
}

/// As write(2); 0: not now, or not any more.
ssize_t OutputDestination::write_some(ConstBytes bytes) const {
  if (kind_ != Kind::file) {
    std::array<pollfd, 2> watched{{{descriptor_, POLLOUT, 0}, {wake_.get(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0) {
      return errno == EINTR ? 0 : -1;
    }
    if (watched[1].revents != 0) {
      return 0;
    }
  }
  if (kind_ == Kind::other) {
    bytes = bytes.first(std::min(bytes.size(), atomic_bytes));
  }
  const ssize_t done = kind_ == Kind::socket
                           ? ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                           : ::write(descriptor_, bytes.data(), bytes.size());
  return done < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : done;
}

}  // namespace sluice::ftx
