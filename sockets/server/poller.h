// SPDX-License-Identifier: Apache-2.0
#pragma once

// The server's ends of all sockets, as one event source of the stream set: an epoll instance, which is itself a
// descriptor that the run loop waits on. So a socket that comes or goes costs one system call, however many there are.
//
// Edges: each end is told once that it has become readable, and keeps that until a call says EAGAIN, or took less than
// it asked for. Of room to write it is told where it waits for that: else each read of a program would wake the server.
//
// Ownership: the set and those who are watched outlive it, or are removed first. Threads: the set's.

#include <cstdint>

#include "base/descriptor.h"
#include "base/result.h"
#include "stack/core/stream_set.h"

namespace sluice::sockets {

class Poller final : public EventSource {
 public:
  class Watched {
   public:
    virtual ~Watched() = default;
    /// `events` as epoll(7) has them. Only notes what it is told: it may come in the middle of a call that waits.
    virtual void on_events(std::uint32_t events) = 0;
  };

  /// An errno where the system has no descriptors left.
  [[nodiscard]] static Result<std::unique_ptr<Poller>> open(StreamSet& set);
  ~Poller() override;
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// 0, or an errno.
  [[nodiscard]] int add(int descriptor, Watched& watched);
  void remove(int descriptor);
  /// Whether room to write is told of, from now on; what there is already is told, too. REQUIRES: add(descriptor,
  /// watched).
  void tell_of_room(int descriptor, Watched& watched, bool wanted);

  [[nodiscard]] int descriptor() const override { return epoll_.get(); }
  bool on_readable() override;

 private:
  static constexpr int burst_events_max = 128;

  Poller(StreamSet& set, Descriptor epoll);

  StreamSet& set_;
  Descriptor epoll_;
};

}  // namespace sluice::sockets
