// SPDX-License-Identifier: Apache-2.0
#pragma once

// Progress: what the transfers of this process have done so far, and the one line that shows it:
//
//     there:data  42% [=======>          ]  420.0/1000.0 MiB   117.3 MiB/s   0:05 left  3/7 files  12 repaired
//
// While nobody knows how much will come, there is no share, no bar and no time left:
//
//     there:dump   420.0 MiB  117.3 MiB/s  12 repaired
//
// A narrow terminal gets less of it, the most useful part. Reads no clock and writes nowhere. Not thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "apps/ftx/session/event.h"
#include "base/time.h"

namespace sluice::ftx {

/// What a line shows.
struct ProgressState {
  std::string label{};  // any text
  std::uint64_t bytes = 0;
  std::uint64_t skipped_bytes = 0;  // which the receiver had already
  std::uint64_t total_bytes = 0;
  bool open_ended = false;  // more will come than total_bytes says
  std::uint64_t files_done = 0;
  std::uint64_t files = 0;
  std::uint64_t adus = 0;
  std::uint64_t repaired = 0;
  std::optional<double> rate{};  // bytes a second, smoothed; null: not known yet

  [[nodiscard]] std::uint64_t bytes_there() const { return bytes + skipped_bytes; }
  bool operator==(const ProgressState&) const = default;
};

/// One line of fewer than `columns` columns, so that no terminal wraps it, without control characters. Empty where not
/// even the share, or without one nothing, fits.
[[nodiscard]] std::string progress_line(const ProgressState& state, std::size_t columns);

class Progress {
 public:
  /// The rate follows what happened in about this time.
  static constexpr Duration smoothing_time = std::chrono::seconds(3);

  /// REQUIRES: `event` is of kind progress; `now` never goes back.
  void update(TimePoint now, const Event& event);
  /// The transfer of this connection is over.
  void end(std::uint64_t connection) { transfers_.erase(connection); }

  /// Of all transfers together: a server may have several, as many as it admits.
  [[nodiscard]] ProgressState state() const;
  [[nodiscard]] bool empty() const { return transfers_.empty(); }

 private:
  void sample(TimePoint now);

  std::map<std::uint64_t, ProgressState> transfers_;  // by connection
  std::uint64_t moved_bytes_ = 0;                     // since sampled_at_
  std::optional<TimePoint> sampled_at_;
  std::optional<double> rate_;
};

}  // namespace sluice::ftx
