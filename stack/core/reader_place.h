// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory where a reader waits for the next bytes of a stream. A transport must verify data before it acknowledges
// it, and so loads each byte before anybody reads it. Where the reader's memory is known by then, the pass that
// verifies can end there:
//
//     the reader's memory    | passed up | waiting() | room() ...... |
//                            '------ filled() -------'
//
// The transport passes up messages that show parts of this memory, like any others: modules see the bytes in order, and
// the reader finds them where he would have copied them to. close() moves what messages still show to memory of their
// own; so the reader may close the place at any time, wherever those messages are.
//
// Ownership: the chain's; the memory is the reader's. Threads: the set's.

#include <cstddef>
#include <vector>

#include "stack/core/message.h"

namespace sluice {

class ReaderPlace {
 public:
  static constexpr std::size_t small_bytes_max = 512;
  static constexpr std::size_t small_shown_max = 64;

  explicit ReaderPlace(BufferPool& pool) : pool_(pool) {}
  ~ReaderPlace() { close(); }
  ReaderPlace(const ReaderPlace&) = delete;
  ReaderPlace& operator=(const ReaderPlace&) = delete;

  /// The reader waits for the next bytes, to be put from the start of `place` on. REQUIRES: nothing is left for him to
  /// read; the place stays valid, and he does not use it, until close().
  void open(Bytes place);
  /// Ends the wait: the memory is the reader's again. Without effect where none is open.
  void close();

  /// Where the next bytes go; empty while nobody waits.
  [[nodiscard]] Bytes room() const { return place_.subspan(filled_); }
  /// Takes the first `size` bytes of the room, as a message that shows them, for the caller to fill. Empty when the
  /// pool is exhausted. REQUIRES: size <= room().size().
  [[nodiscard]] Message take_room(std::size_t size);
  /// As take_room(), if that is worth it: empty where there is less room, and for small data, which is cheaper to copy,
  /// unless it comes behind other data here, whose room it would end, and few such messages are shown.
  [[nodiscard]] Message take_room_for(std::size_t size);
  /// Tells the place that `message` goes up; answers whether its data begins with the bytes that wait here first. Data
  /// that lies elsewhere ends the room: whatever follows it belongs behind it, and not here.
  bool pass(const Message& message);
  /// What follows belongs elsewhere, though there may be room: a data unit has ended.
  void end_room() { place_ = place_.first(filled_); }
  /// How many bytes of the place have been taken.
  [[nodiscard]] std::size_t filled() const { return filled_; }
  /// How many of them have not been passed up.
  [[nodiscard]] std::size_t waiting() const { return filled_ - passed_; }

 private:
  static void given_back(void* self, ConstBytes memory);

  BufferPool& pool_;
  Bytes place_;
  std::size_t filled_ = 0;
  std::size_t passed_ = 0;
  std::vector<Block*> shown_;  // in the order of their places
};

}  // namespace sluice
