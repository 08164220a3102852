// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/output_destination.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "apps/ftx/jobs/quiet_thread.h"

namespace sluice::ftx {
namespace {

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
  auto output = GivenDescriptor::open(descriptor, GivenDescriptor::Access::write);
  if (!output) {
    return fail(output.error().code, name + ": " + std::strerror(output.error().code));
  }
  return std::unique_ptr<OutputDestination>(new OutputDestination(*std::move(output), std::move(name)));
}

OutputDestination::~OutputDestination() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  output_.interrupt();
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
  thread_ = quiet_thread([this] { run(); });
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
    const ssize_t done = output_.write_some(bytes);
    const int code = errno;
    lock.lock();
    if (done < 0 && code == EAGAIN) {
      continue;
    }
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

}  // namespace sluice::ftx
