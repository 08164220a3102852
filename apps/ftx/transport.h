// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connectionless endpoint under a session: TLI on the declared stack. Non-blocking; the program waits in its run
// loop.
//
// Ownership: owns its stream; the stream set outlives it. Threads: the set's.

#include <array>
#include <expected>
#include <memory>
#include <vector>

#include "apps/ftx/endpoint.h"
#include "apps/ftx/exit_code.h"
#include "stack/core/stream_set.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::ftx {

class Transport {
 public:
  /// Datagrams taken in one receive() at most, so that sending and timers get their turn.
  static constexpr int burst_max = 256;

  /// Opens the stack and binds to `local`. The waiter is for the few requests that are made before data flows.
  [[nodiscard]] static std::expected<std::unique_ptr<Transport>, Failure> open(StreamSet& set, Waiter& waiter,
                                                                               const StackDeclaration& stack,
                                                                               const wire::TransportAddress& local);

  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  /// The largest datagram that the provider takes.
  [[nodiscard]] std::size_t tsdu_bytes() const;

  enum class Sent : std::uint8_t { sent, full, failed };
  /// Sends `header` and `payload` as one datagram. `full`: not sent, try again after the next event. `failed`: the
  /// datagram is lost, as it might be on the way.
  [[nodiscard]] Sent send(const Peer& to, ConstBytes header, ConstBytes payload);
  /// Whether send() would answer other than `full`; where it would not, the next chance ends a wait.
  [[nodiscard]] bool can_send() { return endpoint_->stream().can_put(); }

  /// Whoever datagrams are for.
  class Taker {
   public:
    virtual ~Taker() = default;
    /// The memory where the payload behind `header` belongs, exactly as long as it is; empty: none. The datagram has
    /// `datagram_bytes` and is not verified yet: nothing may be acted on.
    [[nodiscard]] virtual Bytes place(ConstBytes header, std::size_t datagram_bytes, const Peer& from) {
      static_cast<void>(header), static_cast<void>(datagram_bytes), static_cast<void>(from);
      return {};
    }
    /// The datagram was right, and its payload is in the place named last.
    virtual void placed(ConstBytes header, std::size_t datagram_bytes, const Peer& from) {
      static_cast<void>(header), static_cast<void>(datagram_bytes), static_cast<void>(from);
    }
    /// A datagram, right and whole.
    virtual void take(ConstBytes datagram, const Peer& from) = 0;
    /// A peer's host said that nobody listens.
    virtual void refused(const Peer& peer) = 0;
  };
  /// Hands on every datagram that waits, up to a burst. Answers whether there may be more. A payload that has a place
  /// gets there in one pass, on the way of which it is verified.
  bool receive(Taker& taker);

  /// Lets what was sent leave, for a while.
  void drain(Duration time);

  [[nodiscard]] Stream& stream() { return endpoint_->stream(); }

 private:
  Transport(std::unique_ptr<tli::Endpoint> endpoint, const wire::TransportAddress& local);

  /// Takes the datagram that `unit` shows the header of.
  void take_shown(Taker& taker, const tli::t_unitdata& unit, std::size_t datagram_bytes);
  /// Takes the unit data error that waits, and notes whom it tells about.
  void take_error();

  std::unique_ptr<tli::Endpoint> endpoint_;
  wire::TransportAddress local_;
  std::vector<Peer> refused_;  // peers that nobody listens at; told by receive()
  std::vector<std::byte> buffer_;
};

/// The address bytes of a peer, as the transport writes them.
[[nodiscard]] Peer peer_of(const wire::TransportAddress& address);

}  // namespace sluice::ftx
