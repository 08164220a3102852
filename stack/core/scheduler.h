// SPDX-License-Identifier: Apache-2.0
#pragma once

// The run loop of a stream set, without the waiting: the outside tells it the time with poll(now) and asks with
// next_deadline() how long it may wait. Nothing here reads a clock, so everything can be simulated and replayed.
//
// Threads: one scheduler, one thread. Ownership: timers and queues belong to modules and leave before they die.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"

namespace sluice {

class BufferPool;
class Queue;
class Scheduler;

/// Calls back once at a time. Owned by whoever wants to be called; cancelled when destroyed.
class Timer {
 public:
  Timer(Scheduler& scheduler, std::function<void()> callback);
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Fires in the first poll(now) with now >= at; timers with equal times fire in the order in which they were armed.
  /// An armed timer is moved. The callback may arm, cancel or destroy any timer but must not destroy its own.
  void arm(TimePoint at);
  void arm_after(Duration delay);
  void cancel();
  [[nodiscard]] bool armed() const { return position_ != unarmed; }
  [[nodiscard]] TimePoint at() const { return at_; }

 private:
  friend class Scheduler;
  static constexpr std::size_t unarmed = static_cast<std::size_t>(-1);

  Scheduler& scheduler_;
  std::function<void()> callback_;
  TimePoint at_ = never;
  std::uint64_t order_ = 0;         // among timers with the same time
  std::size_t position_ = unarmed;  // in the scheduler's heap
};

/// Calls back once when the pool has memory again, for a module that waits instead of dropping what it could not do
/// (bufcall, esbbcall, unbufcall). Owned by whoever wants to be called; cancelled when destroyed, so that a module that
/// has one as a member is never called once it has been popped.
class BufferCall {
 public:
  BufferCall(Scheduler& scheduler, const BufferPool& pool, std::function<void()> callback);
  ~BufferCall() { cancel(); }
  BufferCall(const BufferCall&) = delete;
  BufferCall& operator=(const BufferCall&) = delete;

  /// Calls in the first poll() in which the pool has a buffer of `capacity`, not before this call has returned; those
  /// who wait are called in the order in which they asked, each while there is still memory. The callback may then
  /// allocate, and wait again where others were faster; it may await, cancel or destroy any but must not destroy
  /// its own. False, and nothing is awaited, where the pool will never have such a buffer; where that comes out later,
  /// it calls as well. One request at a time: a second replaces the first. (bufcall)
  [[nodiscard]] bool await(std::size_t capacity);
  /// As await(), for what BufferPool::allocate_external() and borrow() need. (esbbcall)
  [[nodiscard]] bool await_external();
  /// (unbufcall)
  void cancel();
  [[nodiscard]] bool waiting() const { return waiting_; }

 private:
  friend class Scheduler;
  [[nodiscard]] bool await(std::size_t capacity, bool external, bool possible);
  [[nodiscard]] bool ready() const;

  Scheduler& scheduler_;
  const BufferPool& pool_;
  std::function<void()> callback_;
  std::size_t capacity_ = 0;
  bool external_ = false;
  bool waiting_ = false;
};

class Scheduler {
 public:
  /// What poll() does at most before it returns; what is left over makes next_deadline() answer now().
  static constexpr std::size_t services_per_poll_max = 4096;
  static constexpr std::size_t timers_per_poll_max = 4096;

  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// The time last told. Modules read this and nothing else.
  [[nodiscard]] TimePoint now() const { return now_; }

  /// Tells the time without running anything. Time never goes back: an earlier `now` counts as the last one.
  void advance(TimePoint now);

  /// Fires due timers, calls those whose memory has come (BufferCall), then runs service procedures until no queue is
  /// scheduled (or the bound is reached). Returns whether anything ran. Time never goes back: an earlier `now` counts
  /// as the last one.
  bool poll(TimePoint now, std::size_t services_max = services_per_poll_max);

  /// When poll() must be called next if nothing arrives before: now() when work is left, `never` when nothing is armed.
  [[nodiscard]] TimePoint next_deadline() const;

  /// Adds a queue to the run list. REQUIRES: it is not there. Called by Queue.
  void schedule(Queue& queue);
  /// Takes a queue off the run list if it is there.
  void unschedule(Queue& queue);

 private:
  friend class BufferCall;
  friend class Timer;
  [[nodiscard]] static bool before(const Timer& a, const Timer& b);
  void insert(Timer& timer);
  void remove(Timer& timer);
  void sift_up(std::size_t position);
  void sift_down(std::size_t position);
  void place(Timer* timer, std::size_t position);
  bool run_timers();
  [[nodiscard]] bool buffer_call_is_ready() const;
  bool run_buffer_calls();
  bool run_services(std::size_t services_max);

  TimePoint now_{};
  std::uint64_t armed_ = 0;  // timers armed so far
  Queue* first_ = nullptr;
  Queue* last_ = nullptr;
  std::vector<Timer*> heap_;               // a binary heap, earliest first
  std::vector<BufferCall*> buffer_calls_;  // those that wait, in the order in which they asked
};

}  // namespace sluice
