// SPDX-License-Identifier: Apache-2.0
#pragma once

// Queues: each module has a pair, one for each direction. Messages move from queue to queue through put procedures;
// where one cannot go on it waits on a queue until the service procedure takes it up again.
//
//        stream head      write │ ▲ read        "next" follows the arrow of its side:
//                         ┌─────▼─┴─────┐       write queues lead to the driver,
//           module        │ wput   rput │       read queues to the stream head
//                         │ wsrv   rsrv │
//                         └─────┬─▲─────┘
//        driver           write ▼ │ read
//
// Flow control (SVR4 STREAMS Programmer's Guide, "Flow Control"): a queue is full when the bytes or the messages on it
// reach the high-water mark. A sender asks can_put_next() first; it looks at the nearest forward queue that has a
// service procedure, or ends the stream, and leaves its want there when refused. When the wanted queue has drained
// below the low-water mark, the nearest queue behind it that has a service procedure is enabled ("back-enabled").
//
// Order on a queue: high-priority messages first, then higher bands before lower, first in first out within each.
// Every band has its own marks and its own fullness. Bands are 0 (ordinary) .. 255; all but 0 are made when first used,
// with the marks that band 0 has then, and an absent one is never full. bcanput(D3DK): "A 1 is returned if a message of
// priority pri can be placed on the queue, or if the band does not yet exist on the queue."
//
// Ownership: a queue belongs to its module and owns the messages on it. Threads: one stream set, one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>

#include "stack/core/message.h"

namespace sluice {

class Module;
class Scheduler;

inline constexpr std::size_t bands_max = 256;

enum class Side : std::uint8_t { write, read };

/// FLUSHDATA discards data only; FLUSHALL discards control messages, too.
enum class FlushKind : std::uint8_t { data, all };

struct WaterMarks {
  std::size_t high_bytes = 64 * 1024;
  std::size_t low_bytes = 16 * 1024;
};

class Queue {
 public:
  Queue(Module& module, Side side) : module_(module), side_(side) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] Module& module() const { return module_; }
  [[nodiscard]] Side side() const { return side_; }
  /// The next queue in the direction of flow; nullptr at the end of the stream.
  [[nodiscard]] Queue* next() const { return next_; }
  /// The other queue of the pair.
  [[nodiscard]] Queue& other() const;

  /// Calls this queue's put procedure. (stack/core/module.h defines it)
  inline void put(Batch&& batch);
  /// Calls the put procedure of the next queue. REQUIRES: there is one. (putnext)
  void put_next(Batch&& batch) { next_->put(std::move(batch)); }
  void put_next(Message&& message) { put_next(Batch(std::move(message))); }
  /// Puts those messages to the next queue for which `keep(message)` answers true (Batch::retain()).
  template <class Keep>
  void pass_on(Batch&& batch, Keep keep) {
    batch.retain(keep);
    if (!batch.empty()) {
      put_next(std::move(batch));
    }
  }
  /// As that, for a module that does not treat all messages alike: takes `step` to each message as
  /// Batch::retain_until() does and puts what is kept to the next queue. A message that ends the walk goes to
  /// `other(message)`, behind those before it; whether it passes on is the answer.
  template <class Step, class Other>
  void pass_on(Batch&& batch, Step step, Other other) {
    while (!batch.empty()) {
      Batch rest = batch.retain_until(step);
      if (rest.empty()) [[likely]] {
        return batch.empty() ? void() : put_next(std::move(batch));
      }
      if (!batch.empty()) {
        put_next(std::move(batch));
      }
      Message message = rest.pop();
      if (other(message)) {
        put_next(std::move(message));
      }
      batch = std::move(rest);
    }
  }
  /// Sends a message back the way it came from. (qreply)
  void reply(Message message);
  /// Makes a control message of `type` whose bytes are `parameters`, and puts it on this queue. False, and nothing is
  /// sent, where `type` is one of data (M_DATA, M_PROTO, M_PCPROTO) or the pool is exhausted. REQUIRES: the module is
  /// part of a stream. (putctl, putctl1, putctl2)
  [[nodiscard]] bool put_control(MessageType type, std::initializer_list<std::uint8_t> parameters = {});
  /// As put_control, on the next queue. REQUIRES: there is one. (putnextctl, putnextctl1, putnextctl2)
  [[nodiscard]] bool put_next_control(MessageType type, std::initializer_list<std::uint8_t> parameters = {});

  /// Whether the nearest forward queue with a service procedure accepts an ordinary message (or one of `band`); leaves
  /// the want there if not. (canputnext, bcanputnext)
  [[nodiscard]] bool can_put_next(std::uint8_t band = 0) { return next_->can_put(band); }
  /// As can_put_next, starting with this queue. (canput)
  [[nodiscard]] bool can_put(std::uint8_t band = 0);
  /// As can_put_next, for a message of any band above 0 that exists; while there is none, yes. Leaves a want in each
  /// that is full.
  [[nodiscard]] bool can_put_next_in_some_band();
  /// Whether a band above 0 exists where can_put_next() looks, and is not full. Leaves no want.
  [[nodiscard]] bool next_has_band_with_room() const;

  /// Puts `message` on this queue and schedules the service procedure where the rules ask for it. On a write queue a
  /// message that borrows the user's memory is copied now, through its plan, so that the caller may use the memory
  /// again. (putq)
  void enqueue(Message message);
  /// Returns `message` to the front of its class. REQUIRES: not a high-priority message where there is a service
  /// procedure, which would be scheduled for ever. (putbq)
  void put_back(Message message);
  /// Takes the first message; empty when there is none. Back-enables when the queue was wanted and is low now. (getq)
  [[nodiscard]] Message dequeue();
  /// The first message without taking it; nullptr when there is none. A service procedure that looks before it takes
  /// still ends with a dequeue() that finds nothing: that is what lets the next message schedule it.
  [[nodiscard]] const Block* peek() const;

  // Anywhere on the queue. These walk it. As with peek(), a service procedure that takes messages with remove() still
  // ends with a dequeue() that finds nothing.

  /// The message behind `message`, in the order in which the queue gives them; nullptr behind the last one. REQUIRES:
  /// `message` is on this queue. (b_next)
  [[nodiscard]] const Block* next_after(const Block& message) const;
  /// Puts `message` just before `before`, or, where that is nullptr, behind all others. Schedules the service procedure
  /// as put_back() does, for a high-priority message always. False where it would break the order of classes, or
  /// where enqueue() would lack memory for a copy; `message` is then still the caller's. REQUIRES: `before` is on this
  /// queue. (insq)
  [[nodiscard]] bool insert(const Block* before, Message&& message);
  /// Takes `message` off. Back-enables as dequeue() does. REQUIRES: it is on this queue. (rmvq)
  [[nodiscard]] Message remove(const Block& message);

  /// Discards messages: of all classes, or of one band only, where band 0 includes high priority. (flushq, flushband)
  void flush(FlushKind kind);
  void flush_band(std::uint8_t band, FlushKind kind);

  /// Schedules the service procedure. (qenable)
  void enable();
  /// Ordinary messages no longer schedule the service procedure; high-priority ones always do. (noenable, enableok)
  void set_enabled(bool enabled) { may_schedule_ = enabled; }

  void set_marks(WaterMarks marks, std::uint8_t band = 0);
  [[nodiscard]] const WaterMarks& marks(std::uint8_t band = 0) const {
    const Band* const found = find_band(band);
    return (found == nullptr ? ordinary_ : *found).marks;
  }
  [[nodiscard]] bool full(std::uint8_t band = 0) const {
    const Band* const found = find_band(band);
    return found != nullptr && found->full;
  }
  [[nodiscard]] bool empty() const { return messages() == 0; }
  /// Totals over all classes.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t messages() const { return messages_; }

  struct Statistics {
    std::uint64_t batches = 0;       // put procedure calls
    std::uint64_t messages = 0;      // messages put
    std::uint64_t enqueued = 0;      // had to wait here
    std::uint64_t refused = 0;       // can_put answered no
    std::uint64_t materialized = 0;  // messages of a fused path whose bytes were made real here
    // Of those, and of messages that had to be copied to wait: lost, since the pool was exhausted.
    std::uint64_t no_memory = 0;
    std::size_t bytes_max = 0;  // the most that waited here at once
  };
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }

 private:
  friend class Chain;
  friend class Module;
  friend class Scheduler;

  struct Band {
    Batch waiting;
    std::size_t bytes = 0;     // with band 0: of the high-priority messages, too
    std::size_t messages = 0;  // likewise
    WaterMarks marks;
    bool full = false;
    bool wanted = false;
  };

  /// Whether a sender was refused and has not been back-enabled yet, in any band.
  [[nodiscard]] bool wanted() const;
  void make_plain(Batch& batch);
  /// Counted, where something was owed; and where the pool was exhausted.
  TransformResult materialize(Message& message);
  TransformResult keep(Message& message);
  TransformResult keep(Message& message, const Stretches& stretches);
  TransformResult outcome(const Message& message, TransformResult result);
  void added(Band& band, std::size_t size);
  void removed(Band& band, std::size_t size);
  void update_fullness(Band& band);
  /// nullptr while nothing has used it.
  [[nodiscard]] const Band* find_band(std::uint8_t band) const { return band == 0 ? &ordinary_ : find_banded(band); }
  [[nodiscard]] const Band* find_banded(std::uint8_t band) const;
  Band& make_band(std::uint8_t band) { return band == 0 ? ordinary_ : make_banded(band); }
  Band& make_banded(std::uint8_t band);
  Message take(Band& band, Batch& from);
  [[nodiscard]] Message control_message(MessageType type, std::initializer_list<std::uint8_t> parameters) const;
  void flush_class(Band& band, Batch& waiting, FlushKind kind);

  Module& module_;
  Side side_;
  bool materializes_ = false;  // the module knows neither plans nor native descriptors
  bool encodes_ = false;       // it is not to see native descriptors
  bool may_schedule_ = true;
  bool wants_service_ = true;  // the last dequeue found nothing: the next message must schedule (QWANTR)
  bool scheduled_ = false;
  Queue* next_ = nullptr;
  Queue* next_with_service_ = nullptr;  // nearest at or after this queue; the last queue of a side counts (q_nfsrv)
  Queue* back_with_service_ = nullptr;  // nearest before this queue that has a service procedure, or nullptr
  Queue* next_scheduled_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t messages_ = 0;
  Scheduler* scheduler_ = nullptr;                       // set while the module is part of a stream
  Batch urgent_;                                         // high-priority messages; counted with band 0
  Band ordinary_;                                        // band 0
  std::map<std::uint8_t, Band, std::greater<>> banded_;  // the others, highest first
  Statistics statistics_;
};

}  // namespace sluice
