// SPDX-License-Identifier: Apache-2.0
#pragma once

// The module at the top of every stream: it keeps what came up until the user reads it, matches ioctl answers, and
// remembers errors and hangup. Stream (stream.h) is the user's view of it.
//
// Ownership: by Stream. Threads: one stream set, one thread.

#include <cstdint>
#include <optional>

#include "stack/core/module.h"
#include "stack/head/head_options.h"
#include "stack/head/signal_events.h"

namespace sluice {

class StreamHead : public Module {
 public:
  explicit StreamHead(const HeadOptions& options);

  [[nodiscard]] bool handles_deferred() const override { return true; }
  /// As the user of the stream has said (Stream::accept_segments()).
  [[nodiscard]] bool handles_segments() const override { return options_.segments; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  void rput(Batch&& batch) override;
  /// Runs when the stream below accepts messages again; nothing waits here, so all it does is wake the waiter, and tell
  /// who has asked to be told.
  void wsrv() override;

  /// errno values that M_ERROR left for each side; 0 when there is none.
  [[nodiscard]] int read_error() const { return read_error_; }
  [[nodiscard]] int write_error() const { return write_error_; }
  [[nodiscard]] bool hung_up() const { return hung_up_; }

  [[nodiscard]] HeadOptions& options() { return options_; }
  [[nodiscard]] const HeadOptions& options() const { return options_; }

  /// Opens the one place for an ioctl's answer. REQUIRES: ioctl_pending() is false.
  void expect_ioctl(std::uint32_t id);
  [[nodiscard]] bool ioctl_pending() const { return expected_ioctl_.has_value(); }
  /// Gives the place up: a late answer is discarded.
  void abandon_ioctl();
  /// The answer, once it is here.
  [[nodiscard]] Message take_ioctl_answer();

  /// Calls `handler` from now on for these events, and for no others; for none with 0. REQUIRES: a handler unless it is
  /// for none; the head is part of a stream.
  void watch(std::uint32_t events, SignalHandler handler);
  /// The events that are watched; 0: nobody does.
  [[nodiscard]] std::uint32_t watched() const { return watched_; }

  /// Flushes the head's own queues as an M_FLUSH message says.
  void flush_own(const Message& message);

  /// Whether a high-priority message is the first to read.
  [[nodiscard]] bool high_priority_waits() const { return high_priority_waits_; }
  /// Takes the first message to read, its primitive as bytes; empty when there is none.
  [[nodiscard]] Message take();
  /// As take(), but a native descriptor stays one.
  [[nodiscard]] Message take_native() {
    Message message = read_queue().dequeue();
    high_priority_waits_ = high_priority_waits_ && !(message && is_high_priority(message.type()));
    return message;
  }
  /// Runs a stage of the reader's over a message that was taken, as Message::transform() does. What it refuses is
  /// counted here. `sound` becomes true when all that was owed before has turned out to be good, at the latest in the
  /// pass; it must stay until then.
  TransformResult transform(Message& message, const OwnStage& stage, bool& sound);
  /// Makes the first message's bytes, so that it can be looked at where it waits; one whose check fails goes.
  void materialize_first();
  /// Returns the unread rest of a message that was taken.
  void put_back(Message message);

 private:
  void receive_error(Message message);
  static bool take_error(std::uint8_t code, int& error);
  void receive_flush(Message message);
  void receive_options(const Message& message);
  void receive_ioctl_answer(Message message);
  void note_arrivals(const Batch& batch);
  /// Those of `events` that are watched will be told of in the next poll.
  void note(std::uint32_t events);
  void tell();

  HeadOptions options_;
  int read_error_ = 0;
  int write_error_ = 0;
  bool hung_up_ = false;
  bool high_priority_waits_ = false;
  std::optional<std::uint32_t> expected_ioctl_;
  Message ioctl_answer_;
  std::uint32_t watched_ = 0;          // SignalEvents
  std::uint32_t noted_ = 0;            // have happened since the last call
  std::uint32_t noted_as_urgent_ = 0;  // likewise
  SignalHandler handler_;
  std::optional<Timer> teller_;

  Counter second_high_priority_{*this, "second_high_priority",
                                "M_PCPROTO messages discarded because one was waiting to be read"};
  Counter late_ioctl_answer_{*this, "late_ioctl_answer", "ioctl answers that nobody was waiting for"};
  Counter stage_refused_{*this, "stage_refused", "messages that a stage of the reader's refused"};
  Counter unexpected_{*this, "unexpected", "messages of a type that has no meaning at a stream head"};
};

/// In M_ERROR: "no change" for that side. (NOERROR)
inline constexpr std::uint8_t no_error = 0xff;

}  // namespace sluice
