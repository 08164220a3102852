// SPDX-License-Identifier: Apache-2.0
#pragma once

// Modules: what is pushed onto a stream between its head and its driver. A module is a queue pair with put and, where
// it needs them, service procedures. Derived classes override what they do; what they leave alone passes on.
//
//     class Null : public Module {
//      public:
//       Null() : Module("null") {}
//     };
//
// The rules of a put procedure: forward what you do not know; answer or forward each ioctl; act on flush and pass it
// on; never hold a batch, only enqueue it; before passing an ordinary message on from a service procedure, ask
// can_put_next().
//
// A driver is a module at the lower end: nothing is below it, its wput() sends to the outside, and what comes from
// there it puts up its read side.
//
// Ownership: a stream owns its modules. Threads: one stream set, one thread.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/core/counter.h"
#include "stack/core/module_handle.h"
#include "stack/core/queue.h"
#include "stack/core/scheduler.h"
#include "stack/core/stage.h"

namespace sluice {

class ReaderPlace;
class StreamSet;

/// When manipulations are carried out: at once, one pass a call, or together, when the bytes must move anyway.
enum class ProcessingMode : std::uint8_t { layered, fused };

[[nodiscard]] constexpr std::string_view name_of(ProcessingMode mode) {
  return mode == ProcessingMode::fused ? "fused" : "layered";
}
[[nodiscard]] constexpr std::optional<ProcessingMode> mode_named(std::string_view name) {
  if (name != name_of(ProcessingMode::layered) && name != name_of(ProcessingMode::fused)) {
    return std::nullopt;
  }
  return name == name_of(ProcessingMode::fused) ? ProcessingMode::fused : ProcessingMode::layered;
}

/// What a module does to the payload that passes on one side, for those who explain a stack (`sluice explain`).
struct PayloadWork {
  enum class Kind : std::uint8_t {
    swap,    // transform(Swap)
    sum,     // transform(Sum)
    check,   // transform(Check)
    own,     // transform(OwnStage)
    copy,    // moves the bytes: from user memory, from a device's slot. A path without it shows them where they lie
    gather,  // gather(), keep(): carries out what is owed, and in the same pass copies borrowed bytes to memory of the
             // pool
    land,    // land(), or a copy where nothing is owed: the bytes go to the user's place
  };
  struct Item {
    Kind kind;
    std::size_t unit = 1;          // swap
    std::string_view where = {};   // copy, gather, land: from what to what
    bool layered = true;           // whether a layered path has this item
    bool fused = true;             // whether a fused one has
    const Stage* stage = nullptr;  // own
    bool fills = false;            // own: its result goes to a field of the message
  };
  std::vector<Item> items;             // in order
  std::string_view materializes = {};  // why this module makes the bytes real before anything else; empty: it does not
  bool keeps = false;                  // as it materializes, it copies borrowed bytes, too: keep()
  bool materializes_last = false;      // behind its items, which it thereby carries out
  bool makes_sums_known = false;       // down, as it keeps a copy: of what it sends (stack/core/known_sums.h)
  bool lands = false;                  // up, as it materializes: to the place where the reader waits, if he does
  std::string_view uncounted = {};     // what else reads or writes them here: the operating system, a file's buffer
  std::string_view segments = {};      // of a driver, down: who splits and sums several datagrams in one message
};

class Module {
 public:
  /// Which sides have a service procedure.
  enum class Services : std::uint8_t { none = 0, write = 1, read = 2, both = 3 };

  explicit Module(std::string_view name, Services services = Services::none);
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] Queue& read_queue() { return read_; }
  [[nodiscard]] Queue& write_queue() { return write_; }
  [[nodiscard]] Queue& queue(Side side) { return side == Side::read ? read_ : write_; }
  [[nodiscard]] bool has_service(Side side) const {
    return (static_cast<unsigned>(services_) & (side == Side::write ? 1U : 2U)) != 0;
  }
  [[nodiscard]] const std::vector<Counter*>& counters() const { return counters_; }

  /// Bytes of header this module puts in front of a message on its way down: the head leaves that much room.
  [[nodiscard]] virtual std::size_t headroom() const { return 0; }

  /// Whether its procedures are written for messages with a plan, and for native descriptors (stack/core/message.h).
  /// Before others, every message is materialized and encoded: a module that knows nothing of either sees real bytes
  /// and breaks nothing.
  [[nodiscard]] virtual bool handles_deferred() const { return false; }
  /// Whether it is written for segmented messages, too: data of several datagrams behind one header. They cross a
  /// stream only where everybody is (segments()); elsewhere its ends take them apart.
  [[nodiscard]] virtual bool handles_segments() const { return false; }
  /// Whether they begin and end with it: those above it have streams of bytes, and need not be written for them.
  [[nodiscard]] virtual bool ends_segments() const { return false; }
  /// Whether the module passes all data up, in order and unchanged: then a module below it may put data into the
  /// reader's memory (waiting_reader()).
  [[nodiscard]] virtual bool leaves_data() const { return false; }
  /// Whether it keeps data that has not left, or has not arrived, yet, other than on its write queue: a stream that
  /// closes waits for that, too.
  [[nodiscard]] virtual bool holds_data() const { return false; }
  /// Whether it ends a stream instead of being pushed on one.
  [[nodiscard]] virtual bool is_driver() const { return false; }
  /// What it does to payload on `side`. A module that loops over payload in secret makes `explain` wrong, nothing else.
  [[nodiscard]] virtual PayloadWork payload_work(Side side) const;

  /// Called when the module has its place in the stream (qi_qopen). An error refuses the push.
  virtual Status open() { return {}; }
  /// Called before it loses that place (qi_qclose): the queues still work.
  virtual void close() {}

  /// Put procedures.
  virtual void wput(Batch&& batch) { write_.put_next(std::move(batch)); }
  virtual void rput(Batch&& batch) { read_.put_next(std::move(batch)); }
  /// Service procedures; called only where `services` says so.
  virtual void wsrv() {}
  virtual void rsrv() {}

  /// The stream set this module runs in. REQUIRES: it is part of a stream.
  [[nodiscard]] StreamSet& set() const { return *set_; }
  /// The path of the stream it is part of.
  [[nodiscard]] ProcessingMode mode() const { return mode_; }
  /// Whether everybody in the stream, its head included, handles segmented messages; from one that ends them on
  /// (ends_segments()), everybody from there to the driver.
  [[nodiscard]] bool segments() const { return segments_; }
  /// This module, as deferred checks and changes remember it. REQUIRES: it is part of a stream.
  [[nodiscard]] const ModuleHandle& handle() const { return handle_; }

 protected:
  /// What a driver does with each message on its way up: on a fused path it is deferred, if it is large enough.
  void defer_if_fused(Message& message) const;
  /// The place where the stream's reader waits for the next data that this module passes up. nullptr: nobody waits,
  /// other data is on its way to him, or the path is layered.
  [[nodiscard]] ReaderPlace* waiting_reader() const;
  /// As defer_if_fused(), for a message that goes up; but data that lies at waiting_reader() already owes no pass. Of a
  /// module that uses waiting_reader() each message with data goes through here.
  void defer_unless_landed(Message& message) const;
  /// message.materialize() and message.keep(), counted as this module's doing on `side`; so is a message lost because
  /// the pool was exhausted.
  TransformResult materialize(Message& message, Side side);
  TransformResult keep(Message& message, Side side);
  TransformResult keep(Message& message, Side side, const Stretches& stretches);
  /// What every module does with M_FLUSH on the way down (`side` write) or up: flush the queues it names, here.
  void flush_queues(const Message& message);
  /// What every driver does with M_FLUSH: flushes its queues and, where the read side is named, sends the message up
  /// with the write side's flag cleared.
  void turn_flush(Message message);
  /// A service procedure's usual body: passes on what waits on `queue` until the way is full.
  void forward_waiting(Queue& queue);

 private:
  friend class Chain;
  friend class Counter;
  std::string_view name_;
  Services services_;
  StreamSet* set_ = nullptr;
  ProcessingMode mode_ = ProcessingMode::layered;
  bool segments_ = false;
  ReaderPlace* reader_place_ = nullptr;
  ModuleHandle handle_;
  std::vector<Counter*> counters_;
  Queue read_{*this, Side::read};
  Queue write_{*this, Side::write};
};

inline void Queue::put(Batch&& batch) {
  ++statistics_.batches;
  statistics_.messages += batch.size();
  if (encodes_) [[unlikely]] {
    make_plain(batch);
  }
  if (side_ == Side::write) {
    module_.wput(std::move(batch));
  } else {
    module_.rput(std::move(batch));
  }
}

/// M_FLUSH's first byte (FLUSHR, FLUSHW, FLUSHRW; with FLUSHBAND the second byte is the band).
inline constexpr std::uint8_t flush_read = 1;
inline constexpr std::uint8_t flush_write = 2;
inline constexpr std::uint8_t flush_band = 4;

}  // namespace sluice
