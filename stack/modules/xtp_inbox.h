// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an association of `xtp` has received and its user has not taken: in order up to next(), and behind gaps. Where
// packets overlap, what came first stays. Boundaries of messages are kept.
//
// Threat: a peer may send single bytes, with gaps between them, each a message. Pieces are bounded in number, and small
// ones are copied into blocks of their size or behind each other, so that what is kept is bounded by what came, not by
// the buffers it came in.
//
// Ownership: owns the messages. Threads: one.

#include <cstddef>
#include <deque>
#include <map>
#include <span>

#include "stack/core/message.h"
#include "stack/modules/stream_position.h"
#include "stack/wire/xtp.h"

namespace sluice::xtp {

using byte_stream::Position;
using byte_stream::Range;

class Inbox {
 public:
  static constexpr std::size_t held_pieces_max = 1024;  ///< behind gaps
  static constexpr std::size_t ready_pieces_max = 4096;
  static constexpr std::size_t piece_bytes_max = std::size_t{64} * 1024;

  /// Data in order. The message that it is part of ends with it, or goes on.
  struct Piece {
    Message data;
    bool ends_message = false;
  };

  explicit Inbox(Position next) : next_(next) {}

  /// Everything before it has come, or will never come.
  [[nodiscard]] Position next() const { return next_; }
  /// In order, not taken yet.
  [[nodiscard]] std::size_t ready_bytes() const { return ready_bytes_; }
  /// Where that begins.
  [[nodiscard]] Position taken() const { return next_ - ready_bytes_; }
  /// Nothing has come from there on.
  [[nodiscard]] Position end() const {
    return held_.empty() ? next_ : held_.rbegin()->first + held_.rbegin()->second.data.data_size();
  }
  [[nodiscard]] bool has_gap() const { return !held_.empty(); }
  [[nodiscard]] bool has_ready() const { return !ready_.empty(); }
  /// A message ends with what is in order.
  [[nodiscard]] bool ends_message() const { return !ready_.empty() && ready_.back().ends_message; }
  /// No further piece is taken.
  [[nodiscard]] bool is_full() const { return ready_.size() >= ready_pieces_max; }

  /// Takes in data that begins at `at`, or the part of it up to the next that is held; the rest counts as lost. False
  /// when there is no room for one piece more, or no memory. REQUIRES: not empty; nothing is owed to it.
  bool insert(Position at, Message data, bool ends_message);
  /// What lacks before `position` will never come. REQUIRES: nothing is held.
  void skip_to(Position position);
  /// The next piece that is in order. REQUIRES: has_ready().
  [[nodiscard]] Piece take();

  /// The runs behind gaps, the first ones first; how many were written.
  [[nodiscard]] std::size_t spans(std::span<wire::XtpSpan> out) const;

 private:
  void advance();
  [[nodiscard]] bool add_ready(Piece piece);

  std::map<Position, Piece> held_;  // behind gaps; they do not overlap
  std::deque<Piece> ready_;
  std::size_t ready_bytes_ = 0;
  Position next_;
};

}  // namespace sluice::xtp
