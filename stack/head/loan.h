// SPDX-License-Identifier: Apache-2.0
#pragma once

// User memory that a message shows while a call that sends it lasts: how a fused path reads the user's bytes once,
// where they lie. The message has its memory from the start, with the room for headers that it would have on a layered
// path; what is deferred is the copy of its largest part (DeferredCopy, stack/core/plan.h). What is left of such copies
// when the loan ends, because a message waits somewhere below, is made then ("copy on queue"): the caller may use the
// memory again when the call returns. Queues copy through the message's plan (Queue::enqueue); the copy here is for
// modules that keep messages to themselves.
//
//     Loan loan = stream.loan();
//     Message data = loan.message(parts, headroom);
//     write_queue.put_next(std::move(data));
//
// On a layered path, and where parts are small, the message is a copy from the start.
//
// Ownership: a loan is a local variable of the call. Threads: the set's.

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "stack/core/message.h"
#include "stack/core/module.h"

namespace sluice {

class Loan {
 public:
  /// Smaller parts are copied at once: to defer that costs more.
  static constexpr std::size_t lent_bytes_min = 256;

  /// Messages of less than `defer_bytes_min` are copies on any path.
  Loan(BufferPool& pool, ProcessingMode mode, std::size_t defer_bytes_min)
      : pool_(pool), mode_(mode), defer_bytes_min_(defer_bytes_min) {}
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  /// A data message of `parts`, one after the other, with `headroom` spare bytes in front and `tail` at the end. Empty
  /// when the pool is exhausted.
  [[nodiscard]] Message message(std::span<const ConstBytes> parts, std::size_t headroom, std::size_t tail = 0);
  /// As message(), for many parts, small ones among them, as a segmented message has: on a fused path all of them are
  /// copied later. REQUIRES: the list of parts outlives the loan, too.
  [[nodiscard]] Message segmented(std::span<const ConstBytes> parts, std::size_t headroom);

 private:
  BufferPool& pool_;
  ProcessingMode mode_;
  std::size_t defer_bytes_min_;
  DeferredCopy* owed_ = nullptr;
};

}  // namespace sluice
