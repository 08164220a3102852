// SPDX-License-Identifier: Apache-2.0
#pragma once

// Observer: whom a job tells what happens: the console of the program, or a program behind the library.
//
// It is called in the thread of the job.

#include <functional>
#include <string>
#include <string_view>

#include "apps/ftx/session/event.h"

namespace sluice::ftx {

class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  virtual void show(const Event& event) = 0;
  /// What is worth knowing of this process or this user's files, and is no part of a transfer.
  virtual void note(std::string_view text) = 0;
  /// What somebody should know although the job goes on.
  virtual void warn(std::string_view text) = 0;
  /// Events of kind file are shown, so somebody should make them.
  [[nodiscard]] virtual bool wants_files() const { return false; }
  /// Whether `key`, which a server shows that is not known yet, is the server's. `turn` lets the run loop work for a
  /// moment; it answers false when the job is to end.
  [[nodiscard]] virtual bool confirms(const std::string& /*server*/, const std::string& /*key*/,
                                      const std::function<bool()>& /*turn*/) {
    return false;
  }

  /// Shows a failure outside of a session. Answers its exit code.
  ExitCode fail(const Failure& failure) {
    Event event;
    event.kind = Event::Kind::error;
    event.code = failure.code;
    event.text = failure.text;
    show(event);
    return failure.code;
  }
};

/// What a person can do about it. Empty where the messages say that themselves, since it depends.
[[nodiscard]] std::string_view remedy_for(ExitCode code);
/// What has happened, as sessions and peers say it, and what to do.
[[nodiscard]] std::string with_remedy(ExitCode code, std::string_view text);

/// Nobody is told.
class Unobserved final : public Observer {
 public:
  void show(const Event& /*event*/) override {}
  void note(std::string_view /*text*/) override {}
  void warn(std::string_view /*text*/) override {}
};

}  // namespace sluice::ftx
