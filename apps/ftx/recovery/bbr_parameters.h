// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the parts of Bbr (bbr*.cc) have in common: the constants of the draft and of the deviations (bbr.h), and sums.

#include <chrono>
#include <cstdint>

#include "apps/ftx/recovery/congestion.h"

namespace sluice::ftx::bbr_parameters {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Section 2, "Terminology and definitions", gives these constants.
inline constexpr double startup_pacing_gain = 2.77;
inline constexpr double default_window_gain = 2;
inline constexpr double drain_pacing_gain = 0.5;
inline constexpr double down_pacing_gain = 0.90;
inline constexpr double up_pacing_gain = 1.25;
inline constexpr double up_window_gain = 2.25;
inline constexpr double pacing_margin = 0.99;  // BBR.PacingMarginPercent = 1
inline constexpr double loss_thresh = 0.02;
inline constexpr double beta = 0.7;
inline constexpr double headroom_part = 0.15;
inline constexpr double probe_rtt_window_gain = 0.5;
inline constexpr Duration probe_rtt_interval = seconds(5);
inline constexpr Duration probe_rtt_duration = milliseconds(200);
inline constexpr Duration min_rtt_filter = seconds(10);
inline constexpr std::uint64_t startup_full_loss_runs = 6;
inline constexpr std::uint64_t min_pipe_datagrams = 4;
inline constexpr std::uint64_t reno_rounds_max = 63;
inline constexpr std::uint64_t drain_rounds_max = 3;

inline constexpr std::uint64_t initial_datagrams = 256;              // deviation 5
inline constexpr Duration round_trip_unmeasured = milliseconds(20);  // for 1 ms

// Deviation 5: startup, while a queue is evident.
inline constexpr double braking_pacing_gain = 1.25;
inline constexpr double braking_window_gain = 1.5;

// Deviation 6: cruising while a queue is evident.
inline constexpr double crowded_pacing_gain = 0.95;
inline constexpr double crowded_window_gain = 1.15;

// Deviation 10: rounds between two steps down for loss.
inline constexpr std::uint64_t adapt_rounds = 16;

// Deviation 13. A queue that is still there after so many rounds of ProbeBW_DOWN is not that of the own probe.
inline constexpr std::uint64_t down_rounds_max = 16;
inline constexpr double share_used = 0.8;  // less than that delivered, and the rate was not used
inline constexpr int shrinking_part = 8;   // of a queue, gone within a round: it shrinks

// Deviation 1: when loss is congestion.
inline constexpr int startup_queue_evidence_part = 32;  // a queue grows by more than that between two reports
inline constexpr int queue_evidence_part = 8;           // of min_rtt
inline constexpr double blind_loss_threshold = 0.10;    // without evidence of a queue
inline constexpr double background_loss_max = 0.08;
inline constexpr std::uint64_t background_rounds = 16;   // what it remembers
inline constexpr std::uint64_t blind_datagrams_min = 8;  // losses fewer than this are no rate

// Deviation 9: a round trip this little above the least one matches it.
inline constexpr int matching_part = 64;  // of the least

// Deviation 4: a loaded machine gives a program the processor this much late.
inline constexpr Duration feedback_delay = milliseconds(10);

inline std::uint64_t bytes_in(std::uint64_t rate, Duration span) {
  return static_cast<std::uint64_t>(static_cast<double>(rate) * static_cast<double>(span.count()) / 1e9);
}

inline std::uint64_t part(double factor, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(factor * static_cast<double>(bytes));
}

/// (RS.delivered) without what came while the report waited.
inline std::uint64_t delivered_in_round_trip(const Delivery& delivery) {
  return bytes_in(delivery.rate.value_or(0), delivery.round_trip);
}

inline double ratio(std::uint64_t bytes, std::uint64_t of) {
  return of == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(of);
}

}  // namespace sluice::ftx::bbr_parameters
