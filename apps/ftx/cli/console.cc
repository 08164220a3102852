// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "apps/ftx/cli/screen_text.h"

namespace sluice::ftx {
namespace {

/// At most so often, however many transfers report.
constexpr Duration draw_interval = std::chrono::milliseconds(200);

TimePoint clock_now() { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }

bool terminal_can_clear() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

/// Of a terminal that is another job's now, the line would lie in the middle of that one's output.
bool in_background() {
  const pid_t foreground = ::tcgetpgrp(STDERR_FILENO);
  return foreground >= 0 && foreground != ::getpgrp();
}

/// Asked each time: a window may be resized.
std::size_t terminal_columns() {
  constexpr std::size_t usual = 80, columns_max = 1000;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::min<std::size_t>(known ? size.ws_col : usual, columns_max);
}

/// A stack file may have several faults, each with a line of its own.
void print_lines(std::string_view text) {
  std::string_view prefix = "ftx: ";
  for (std::size_t end = 0; end != std::string_view::npos; prefix = "") {
    end = text.find('\n');
    fmt::print(stderr, "{}{}\n", prefix, terminal_text(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace

Console::Console(Options options)
    : options_(options),
      draws_(options.progress.value_or(options.form == Options::Form::text &&
                                       options.detail != Options::Detail::errors && terminal_can_clear())) {}

void Console::show(const Event& event) {
  if (draws_) {
    follow_progress(event);
  }
  if (event.kind == Event::Kind::error) {
    return show_error(event);
  }
  print(event);
}

void Console::show_error(Event event) {
  event.text = with_remedy(event.code, event.text);
  print(event);
}

void Console::print(const Event& event) {
  if (event.kind == Event::Kind::file && !wants_files()) {
    return;
  }
  if (options_.form == Options::Form::json) {
    fmt::print(out(), "{}\n", to_json(event));
    std::fflush(out());
  } else if (options_.form == Options::Form::text) {
    show_text(event);
  }
}

void Console::note(std::string_view text) {
  if (options_.form == Options::Form::text && options_.detail == Options::Detail::all) {
    clear_progress();
    print_lines(text);
  }
}

void Console::warn(std::string_view text) {
  clear_progress();
  print_lines(text);
}

bool Console::confirms(const std::string& server, const std::string& key, const std::function<bool()>& turn) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) {
    return false;
  }
  clear_progress();
  fmt::print(stderr,
             "ftx: {} is not known yet. Its key is\n  {}\nas `ftx key` prints it there. Is that right (yes/no)? ",
             server, key);
  std::fflush(stderr);
  for (pollfd input{STDIN_FILENO, POLLIN, 0}; ::poll(&input, 1, 0) <= 0;) {
    if (!turn()) {
      return false;
    }
  }
  char answer[8] = {};
  return std::fgets(answer, sizeof answer, stdin) != nullptr && std::strcmp(answer, "yes\n") == 0;
}

void Console::show_text(const Event& event) {
  if (event.kind == Event::Kind::error) {
    clear_progress();
    print_lines(event.text);
  }
  if (options_.detail == Options::Detail::errors || event.kind == Event::Kind::error ||
      event.kind == Event::Kind::progress || event.kind == Event::Kind::repair) {
    return;
  }
  clear_progress();
  switch (event.kind) {
    case Event::Kind::listening:
      fmt::print(out(), "ftx: listening on {}{}{}\n", event.path, event.text.empty() ? "" : ", key ", event.text);
      break;
    case Event::Kind::rejected:
      fmt::print(stderr, "ftx: a client did not get in: {}\n", terminal_text(event.text));
      break;
    case Event::Kind::fallback:
    case Event::Kind::left_out:
      fmt::print(stderr, "ftx: {}\n", terminal_text(event.text));
      break;
    case Event::Kind::unconfined:
      note("confined less than it could be: " + event.text);
      break;
    case Event::Kind::file:
      fmt::print(out(), "{}\n", terminal_text(event.path));
      break;
    case Event::Kind::change:
      fmt::print(out(), "{}\n", change_text(event, options_.itemize));
      break;
    case Event::Kind::done:
      fmt::print(out(), "{}\n", summary(event));
      [[fallthrough]];
    case Event::Kind::offer:
      if (options_.detail == Options::Detail::all) {
        show_session(event);
      }
      break;
    default:
      break;
  }
  std::fflush(out());
}

/// What is known of the session when it begins and when it ends.
void Console::show_session(const Event& event) {
  std::string facts;
  const auto add = [&facts](const std::string& fact) { facts += (facts.empty() ? "" : ", ") + fact; };
  if (event.kind == Event::Kind::offer) {
    add(fmt::format("{}, cipher {}", event.address, event.cipher));
    if (!event.congestion.empty()) {
      add("congestion control " + event.congestion);
    }
  } else if (event.datagram_bytes > 0) {
    add(fmt::format("datagrams of {} bytes", event.datagram_bytes));
    if (event.path_mtu > 0) {
      add(fmt::format("path MTU {}", event.path_mtu));
    }
  }
  if (!facts.empty()) {
    fmt::print(out(), "session: {}\n", facts);
  }
}

void Console::follow_progress(const Event& event) {
  switch (event.kind) {
    case Event::Kind::progress:
      progress_.update(clock_now(), event);
      return draw_progress();
    case Event::Kind::done:
    case Event::Kind::error:
    case Event::Kind::fallback:
      progress_.end(event.connection);
      break;
    default:
      break;
  }
  if (progress_.empty()) {
    clear_progress();
  }
}

void Console::draw_progress() {
  const TimePoint now = clock_now();
  if (drawn_at_ != TimePoint::min() && now - drawn_at_ < draw_interval) {
    return;
  }
  if (in_background()) {
    return;
  }
  // Erase in Display behind the line: what was longer, and the rows into which it was broken.
  fmt::print(stderr, "\r{}\033[J\r", progress_line(progress_.state(), terminal_columns()));
  drawn_at_ = now;
  drawn_ = true;
}

void Console::clear_progress() {
  if (drawn_) {
    fmt::print(stderr, "\r\033[J");
    drawn_ = false;
  }
}

std::string change_text(const Event& change, bool itemize) {
  const bool removed = change.item.starts_with('*');
  const std::string_view arrow = change.item.starts_with('h') ? " => " : " -> ";
  const std::string target = change.target.empty() ? "" : fmt::format("{}{}", arrow, terminal_text(change.target));
  const std::string_view before = removed ? "deleting " : "";
  return fmt::format("{}{}{}", itemize ? change.item + " " : before, terminal_text(change.path), target);
}

std::string summary(const Event& done) {
  if (done.dry_run) {
    return fmt::format("{}  {} {}: a dry run, nothing was sent or changed", terminal_text(done.path), done.files,
                       done.files == 1 ? "file" : "files");
  }
  std::string text =
      fmt::format("{}  {} {}, {} in {}", terminal_text(done.path), done.files, done.files == 1 ? "file" : "files",
                  bytes_text(static_cast<double>(done.bytes)),
                  done.seconds < 60 ? fmt::format("{:.1f} s", done.seconds) : duration_text(done.seconds));
  if (done.seconds > 0 && done.bytes > 0) {
    text += fmt::format(", {}/s", bytes_text(static_cast<double>(done.bytes) / done.seconds));
  }
  if (done.repaired > 0) {
    text += fmt::format(", {} of {} datagrams repaired", done.repaired, done.adus);
  }
  if (done.skipped_files > 0) {
    text += fmt::format(", {} of the files unchanged", done.skipped_files);
  } else if (done.skipped_bytes > 0) {
    text += fmt::format(", {} were there", bytes_text(static_cast<double>(done.skipped_bytes)));
  }
  return text;
}

}  // namespace sluice::ftx
