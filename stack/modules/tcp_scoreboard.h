// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is under way: the segments that were sent and are not acknowledged, and which of them are lost. Losses are
// found by time (RACK, RFC 8985): what was sent well before something that has arrived since is lost. A peer without
// selective acknowledgement is watched as RFC 6582 has it: three acknowledgements in a row of the same place.
//
// Ownership: plain values. Threads: one.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/time.h"
#include "stack/modules/stream_position.h"

namespace sluice::tcp {

using namespace byte_stream;  // positions and buffers, which other transports have, too

class Scoreboard {
 public:
  /// RFC 5681 section 3.2: "the arrival of 3 duplicate ACKs"; RFC 8985 (DupThresh) takes as many.
  static constexpr std::size_t duplicates_max = 3;

  struct Sent {
    enum class State : std::uint8_t { under_way, arrived, lost };
    Range range;
    TimePoint at{};  // when it left last
    State state = State::under_way;
    bool again = false;  // it left more than once
  };
  /// What an acknowledgement has told.
  struct Progress {
    std::uint64_t bytes = 0;             // that were not known to have arrived
    std::optional<Duration> round_trip;  // of the last segment of those that left once, where that is certain
  };

  [[nodiscard]] bool empty() const { return sent_.empty(); }
  /// Bytes under way: sent, and neither arrived nor lost. (RFC 6675: pipe)
  [[nodiscard]] std::uint64_t bytes_under_way() const { return under_way_; }
  /// Bytes sent and not acknowledged. (RFC 5681: FlightSize)
  [[nodiscard]] std::uint64_t flight_bytes() const {
    return sent_.empty() ? 0 : sent_.back().range.end - sent_.front().range.begin;
  }
  [[nodiscard]] const Sent& front() const { return sent_.front(); }
  /// Segments that are lost and have not left again.
  [[nodiscard]] std::size_t lost_count() const { return lost_count_; }

  /// New bytes left. REQUIRES: they follow what was sent last.
  void sent(Range range, TimePoint now);
  /// What is lost and comes first; nothing where nothing is.
  [[nodiscard]] std::optional<Range> first_lost() const;
  /// `range` of what is lost left again: a segment, or its beginning. REQUIRES: a lost segment begins there.
  void sent_again(Range range, TimePoint now);
  /// As sent_again(), of what comes first, whatever became of it.
  void front_sent_again(Range range, TimePoint now);

  /// Everything before `position` has arrived, and the `runs` behind it.
  [[nodiscard]] Progress acknowledged(Position position, std::span<const Range> runs, TimePoint now);
  // By a peer without selective acknowledgement (RFC 6582):
  /// An acknowledgement of the same place as before. Whether that makes the first segment a lost one.
  bool duplicate();
  /// Loss recovery goes on behind what was acknowledged: the first segment is lost as well.
  void front_lost() { mark_lost(sent_.front()); }

  /// Finds what is lost by now. Until when nothing more will be; nothing: until something arrives. True through `lost`
  /// where there is something new.
  [[nodiscard]] std::optional<TimePoint> detect_losses(TimePoint now, Duration least_round_trip,
                                                       Duration smoothed_round_trip, bool recovering, bool& lost);
  /// RFC 6298, RFC 8985 section 6.3: nothing has come for too long; all that is under way is lost. RFC 2018 section 8:
  /// "The data sender MUST retransmit the segment at the left edge of the window after a retransmit timeout, whether or
  /// not the SACKed bit is on for that segment": where it is, the peer has dropped what it had, and all is lost.
  void all_lost();
  /// The path takes segments of up to `bytes`: what is larger did not get through.
  void lost_above(std::uint64_t bytes);

 private:
  /// The first segment that begins at `position` or behind it.
  [[nodiscard]] std::deque<Sent>::iterator first_from(Position position);
  void arrived(Sent& segment, TimePoint now, Progress& progress);
  void mark_lost(Sent& segment);
  [[nodiscard]] static bool later(TimePoint at, Position end, const Sent& segment) {
    return at > segment.at || (at == segment.at && end > segment.range.end);
  }

  std::deque<Sent> sent_;  // follow each other
  std::uint64_t under_way_ = 0;
  std::size_t arrived_count_ = 0;  // among sent_
  std::size_t again_count_ = 0;
  std::size_t lost_count_ = 0;
  std::size_t duplicates_ = 0;
  // RACK's: the segment that left last of those that have arrived.
  TimePoint newest_at_{};
  Position newest_end_ = 0;
  Duration newest_round_trip_{};
  Position highest_arrived_ = 0;
  bool reordering_seen_ = false;
};

}  // namespace sluice::tcp
