// SPDX-License-Identifier: Apache-2.0
#pragma once

// libftx for C++17 and later: <ftx.h> with objects. That header is the manual.
//
//     ftx::Job job(ftx::Job::Kind::transfer);
//     job.set("archive").add("photos/").add("backup.example:photos/");
//     job.on_event([](const ftx::Event& event) { ... });
//     const ftx::Outcome outcome = job.run();
//     if (!outcome) std::cerr << outcome.text << '\n';
//
// Header only: what the linker sees are the C functions, so a program needs no new build for a new library.

#include "ftx.h"

#include <cerrno>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace ftx {

using Event = ::ftx_event;

/// What became of a job.
struct Outcome {
  int code = 0;      // an exit code of ftx(1)
  std::string text;  // why it failed; empty after success
  explicit operator bool() const { return code == 0; }
};

/// Movable while it does not run.
class Job {
 public:
  enum class Kind { transfer = FTX_TRANSFER, serve = FTX_SERVE };

  /// Throws std::system_error where no memory or descriptor is left.
  explicit Job(Kind kind) : job_(::ftx_job_new(static_cast<ftx_job_kind>(kind)), &::ftx_job_free) {
    if (!job_) {
      throw std::system_error(errno, std::generic_category(), "ftx_job_new");
    }
  }

  /// An option that takes no value. Throws std::invalid_argument for one that there is not or that takes one.
  Job& set(const std::string& name) { return set_raw(name, nullptr); }
  /// Likewise for one that takes a value.
  Job& set(const std::string& name, const std::string& value) { return set_raw(name, value.c_str()); }
  Job& set(const std::string& name, const char* value) { return set_raw(name, value); }
  Job& set(const std::string& name, bool value) { return set_raw(name, value ? "true" : "false"); }
  Job& add(const std::string& operand) {
    if (::ftx_job_add(job_.get(), operand.c_str()) != 0) {
      throw std::bad_alloc();
    }
    return *this;
  }
  Job& on_event(std::function<void(const Event&)> handler) {
    handler_ = std::move(handler);
    return *this;
  }
  Job& watch_files() {
    ::ftx_job_watch_files(job_.get());
    return *this;
  }

  /// What the handler throws ends the job, and comes out here.
  Outcome run() {
    thrown_ = nullptr;
    ::ftx_job_on_event(job_.get(), handler_ ? &Job::handle : nullptr, this);
    const int code = ::ftx_job_run(job_.get());
    if (thrown_) {
      std::rethrow_exception(std::exchange(thrown_, nullptr));
    }
    return {code, ::ftx_job_error(job_.get())};
  }
  /// From any thread or signal handler.
  void stop() noexcept { ::ftx_job_stop(job_.get()); }

 private:
  Job& set_raw(const std::string& name, const char* value) {
    if (::ftx_job_set(job_.get(), name.c_str(), value) != 0) {
      throw std::invalid_argument(::ftx_job_error(job_.get()));
    }
    return *this;
  }
  static void handle(void* user, const Event* event) noexcept {
    Job& job = *static_cast<Job*>(user);
    if (job.thrown_) {
      return;
    }
    try {
      job.handler_(*event);
    } catch (...) {
      job.thrown_ = std::current_exception();
      job.stop();
    }
  }

  std::unique_ptr<::ftx_job, void (*)(::ftx_job*)> job_;
  std::function<void(const Event&)> handler_;
  std::exception_ptr thrown_;
};

/// What `ftx --json` prints for it.
inline std::string json(const Event& event) { return ::ftx_event_json(&event); }

}  // namespace ftx
