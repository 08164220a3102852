// SPDX-License-Identifier: Apache-2.0
#pragma once

// The simple library of document 001 (Riesen and Maccabe, "Simple, Scalable Protocols for High-Performance Local
// Networks"): pre-post a receive, send a message, wait; here over each protocol that is compared.
//
// A Port is what one process has of one peer. Its messages go one at a time in either direction; the receiver knows how
// long the next is. MsgPort is for `rmpp` and `utopia` (msg/endpoint.h). UdpPort cuts messages into datagrams and
// recovers nothing; TcpPort sends them over a connection that stands beforehand.
//
// Ownership: a port owns its endpoint, unless that serves several peers (MsgPort). Threads: the stream set's.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/opened.h"
#include "msg/endpoint.h"
#include "stack/wire/options.h"
#include "tli/options.h"

namespace sluice::bench {

/// The sum of the counters of that name of the modules of that name.
inline std::uint64_t counted(Stream& stream, std::string_view module, std::string_view counter) {
  std::uint64_t sum = 0;
  for (const auto& each : stream.chain().modules()) {
    for (const Counter* const one : each->counters()) {
      sum += each->name() == module && one->name() == counter ? one->value() : 0;
    }
  }
  return sum;
}

class Port {
 public:
  virtual ~Port() = default;
  /// Pre-posts a receive for a message of place.size() bytes. REQUIRES: none is outstanding.
  virtual void expect(Bytes place) = 0;
  /// Begins to send; `data` stays until sent(). REQUIRES: none is being sent.
  virtual void send(ConstBytes data) = 0;
  /// Moves what can be moved; whether that was anything.
  virtual bool turn() = 0;
  /// Whether the message that was expected is there; whether the one that was sent has left (TCP, UDP), or arrived.
  [[nodiscard]] virtual bool received() const = 0;
  [[nodiscard]] virtual bool sent() const = 0;
  [[nodiscard]] virtual Stream& stream() = 0;
  /// A message ended in another way: it was lost, or could not be sent.
  [[nodiscard]] virtual bool failed() const { return false; }
};

class MsgPort final : public Port {
 public:
  /// REQUIRES: `endpoint` outlives it.
  MsgPort(msg::Endpoint& endpoint, const msg::Peer& peer) : endpoint_(endpoint), peer_(peer) {}

  void expect(Bytes place) override {
    receive_ = needed(endpoint_.post(place, {.bits = 0, .ignore = ~std::uint64_t{0}, .from = peer_}));
  }
  void send(ConstBytes data) override { send_ = needed(endpoint_.send(peer_, 1, data)); }
  bool turn() override {
    const bool moved = endpoint_.progress();
    const bool received = finish(receive_);
    return finish(send_) || received || moved;
  }
  [[nodiscard]] bool received() const override { return !receive_; }
  [[nodiscard]] bool sent() const override { return !send_; }
  [[nodiscard]] Stream& stream() override { return endpoint_.stream(); }
  [[nodiscard]] bool failed() const override { return failed_; }

 private:
  bool finish(std::optional<msg::Handle>& handle) {
    if (!handle) {
      return false;
    }
    const Result<msg::Completion> done = endpoint_.test(*handle);
    if (!done) {
      return false;
    }
    failed_ = failed_ || done->error != 0;
    handle.reset();
    return true;
  }

  msg::Endpoint& endpoint_;
  msg::Peer peer_;
  std::optional<msg::Handle> receive_;
  std::optional<msg::Handle> send_;
  bool failed_ = false;
};

/// What UdpPort and TcpPort have in common: how far the message that is sent, and the one that is expected, have got.
class BytePort : public Port {
 public:
  void expect(Bytes place) override { place_ = place; }
  void send(ConstBytes data) override { data_ = data; }
  [[nodiscard]] bool received() const override { return place_.empty(); }
  [[nodiscard]] bool sent() const override { return data_.empty(); }
  [[nodiscard]] Stream& stream() override { return endpoint_->stream(); }

 protected:
  explicit BytePort(std::unique_ptr<tli::Endpoint> endpoint) : endpoint_(std::move(endpoint)) {
    endpoint_->stream().set_nonblocking(true);
  }
  /// XTI's buffers are not const; what is sent is not written.
  static Bytes writable(ConstBytes data) { return {const_cast<std::byte*>(data.data()), data.size()}; }

  std::unique_ptr<tli::Endpoint> endpoint_;
  ConstBytes data_;  // what is left to send
  Bytes place_;      // what is left to receive
};

class UdpPort final : public BytePort {
 public:
  static constexpr std::size_t datagrams_a_turn_max = 32;  // so that the receiver gets turns before buffers are full

  UdpPort(std::unique_ptr<tli::Endpoint> endpoint, const wire::TransportAddress& peer, std::size_t datagram_bytes)
      : BytePort(std::move(endpoint)), peer_(peer), datagram_bytes_(datagram_bytes) {}

  bool turn() override {
    bool moved = false;
    for (std::size_t at = 0; at < datagrams_a_turn_max && !data_.empty(); ++at) {
      const ConstBytes part = data_.first(std::min(datagram_bytes_, data_.size()));
      if (!endpoint_->t_sndudata(unit_of(peer_, writable(part)))) {
        break;
      }
      data_ = data_.subspan(part.size());
      moved = true;
    }
    while (!place_.empty()) {
      Name sender;
      tli::t_unitdata unit = unit_of(sender, place_);
      int flags = 0;
      if (!endpoint_->t_rcvudata(unit, flags)) {
        break;
      }
      place_ = place_.subspan(unit.udata.len);
      moved = true;
    }
    return moved;
  }

 private:
  Name peer_;
  std::size_t datagram_bytes_;
};

class TcpPort final : public BytePort {
 public:
  explicit TcpPort(std::unique_ptr<tli::Endpoint> endpoint) : BytePort(std::move(endpoint)) {}

  bool turn() override {
    bool moved = false;
    if (!data_.empty()) {
      if (const auto taken = endpoint_->t_snd(writable(data_), 0); taken && *taken > 0) {
        data_ = data_.subspan(*taken);
        moved = true;
      }
    }
    while (!place_.empty()) {
      int flags = 0;
      const auto got = endpoint_->t_rcv(place_, flags);
      if (!got || *got == 0) {
        failed_ = failed_ || (!got && got.error().t_errno != wire::tpi::TNODATA);
        break;
      }
      place_ = place_.subspan(*got);
      moved = true;
    }
    return moved;
  }
  [[nodiscard]] bool failed() const override { return failed_; }

 private:
  bool failed_ = false;
};

/// Two endpoints that are connected: `caller` and whom it called.
struct Connected {
  std::unique_ptr<tli::Endpoint> caller;
  std::unique_ptr<tli::Endpoint> called;
};

/// Connects an endpoint on `caller` with `called`, through `listener`, which is bound to `address`. REQUIRES: the
/// streams have a waiter that lets both ends run.
inline Connected connected(std::unique_ptr<Stream> caller, const wire::TransportAddress& from, tli::Endpoint& listener,
                           const wire::TransportAddress& address, std::unique_ptr<tli::Endpoint> called) {
  Connected made{bound(std::move(caller), from), std::move(called)};
  Name name(address);
  made.caller->stream().set_nonblocking(true);  // some are confirmed when the called has accepted
  const auto asked = made.caller->t_connect({.addr = name.buffer(), .opt = {}, .udata = {}, .sequence = 0}, nullptr);
  SLUICE_REQUIRE(!asked && asked.error().t_errno == wire::tpi::TNODATA);
  made.caller->stream().set_nonblocking(false);
  tli::t_call call;
  SLUICE_REQUIRE(listener.t_listen(call).has_value());
  SLUICE_REQUIRE(listener.t_accept(*made.called, call).has_value());
  SLUICE_REQUIRE(made.caller->t_rcvconnect(nullptr).has_value());
  return made;
}

/// The same over `tcp`, with an endpoint on `called`; small messages leave at once (T_TCP_NODELAY).
inline Connected connected_by_tcp(std::unique_ptr<Stream> caller, const wire::TransportAddress& from,
                                  tli::Endpoint& listener, const wire::TransportAddress& address,
                                  std::unique_ptr<Stream> called) {
  auto accepting = tli::Endpoint::t_open(std::move(called), nullptr);
  SLUICE_REQUIRE(accepting.has_value());
  Connected made = connected(std::move(caller), from, listener, address, std::move(*accepting));
  for (tli::Endpoint* const each : {made.caller.get(), made.called.get()}) {
    std::vector<std::byte> wanted;
    tli::put_option(wanted, wire::xti::T_INET_TCP, wire::xti::T_TCP_NODELAY, std::uint32_t{wire::xti::T_YES});
    std::array<std::byte, 256> answer{};
    tli::t_optmgmt told{.opt = {answer.size(), 0, answer.data()}};
    const tli::t_optmgmt request{.opt = tli::buffer_of(wanted), .flags = wire::tpi::T_NEGOTIATE};
    SLUICE_REQUIRE(each->t_optmgmt(request, told).has_value());
  }
  return made;
}

/// Where a protocol's end stands: what is below the transport, as in a stack file.
struct Host {
  std::string driver;                   // of our own stack
  std::string modules;                  // between it and the transport: "'fault', 'ip'"
  std::string settings;                 // of these, a line each
  wire::IpAddress address;              // bound, by our own transports and the kernel's
  std::function<void()> enter = [] {};  // into its network namespace
};

/// A protocol that is compared. `module` is rmpp, utopia or neither; `settings` are its own.
struct Protocol {
  std::string name;
  std::string transport;  // udp, tcp, kernel_udp, kernel_tcp
  std::string module = {};
  std::string settings = {};

  [[nodiscard]] bool is_tcp() const { return transport.ends_with("tcp"); }
  [[nodiscard]] std::string stack(const Host& host) const {
    const std::string above = module.empty() ? "'timod'" : "'" + module + "', 'timod'";
    const std::string own = module.empty() || settings.empty() ? "" : module + " = { " + settings + " }\n";
    if (transport.starts_with("kernel_")) {
      return "driver = { kind = '" + transport + "' }\npush = [" + above + "]\n" + own;
    }
    return "driver = " + host.driver + "\n" + host.settings + "push = [" + host.modules + ", '" + transport + "', " +
           above + "]\n" + own;
  }
};

/// Two processes that can send each other messages. Ports come before what they stand on goes.
struct Pairing {
  static constexpr std::uint16_t port = 7000;
  static constexpr std::size_t datagram_bytes = 1400;

  std::vector<std::unique_ptr<msg::Endpoint>> endpoints;
  std::unique_ptr<tli::Endpoint> listener;
  std::unique_ptr<Port> near;
  std::unique_ptr<Port> far;

  /// REQUIRES: `waiter` lets both hosts run.
  Pairing(StreamSet& set, Waiter& waiter, const Protocol& protocol, const Host& near_host, const Host& far_host) {
    const wire::TransportAddress near_address{near_host.address, port};
    const wire::TransportAddress far_address{far_host.address, port};
    const auto stream = [&](const Host& host) {
      host.enter();
      auto made = opened(set, protocol.stack(host));
      made->set_waiter(&waiter);
      return made;
    };
    if (protocol.is_tcp()) {
      listener = bound(stream(far_host), far_address, 1);
      auto called = stream(far_host);
      Connected both =
          connected_by_tcp(stream(near_host), {near_host.address, 0}, *listener, far_address, std::move(called));
      near = std::make_unique<TcpPort>(std::move(both.caller));
      far = std::make_unique<TcpPort>(std::move(both.called));
    } else if (protocol.module.empty()) {
      far = std::make_unique<UdpPort>(bound(stream(far_host), far_address), near_address, datagram_bytes);
      near = std::make_unique<UdpPort>(bound(stream(near_host), near_address), far_address, datagram_bytes);
    } else {
      endpoints.push_back(needed(msg::Endpoint::open(stream(far_host), {.local = far_address})));
      endpoints.push_back(needed(msg::Endpoint::open(stream(near_host), {.local = near_address})));
      far = std::make_unique<MsgPort>(*endpoints[0], near_address);
      near = std::make_unique<MsgPort>(*endpoints[1], far_address);
    }
  }
  [[nodiscard]] std::vector<Port*> ports() const { return {near.get(), far.get()}; }
  /// Packets that both have given to a `fault` below them.
  [[nodiscard]] std::uint64_t packets() const { return packets_of(*near) + packets_of(*far); }

 private:
  static std::uint64_t packets_of(Port& of) { return counted(of.stream(), "fault", "down_in"); }
};

/// Lets all ports have turns, and what they wait for happen, until `done()`; false where `deadline` came first.
inline bool run_ports(Waiter& waiter, const std::vector<Port*>& ports, const std::function<bool()>& done,
                      TimePoint deadline) {
  for (;;) {
    bool moved = false;
    for (Port* const port : ports) {
      moved = port->turn() || moved;
    }
    if (done()) {
      return true;
    }
    if (waiter.now() >= deadline) {
      return false;
    }
    static_cast<void>(waiter.wait(moved ? waiter.now() : deadline));
  }
}

}  // namespace sluice::bench
