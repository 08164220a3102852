// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who reads which stream, and when it is his turn: the part of the run loop that knows no clock and no descriptor.
//
// A program names the stream that it reads and a turn: a function that takes a bounded amount and returns whether more
// may be waiting. It gets a turn whenever something has happened in the stream set (so that it can also send what had
// to wait), and turn after turn as long as its last one did something or left the stream readable. So no program keeps
// a flag of its own for what it has left behind, and none can lose one.
//
// A turn that leaves a readable stream as it was has declined it, since what it would pass on has no room. It gets its
// next turn when something has happened, or after a while (see RunLoop): that is all that such a program costs.
//
// Threads: the stream set's.

#include <functional>
#include <memory>
#include <vector>

#include "stack/head/stream.h"

namespace sluice {

class StreamTurns {
 public:
  using Turn = std::function<bool()>;

  /// REQUIRES: nobody attends to `stream` yet.
  void attend(Stream& stream, Turn turn);
  /// From inside a turn, too. No effect when nobody attends to it.
  void unattend(const Stream& stream);

  /// Gives the turns that are due; `happened`: something has happened since the last call. Returns whether one of them
  /// did something, so that there must be another call before anybody sleeps. A turn that waits for something itself
  /// (a blocking call) must not be given another meanwhile: calls from inside one only note that something happened.
  bool serve(bool happened);
  /// Whether a stream was declined in the last serve().
  [[nodiscard]] bool declined() const { return declined_; }

 private:
  struct Attendance {
    Stream* stream;  // nullptr: ended
    Turn turn;
  };
  /// Whether the attendance's turn did something.
  bool give_turn(Attendance& attendance);

  std::vector<std::shared_ptr<Attendance>> attendances_;
  bool serving_ = false;
  bool due_ = false;  // for all, at the next serve()
  bool declined_ = false;
};

}  // namespace sluice
