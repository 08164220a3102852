// SPDX-License-Identifier: Apache-2.0
#pragma once

// Carrier: what carries the datagrams of a session, and its place in the run loop: UDP (a Transport), or the pipe of
// ssh (a PipeTransport).
//
// Both borrow the host; UdpCarrier its transport, too. Not thread-safe.

#include <functional>
#include <optional>

#include "apps/ftx/jobs/host.h"
#include "apps/ftx/transport/pipe_transport.h"
#include "apps/ftx/transport/transport.h"

namespace sluice::ftx {

class Carrier {
 public:
  Carrier() = default;
  virtual ~Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  /// `turn` is called when datagrams may wait; it calls receive() and answers what that answers.
  virtual void attend(std::function<bool()> turn) = 0;
  virtual void unattend() = 0;
  /// As Transport has them.
  virtual bool receive(DatagramHandler& handler) = 0;
  virtual bool send(Burst& burst) = 0;
  [[nodiscard]] virtual bool can_send() = 0;
  /// When send() has something of the carrier's own to do.
  [[nodiscard]] virtual TimePoint next_deadline() const { return never; }
  virtual void drain(Duration time) = 0;
};

class UdpCarrier final : public Carrier {
 public:
  UdpCarrier(Host& host, Transport& transport) : host_(host), transport_(transport) {}

  void attend(std::function<bool()> turn) override { host_.loop().attend(transport_.stream(), std::move(turn)); }
  void unattend() override { host_.loop().unattend(transport_.stream()); }
  bool receive(DatagramHandler& handler) override { return transport_.receive(handler); }
  bool send(Burst& burst) override { return transport_.send(burst); }
  [[nodiscard]] bool can_send() override { return transport_.can_send(); }
  void drain(Duration time) override { transport_.drain(time); }

 private:
  Host& host_;
  Transport& transport_;
};

class PipeCarrier final : public Carrier {
 public:
  PipeCarrier(Host& host, int in, int out);
  ~PipeCarrier() override;

  void attend(std::function<bool()> turn) override;
  void unattend() override { turn_ = nullptr; }
  bool receive(DatagramHandler& handler) override { return transport_.receive(handler); }
  bool send(Burst& burst) override { return transport_.send(burst); }
  [[nodiscard]] bool can_send() override { return transport_.can_send(); }
  void drain(Duration time) override;

  [[nodiscard]] bool ended() const { return transport_.ended(); }
  /// What the pipe itself has to say against going on: the framing is broken, or it has taken nothing for `limit`
  /// although something waits. A session whose transport is full is not asked, so its own timers do not see that.
  [[nodiscard]] std::optional<Failure> trouble(Duration limit);

 private:
  /// A descriptor in the loop. One that is both ends is one source, since the kernel watches a descriptor once.
  /// Standard output is watched through an epoll instance: the loop makes what it watches non-blocking, and that may be
  /// somebody else's standard input, too.
  class Source final : public EventSource {
   public:
    enum class Is : std::uint8_t { in, both, watch_of_out };
    Source(PipeCarrier& owner, int descriptor, Is is) : owner_(owner), descriptor_(descriptor), is_(is) {}
    [[nodiscard]] int descriptor() const override { return descriptor_; }
    [[nodiscard]] bool wants_readable() const override {
      return is_ == Is::watch_of_out ? owner_.waits() : owner_.wants_to_read();
    }
    bool on_readable() override;
    [[nodiscard]] bool wants_writable() const override { return is_ == Is::both && owner_.waits(); }
    void on_writable() override { owner_.transport_.flush(); }

   private:
    PipeCarrier& owner_;
    int descriptor_;
    Is is_;
  };

  [[nodiscard]] bool waits() const { return transport_.waiting() > 0; }
  [[nodiscard]] bool wants_to_read() const { return turn_ && !transport_.ended(); }

  Host& host_;
  PipeTransport transport_;
  std::function<bool()> turn_{};
  Source in_;
  int out_watch_ = -1;
  std::optional<Source> out_{};
  std::uint64_t written_before_ = 0;
  TimePoint written_at_;
};

}  // namespace sluice::ftx
