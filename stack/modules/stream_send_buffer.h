// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a connection has been given to send and its peer has not acknowledged yet: the user's blocks, which segments
// show and never copy. Small writes are gathered (stream_gathering.h).
//
// Ownership: owns the messages. Threads: one.

#include <cstddef>
#include <deque>

#include "stack/core/known_sums.h"
#include "stack/core/message.h"
#include "stack/modules/stream_position.h"

namespace sluice::byte_stream {

class SendBuffer {
 public:
  explicit SendBuffer(Position first) : begin_(first), end_(first) {}

  [[nodiscard]] Position begin() const { return begin_; }
  [[nodiscard]] Position end() const { return end_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }

  /// The stretches of data that is added behind `waiting` bytes more, if the next piece to leave begins at `next` and
  /// pieces have `each` bytes. REQUIRES: next <= end(), each > 0.
  [[nodiscard]] Stretches stretches(Position next, std::size_t waiting, std::size_t each) const {
    return {.first = each - (static_cast<std::size_t>(end_ - next) + waiting) % each, .each = each};
  }
  /// Adds data at the end. REQUIRES: M_DATA to which nothing is owed, of the pool's memory.
  void append(Message data);
  /// Forgets what lies before `position`. REQUIRES: begin() <= position <= end().
  void release_to(Position position);
  /// A message that shows `range`; empty when the pool is exhausted. REQUIRES: the range is not empty, and between
  /// begin() and end().
  [[nodiscard]] Message show(Range range);
  void clear();

 private:
  struct Piece {
    Position at;
    Message data;  // of one block
    [[nodiscard]] Position end() const { return at + data.size(); }
  };
  [[nodiscard]] bool gather(const Message& data);

  std::deque<Piece> pieces_;  // follow each other
  Position begin_;
  Position end_;
};

}  // namespace sluice::byte_stream
