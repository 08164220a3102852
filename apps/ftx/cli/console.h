// SPDX-License-Identifier: Apache-2.0
#pragma once

// Console: prints the events of a transfer: as JSON lines on standard output, as text, or not at all. As text errors
// and warnings go to standard error, all else to standard output. On a terminal a line of progress
// (apps/ftx/cli/progress.h) is kept on standard error meanwhile.
//
// The line is drawn with the cursor left at its beginning. A terminal that gets narrower and breaks the line then still
// has the cursor where the line begins, so that the next one clears all of it.

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "apps/ftx/cli/progress.h"
#include "apps/ftx/jobs/observer.h"

namespace sluice::ftx {

class Console final : public Observer {
 public:
  struct Options {
    enum class Form : std::uint8_t { text, json, nothing };
    enum class Detail : std::uint8_t { errors, usual, all };
    Form form = Form::text;
    Detail detail = Detail::usual;
    bool keeps_output = false;       // standard output is for files: all goes to standard error
    bool itemize = false;            // changes with how they differ, as `rsync -i` has it; else their names
    std::optional<bool> progress{};  // without it: as text, on a terminal, in the foreground
  };
  explicit Console(Options options);
  ~Console() override { clear_progress(); }

  void show(const Event& event) override;
  /// A line for --verbose.
  void note(std::string_view text) override;
  void warn(std::string_view text) override;
  [[nodiscard]] bool wants_files() const override {
    return options_.detail == Options::Detail::all && !options_.itemize;
  }
  /// Asks on the terminal, if there is one.
  [[nodiscard]] bool confirms(const std::string& server, const std::string& key,
                              const std::function<bool()>& turn) override;

 private:
  [[nodiscard]] std::FILE* out() const { return options_.keeps_output ? stderr : stdout; }
  void show_error(Event event);
  void print(const Event& event);
  void show_text(const Event& event);
  void show_session(const Event& event);
  void follow_progress(const Event& event);
  void draw_progress();
  void clear_progress();

  Options options_;
  bool draws_;
  Progress progress_;
  TimePoint drawn_at_ = TimePoint::min();
  bool drawn_ = false;
};

/// What a transfer will do with one name, of an event of kind change.
[[nodiscard]] std::string change_text(const Event& change, bool itemize);
/// What a transfer did, for its last line.
[[nodiscard]] std::string summary(const Event& done);

}  // namespace sluice::ftx
