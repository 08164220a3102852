// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream set: streams that share one run loop, one buffer pool and one thread, and the sources of outside events that
// feed them. Threads have a set each and share nothing.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "stack/core/buffer_pool.h"
#include "stack/core/module_handle.h"
#include "stack/core/scheduler.h"

namespace sluice {

/// Something outside that the edge watches: a driver's descriptor. The edge calls the hooks; the core only keeps the
/// list.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// The descriptor to wait on; never changes while the source is watched.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Called when the descriptor is readable. Takes a bounded burst and returns whether more may be waiting.
  virtual bool on_readable() = 0;
  /// Whether the descriptor may still be readable because of what the source has taken and keeps for now (frames lent
  /// from a ring). The edge then goes on waiting for it as for any other. REQUIRES: the next call of on_readable() that
  /// finds nothing new ends that, so that it costs one wake.
  [[nodiscard]] virtual bool keeps_readable() const { return false; }
  /// Whether to wait for writability as well.
  [[nodiscard]] virtual bool wants_writable() const { return false; }
  virtual void on_writable() {}
  /// Called when a stream waits and nothing has arrived, so that a source can stop or go on reading (flow control).
  [[nodiscard]] virtual bool wants_readable() const { return true; }
};

class StreamSet {
 public:
  struct Options {
    std::size_t pool_bytes_max = BufferPool::bytes_max_default;
    // On a fused path, smaller messages are not worth a plan: measured, below some 4 KiB within the first cache, and
    // 700 bytes from memory, separate passes cost less than what a plan adds to each message. The default loses
    // nowhere; a program whose bytes come from afar and go far, such as `ftx`, asks for less.
    std::size_t defer_bytes_min = 4096;
    // Primitives are made bytes at every queue, whether or not anybody looks: for tests that compare.
    bool encode_primitives = false;
    // Of everything in the set that needs chance (identifiers, jitter); real programs pass entropy.
    std::uint64_t seed = 0;
  };

  StreamSet() : StreamSet(Options{}) {}
  explicit StreamSet(const Options& options)
      : pool_(options.pool_bytes_max),
        prng_(options.seed),
        defer_bytes_min_(options.defer_bytes_min),
        encodes_primitives_(options.encode_primitives) {}
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  [[nodiscard]] BufferPool& pool() { return pool_; }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] Prng& prng() { return prng_; }
  /// Not to be guessed by others, and the same for all streams of the set, so that what they derive from it agrees (the
  /// "secretkey" of RFC 6528 section 3). Drawn when it is first asked for.
  [[nodiscard]] const std::array<std::uint64_t, 2>& secret() {
    if (!secret_) {
      secret_ = {prng_(), prng_()};
    }
    return *secret_;
  }
  [[nodiscard]] std::size_t defer_bytes_min() const { return defer_bytes_min_; }
  [[nodiscard]] bool encodes_primitives() const { return encodes_primitives_; }
  [[nodiscard]] ModuleHandleTable& module_handles() { return owners_; }
  [[nodiscard]] TimePoint now() const { return scheduler_.now(); }

  /// What streams of the set share under a name, such as a link or a file, and what stays known of it as long as the
  /// set lives. Made when it is first asked for; each T has names of its own.
  template <typename T>
  [[nodiscard]] T& shared(const std::string& name) {
    std::shared_ptr<void>& place = shared_[{typeid(T), name}];
    if (place == nullptr) {
      place = std::make_shared<T>();
    }
    return *static_cast<T*>(place.get());
  }

  /// Sources are watched from add to remove. `version` grows with each change, so the edge need not compare lists.
  void add_source(EventSource& source);
  void remove_source(EventSource& source);
  [[nodiscard]] const std::vector<EventSource*>& sources() const { return sources_; }
  [[nodiscard]] std::uint64_t sources_version() const { return sources_version_; }

 private:
  ModuleHandleTable owners_;
  BufferPool pool_;
  Scheduler scheduler_;
  Prng prng_;
  std::optional<std::array<std::uint64_t, 2>> secret_;
  std::size_t defer_bytes_min_;
  bool encodes_primitives_;
  std::vector<EventSource*> sources_;
  std::uint64_t sources_version_ = 0;
  std::map<std::pair<std::type_index, std::string>, std::shared_ptr<void>> shared_;
};

/// How a blocking call waits: the edge sleeps on descriptors, a simulation advances its clock.
class Waiter {
 public:
  virtual ~Waiter() = default;
  /// Lets the set run until something has happened or `deadline` is reached; false when the deadline was reached.
  [[nodiscard]] virtual bool wait(TimePoint deadline) = 0;
  /// The time as of now.
  [[nodiscard]] virtual TimePoint now() = 0;
};

}  // namespace sluice
