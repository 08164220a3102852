// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/ftx/cli/screen_text.h"

namespace sluice::ftx {
namespace {

/// Inside of the brackets.
constexpr std::size_t bar_columns_min = 4, bar_columns_usual = 20, bar_columns_max = 40;
constexpr std::size_t label_columns_min = 12, label_columns_max = 60;
/// From here on the line says which share was repaired.
constexpr std::size_t share_columns = 100;

double share_of(const ProgressState& state) {
  const double share =
      state.total_bytes == 0 ? 1 : static_cast<double>(state.bytes_there()) / static_cast<double>(state.total_bytes);
  return std::min(share, 1.0);
}

std::string bar(double share, std::size_t columns) {
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(columns));
  std::string text(columns, ' ');
  std::fill_n(text.begin(), filled, '=');
  if (filled < columns) {
    text[filled] = '>';
  }
  return fmt::format(" [{}]", text);
}

std::string time_left(const ProgressState& state) {
  constexpr double seconds_max = 99.0 * 3600;
  const double left = static_cast<double>(state.total_bytes - std::min(state.bytes_there(), state.total_bytes));
  const bool known = state.rate && *state.rate * seconds_max > left;
  return fmt::format("{:>5} left", known ? duration_text(left / *state.rate) : "-:--");
}

std::string repairs(const ProgressState& state, bool with_share) {
  if (state.repaired == 0) {
    return {};
  }
  const double share =
      100.0 * static_cast<double>(state.repaired) / static_cast<double>(std::max(state.adus, state.repaired));
  return fmt::format("  {} repaired", state.repaired) + (with_share ? fmt::format(" ({:.1f}%)", share) : "");
}

}  // namespace

std::string progress_line(const ProgressState& state, std::size_t columns) {
  const double share = share_of(state);
  const std::string percent = state.open_ended ? "" : fmt::format("{:3.0f}%", std::floor(share * 100));
  if (columns <= percent.size()) {
    return {};
  }
  std::size_t left = columns - 1 - percent.size();
  enum : std::size_t { bytes, rate, eta, files, repaired, fields };
  // Rate and time are padded, so that the line keeps still; one blank is enough before them.
  std::array<std::string, fields> text{
      "  " + (state.open_ended ? bytes_text(static_cast<double>(state.bytes_there()))
                               : bytes_text(state.bytes_there(), state.total_bytes)),
      " " + rate_text(state.rate.value_or(0)), state.open_ended ? "" : " " + time_left(state),
      state.files > 1 ? fmt::format("  {}/{} files", state.files_done, state.files) : "",
      repairs(state, columns >= share_columns)};
  constexpr std::size_t brackets = 3;  // and the blank before them
  std::size_t bar_columns = 0;
  for (const std::size_t field : {rate, eta, fields, bytes, repaired, files}) {
    if (field == fields) {  // the bar's turn
      bar_columns = left >= bar_columns_min + brackets && !state.open_ended ? bar_columns_min : 0;
      left -= bar_columns > 0 ? bar_columns + brackets : 0;
      continue;
    }
    if (text[field].size() > left) {
      text[field].clear();
    }
    left -= text[field].size();
  }
  const auto widen_bar = [&](std::size_t most) {
    const std::size_t more = bar_columns > 0 ? std::min(left, most - bar_columns) : 0;
    bar_columns += more;
    left -= more;
  };
  widen_bar(bar_columns_usual);
  std::string label = terminal_text(state.label);
  const std::size_t label_columns = std::min(columns_of(label), label_columns_max) + 1;  // and a blank
  if (label.empty() || left < std::min(label_columns, label_columns_min)) {
    label.clear();
  } else {
    label = fitted(label, std::min(left, label_columns) - 1) + ' ';
    left -= columns_of(label);
  }
  widen_bar(bar_columns_max);
  std::string line = label + percent + (bar_columns > 0 ? bar(share, bar_columns) : "");
  for (const std::string& field : text) {
    line += field;
  }
  return line;
}

void Progress::update(TimePoint now, const Event& event) {
  const auto [entry, fresh] = transfers_.try_emplace(event.connection);
  ProgressState& transfer = entry->second;
  // A transfer that has just begun to be watched has not moved all of that since the last sample.
  moved_bytes_ += fresh ? 0 : event.bytes - std::min(transfer.bytes, event.bytes);
  transfer = {.label = event.path,
              .bytes = event.bytes,
              .skipped_bytes = event.skipped_bytes,
              .total_bytes = event.total_bytes,
              .open_ended = event.open_ended,
              .files_done = event.files_done,
              .files = event.files,
              .adus = event.adus,
              .repaired = event.repaired};
  if (!rate_ && event.seconds > 0) {
    rate_ = static_cast<double>(event.bytes) / event.seconds;
  }
  sample(now);
}

/// An exponentially weighted mean over time, whatever the intervals.
void Progress::sample(TimePoint now) {
  constexpr Duration interval_min = std::chrono::milliseconds(200);
  if (!sampled_at_) {
    sampled_at_ = now;
  }
  const Duration passed = now - *sampled_at_;
  if (passed < interval_min) {
    return;
  }
  const double seconds = std::chrono::duration<double>(passed).count();
  const double rate = static_cast<double>(moved_bytes_) / seconds;
  const double weight = 1 - std::exp(-seconds / std::chrono::duration<double>(smoothing_time).count());
  rate_ = rate_ ? *rate_ + weight * (rate - *rate_) : rate;
  sampled_at_ = now;
  moved_bytes_ = 0;
}

ProgressState Progress::state() const {
  ProgressState all;
  for (const auto& [connection, transfer] : transfers_) {
    all.bytes += transfer.bytes;
    all.skipped_bytes += transfer.skipped_bytes;
    all.total_bytes += transfer.total_bytes;
    all.open_ended |= transfer.open_ended;
    all.files_done += transfer.files_done;
    all.files += transfer.files;
    all.adus += transfer.adus;
    all.repaired += transfer.repaired;
    all.label = transfer.label;
  }
  if (transfers_.size() > 1) {
    all.label = fmt::format("{} transfers", transfers_.size());
  }
  all.rate = rate_;
  return all;
}

}  // namespace sluice::ftx
