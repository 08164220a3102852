// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace sluice::ftx {
namespace {

std::string human_bytes(double bytes) {
  static constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

}  // namespace

Console::Console(Form form, Side side) : form_(form), side_(side), terminal_(::isatty(STDERR_FILENO) != 0) {}

void Console::show(const Event& event) {
  if (form_ == Form::json) {
    fmt::print("{}\n", to_json(event));
    std::fflush(stdout);
  } else if (form_ == Form::text) {
    show_text(event);
  }
}

ExitCode Console::fail(const Failure& failure) {
  Event event;
  event.kind = Event::Kind::error;
  event.code = failure.code;
  event.text = failure.text;
  show(event);
  return failure.code;
}

void Console::show_text(const Event& event) {
  if (event.kind == Event::Kind::progress) {
    return show_progress(event);
  }
  clear_progress();
  switch (event.kind) {
    case Event::Kind::listening:
      fmt::print("ftx: listening on {}{}{}\n", event.path, event.text.empty() ? "" : ", key ", event.text);
      break;
    case Event::Kind::rejected:
      fmt::print(stderr, "ftx: a client did not get in: {}\n", event.text);
      break;
    case Event::Kind::fallback:
    case Event::Kind::left_out:
    case Event::Kind::error:
      fmt::print(stderr, "ftx: {}\n", event.text);
      break;
    case Event::Kind::done:
      fmt::print("{}: {} in {:.3f} s ({}/s), {} ADUs, {} {}, {} out of order{}\n", event.path,
                 human_bytes(static_cast<double>(event.bytes)), event.seconds,
                 human_bytes(static_cast<double>(event.bytes) / (event.seconds > 0 ? event.seconds : 1e-9)), event.adus,
                 event.repaired, event.sent || side_ == Side::sender ? "sent again" : "repaired", event.out_of_order,
                 event.skipped_files > 0 ? fmt::format(", {} files unchanged", event.skipped_files) : "");
      break;
    default:
      break;
  }
  std::fflush(stdout);
}

void Console::show_progress(const Event& event) {
  if (!terminal_) {
    return;
  }
  const std::uint64_t there = event.bytes + event.skipped_bytes;
  const double share =
      event.total_bytes == 0 ? 100 : 100.0 * static_cast<double>(there) / static_cast<double>(event.total_bytes);
  const double rate = event.seconds > 0 ? static_cast<double>(event.bytes) / event.seconds : 0;
  const double left_s = rate > 0 ? static_cast<double>(event.total_bytes - there) / rate : 0;
  fmt::print(stderr, "\r\033[K{:5.1f} %  {}/s  {:.0f} s left  {} repaired", share, human_bytes(rate), left_s,
             event.repaired);
  std::fflush(stderr);
  progress_shown_ = true;
}

void Console::clear_progress() {
  if (progress_shown_) {
    fmt::print(stderr, "\r\033[K");
    progress_shown_ = false;
  }
}

}  // namespace sluice::ftx
