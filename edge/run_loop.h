// SPDX-License-Identifier: Apache-2.0
#pragma once

// The run loop of a real program: sleeps until an event source of its stream set is ready, a timer is due, a signal has
// come or a descriptor of the program's own is readable, and lets the set work.
//
//     auto loop = RunLoop::open(set);
//     (*loop)->attend(*stream, [&] { return take_some(*stream); });
//     (*loop)->on_signal(SIGINT, [&] { (*loop)->stop(); });
//     (*loop)->run_until([&] { return transfer.finished(); });
//
// One round serves every ready source once (a source takes a bounded burst), then calls Scheduler::poll() once, then
// gives those who attend to streams a turn each; so nobody starves anybody. A source that says that more is waiting is
// tried again in the next round without asking the kernel; readiness is asked for again only before the loop sleeps,
// and once every `rounds_between_collections_max` busy rounds.
//
// Nothing spins: readiness that outlives its source's turns (an error that nobody reads, a hangup, data that the source
// does not take) is not waited for without pause. After some wakes in a row the loop takes the pending error of a
// socket itself, and where that does not help it leaves the descriptor alone for growing times. A source that has taken
// what there was and keeps the descriptor readable all the same says so (EventSource::keeps_readable), and is never
// left alone for that.
//
// Watching: the loop follows the set's list of sources by its version. A source may leave the set, and close its
// descriptor then, at any time, from inside its own hook, too. The loop never closes a descriptor. REQUIRES: a
// descriptor that is closed before the loop's next round has no duplicates (the kernel would go on watching through
// them).
//
// Threads: a loop belongs to the thread of its stream set; only stop() may be called from others. Two loops share
// nothing but signals, which go to every loop that asked for them. REQUIRES: the set outlives the loop.

#include <cstddef>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "edge/stream_turns.h"
#include "stack/core/stream_set.h"

namespace sluice {

class RunLoop final : public Waiter {
 public:
  static constexpr std::size_t rounds_between_collections_max = 16;
  /// How long the loop sleeps at most while there is a source that the kernel cannot watch, or a stream that was
  /// declined.
  static constexpr Duration unwatched_poll_interval = std::chrono::milliseconds(10);
  /// How long a descriptor is left alone at most that stays ready although its source takes nothing from it; and one
  /// that has nothing but an error or a hangup to tell.
  static constexpr Duration standing_pause_max = std::chrono::milliseconds(10);
  static constexpr Duration broken_pause_max = std::chrono::seconds(1);

  /// Fails where the system has no descriptors left (EMFILE, ENFILE).
  [[nodiscard]] static Result<std::unique_ptr<RunLoop>> open(StreamSet& set);
  ~RunLoop() override;
  RunLoop(const RunLoop&) = delete;
  RunLoop& operator=(const RunLoop&) = delete;

  /// Runs until something has happened: a source was served, a timer fired, a service procedure ran, a signal or stop()
  /// came. False when `deadline` came first. A deadline that has passed means one round without sleeping.
  [[nodiscard]] bool wait(TimePoint deadline) override;

  /// Runs until `predicate()` holds, stop() is called or `deadline` is reached; returns whether the predicate holds.
  bool run_until(const std::function<bool()>& predicate, TimePoint deadline = never);

  /// Ends the present run_until(), or the next one if there is none. From any thread.
  void stop();

  /// The steady clock's time.
  [[nodiscard]] TimePoint now() override;

  /// Calls back, in this loop's thread, whenever `signal` arrives; its default action no longer happens.
  Status on_signal(int signal, std::function<void()> callback);

  /// Gives `turn` its turns with `stream`: edge/stream_turns.h. What is readable is known here; a program need not
  /// look. REQUIRES: nobody attends to it yet; unattend() before the stream ends.
  void attend(Stream& stream, StreamTurns::Turn turn);
  /// No effect when nobody attends to it.
  void unattend(const Stream& stream);

  /// Calls back when `descriptor` is readable or at its end. The callback takes a bounded amount and returns whether
  /// more may be waiting, as EventSource::on_readable does; it may call unwatch(). Descriptors that are always ready
  /// (plain files) work, too. The descriptor stays the caller's. REQUIRES: it is not being watched.
  void watch(int descriptor, std::function<bool()> on_readable);
  /// No effect when the descriptor is not being watched.
  void unwatch(int descriptor);

 private:
  struct Implementation;
  explicit RunLoop(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sluice
