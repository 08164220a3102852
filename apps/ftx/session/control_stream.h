// SPDX-License-Identifier: Apache-2.0
#pragma once

// ControlStream: both directions of bytes, in order and without gaps, over datagrams that may be lost, doubled and
// overtake each other. It carries the TLS handshake of a session (docs/formats/ftx.md, "Handshake"), about 1 KiB each
// way, before the session has keys. Sans-I/O.
//
// Each segment says where its bytes begin and how many of the other direction have arrived in order. A segment with
// bytes is always acknowledged, at once; one without never is. What is not acknowledged is sent again from there, after
// doubling intervals. A segment that comes too early is dropped: a flight is one segment or two, so little would be
// gained by keeping it.
//
// Threat: a peer that sends without end, never acknowledges, or acknowledges byte by byte so that everything is sent
// again and again: bytes_max each way, datagrams_max, and the handshake that uses the stream has a time limit.
//
// Not thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "base/bytes.h"
#include "base/time.h"

namespace sluice::ftx {

class ControlStream {
 public:
  static constexpr std::size_t segment_bytes_max = control_bytes_max - control_header_bytes;
  /// Each way, all together.
  static constexpr std::size_t bytes_max = std::size_t{16} << 10;
  /// What one end ever sends, acknowledgements too.
  static constexpr std::size_t datagrams_max = 128;
  static constexpr Duration interval_max = std::chrono::milliseconds(500);

  /// `interval`: until the first segment is sent again.
  explicit ControlStream(Duration interval = std::chrono::milliseconds(250))
      : interval_first_(interval), interval_(interval) {}

  /// Appends to what is sent. False: more than bytes_max, and nothing is taken.
  [[nodiscard]] bool send(ConstBytes bytes);
  /// False: the segment was of no use: out of order, doubled, or acknowledges what was never sent.
  bool receive(TimePoint now, const Control& control);
  /// What has arrived since the last call, in order. Empty: nothing.
  [[nodiscard]] std::vector<std::byte> take_received();

  /// The next segment to send now, without cookie and cipher; its bytes are valid until the next call.
  [[nodiscard]] std::optional<Control> next(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Nothing that was sent is without an acknowledgement.
  [[nodiscard]] bool all_acknowledged() const { return acknowledged_ == out_.size(); }
  /// It has sent datagrams_max and sends no more.
  [[nodiscard]] bool exhausted() const { return datagrams_ == datagrams_max; }
  [[nodiscard]] std::size_t received() const { return received_; }

 private:
  Duration interval_first_;
  Duration interval_;
  TimePoint repeat_at_ = never;
  std::vector<std::byte> out_;
  std::size_t acknowledged_ = 0;  // of out_
  std::size_t sent_ = 0;          // of out_, since the last time it went back
  std::vector<std::byte> in_;     // not taken yet
  std::size_t received_ = 0;
  std::size_t datagrams_ = 0;
  bool acknowledgement_due_ = false;
};

}  // namespace sluice::ftx
