// SPDX-License-Identifier: Apache-2.0
#pragma once

// One direction of a link in memory that two processes share: frames of any size, one behind the other, in a ring of
// bytes. One process writes, the other reads.
//
//        taken ▼              written ▼                 positions count bytes and never wrap
//     ┌────────┬────────┬─────────────┬───────────┐
//     │  free  │ size │ frame │ size │ frame │ free│     a frame: 8 bytes, its size first, then itself, padded to 8
//     └────────┴────────┴─────────────┴───────────┘
//
// Threat: the other process may write anything to all of it, at any time. So each side keeps its own position to
// itself and only tells it; what the other side tells, and the size of a frame, is read once and checked; a frame is
// copied once, and nobody looks at it where it lies. A side that breaks the rules is found out (Broken), and can have
// spoilt nothing but the frames of its own direction. tests/dlpi/shared_ring_test.cc attacks each word.
//
// Ownership: borrows the memory. Threads: one for each end.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "stack/core/message.h"

namespace sluice::dlpi {

/// The words of one direction, each on its cache line. In shared memory, zero at first.
struct SharedRingWords {
  alignas(cache_line_bytes) std::atomic<std::uint64_t> written;       // told by the writer
  alignas(cache_line_bytes) std::atomic<std::uint64_t> taken;         // told by the reader
  alignas(cache_line_bytes) std::atomic<std::uint32_t> writer_waits;  // set by the writer, cleared by the reader
  alignas(cache_line_bytes) std::atomic<std::uint32_t> reader_waits;  // set by the reader, cleared by the writer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// What both sides know of a ring. REQUIRES: the bytes are a multiple of 8, and shared like the words.
struct SharedRing {
  static constexpr std::size_t header_bytes = 8;

  SharedRingWords* words;
  Bytes bytes;

  [[nodiscard]] static constexpr std::size_t record_bytes(std::size_t frame_bytes) {
    return header_bytes + (frame_bytes + 7) / 8 * 8;
  }
};

class SharedRingWriter {
 public:
  enum class Result : std::uint8_t { written, no_room, broken };

  explicit SharedRingWriter(const SharedRing& ring) : ring_(ring) {}
  /// Copies a frame into the ring, if there is room. The reader sees it after publish(). REQUIRES: the frame's bytes
  /// are real, and an empty ring has room for it.
  [[nodiscard]] Result write(const Message& frame);
  /// Shows what was written; whether the reader waits for it.
  [[nodiscard]] bool publish();
  /// From now on the reader is to say when it has made room.
  void wait() { ring_.words->writer_waits.store(1, std::memory_order_seq_cst); }

 private:
  void put(ConstBytes bytes);

  SharedRing ring_;
  std::uint64_t written_ = 0;
  std::uint64_t taken_ = 0;  // as it was last told
};

class SharedRingReader {
 public:
  enum class Next : std::uint8_t { frame, nothing, broken };

  /// Frames have `frame_bytes_max` bytes at most.
  SharedRingReader(const SharedRing& ring, std::size_t frame_bytes_max)
      : ring_(ring), frame_bytes_max_(frame_bytes_max) {}
  /// Looks for the next frame, whose size frame_bytes() tells.
  [[nodiscard]] Next next();
  [[nodiscard]] std::size_t frame_bytes() const { return frame_bytes_; }
  /// Copies that frame out. REQUIRES: next() has found one; `out` has its size.
  void copy(Bytes out) const;
  /// It is done with. REQUIRES: next() has found one.
  void skip() { taken_ += SharedRing::record_bytes(frame_bytes_); }
  /// Gives the room back; whether the writer waits for it.
  [[nodiscard]] bool publish();
  /// From now on the writer is to say when there is a frame. What he wrote before he may not say.
  void wait() { ring_.words->reader_waits.store(1, std::memory_order_seq_cst); }

 private:
  SharedRing ring_;
  std::size_t frame_bytes_max_;
  std::size_t frame_bytes_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t written_ = 0;  // as it was last told
};

}  // namespace sluice::dlpi
