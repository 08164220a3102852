// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a connection has received and its user has not taken: in order up to next(), and behind gaps. Where segments
// overlap, what came first stays. RFC 9293 section 3.10.7.4: "In the following it is assumed that the segment is the
// idealized segment that begins at RCV.NXT and does not exceed the window. One could tailor actual segments to fit
// this assumption by trimming off any portions that lie outside the window".
//
// Threat: a peer may send single bytes with gaps between them. Pieces are bounded in number, and small ones are copied
// into blocks of their size, so that what is kept is bounded by what came, not by the buffers it came in.
//
// Ownership: owns the messages. Threads: one.

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <span>

#include "stack/core/message.h"
#include "stack/modules/stream_position.h"

namespace sluice::tcp {

using namespace byte_stream;  // positions and buffers, which other transports have, too

class ReceiveBuffer {
 public:
  static constexpr std::size_t pieces_max = 1024;  // behind gaps

  explicit ReceiveBuffer(Position next) : next_(next) {}

  /// Everything before it has come.
  [[nodiscard]] Position next() const { return next_; }
  /// In order, not taken yet.
  [[nodiscard]] std::size_t ready_bytes() const { return ready_bytes_; }
  [[nodiscard]] bool has_gap() const { return !held_.empty(); }

  /// Takes in data that begins at `at`. False when there is no memory, or no room for one piece more: some of it may
  /// be lost then, which the peer sends again. REQUIRES: not empty; nothing is owed to it.
  bool insert(Position at, Message data);
  /// What is in order, up to `bytes_max` of it unless memory is short; empty when there is nothing. REQUIRES:
  /// bytes_max > 0.
  [[nodiscard]] Message take(std::size_t bytes_max = SIZE_MAX);
  /// Counts a FIN, which has its place behind the last byte: what a peer has sent behind it is nothing.
  void pass_fin() {
    ++next_;
    held_.clear();
  }

  /// RFC 2018 section 4: "The first SACK block [...] MUST specify the contiguous block of data containing the segment
  /// which triggered this ACK"; "The SACK option SHOULD be filled out by repeating the most recently reported SACK
  /// blocks". The runs behind gaps, the one that came last first; how many there are.
  [[nodiscard]] std::size_t runs(std::span<Range> out) const;

 private:
  [[nodiscard]] bool hold(Position at, Message data);
  void advance();
  void add_ready(Message data);
  [[nodiscard]] bool gather(const Message& data);
  [[nodiscard]] Range run_around(Position at) const;
  void remember(Position at);

  std::map<Position, Message> held_;  // behind gaps; they do not overlap
  std::deque<Message> ready_;         // in order; none is empty
  std::size_t ready_bytes_ = 0;
  Position next_;
  std::array<Position, 4> recent_{};  // places in the runs that came last, the last one first
};

}  // namespace sluice::tcp
