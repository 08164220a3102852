// SPDX-License-Identifier: Apache-2.0
#pragma once

// Frames: datagrams in a byte stream, each behind its length (docs/formats/ftx-start.md, "Frames"). Sans-I/O.
//
// Threat: the other end of the pipe lies about lengths. A length is a 16-bit number, so that the buffer is there before
// anything has come and never grows; one that no datagram has ends the stream.
//
// Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "base/bytes.h"

namespace sluice::ftx {

inline constexpr std::size_t frame_header_bytes = 2;
inline constexpr std::size_t frame_datagram_bytes_min = envelope_bytes;
inline constexpr std::size_t frame_datagram_bytes_max = 65535;

/// Appends a frame to `out`; the datagram comes in two parts. REQUIRES: together they have a length that a frame can.
void append_frame(std::vector<std::byte>& out, ConstBytes header, ConstBytes payload);

/// Cuts a byte stream into datagrams.
class FrameReader {
 public:
  FrameReader();

  /// Where the next bytes of the stream go; never empty once next() has answered that it needs more.
  [[nodiscard]] Bytes room();
  /// So many have been put there. REQUIRES: count <= room().size(), as it was.
  void fed(std::size_t count);
  /// The next datagram, valid until room() is called; null: it needs more bytes, or the stream is broken.
  [[nodiscard]] std::optional<ConstBytes> next();

  /// A length came that no datagram has. Final.
  [[nodiscard]] bool broken() const { return broken_; }
  /// Whether the stream ended in the middle of a frame.
  [[nodiscard]] bool in_frame() const { return end_ > begin_; }

 private:
  std::vector<std::byte> buffer_;  // never grows
  std::size_t begin_ = 0;          // what has come and was not answered
  std::size_t end_ = 0;
  bool broken_ = false;
};

}  // namespace sluice::ftx
