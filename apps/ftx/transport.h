// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connectionless endpoint under a session: TLI on the declared stack. Non-blocking; the program waits in its run loop.
//
// Ownership: owns its stream; the stream set outlives it. Threads: the set's.

#include <array>
#include <expected>
#include <functional>
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
  static constexpr int burst_max = 64;

  /// Opens the stack and binds to `local`. The waiter is for the few requests that are made before data flows.
  [[nodiscard]] static std::expected<std::unique_ptr<Transport>, Failure> open(StreamSet& set, Waiter& waiter,
                                                                               const StackDeclaration& stack,
                                                                               const wire::TransportAddress& local);

  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  /// The largest datagram that the provider takes.
  [[nodiscard]] std::size_t tsdu_bytes() const;

  enum class Sent : std::uint8_t { sent, full, failed };
  /// Sends `header` and `payload` as one datagram. `full`: not sent, try again after the next event. `failed`: the datagram
  /// is lost, as it might be on the way.
  [[nodiscard]] Sent send(const Peer& to, ConstBytes header, ConstBytes payload);
  /// Whether send() would answer other than `full`; where it would not, the next chance ends a wait.
  [[nodiscard]] bool can_send() { return endpoint_->stream().can_put(); }

  /// Hands every datagram that waits, up to a burst, to `take`; `refused` hears that a peer's host said that nobody
  /// listens. Answers whether there may be more.
  bool receive(const std::function<void(ConstBytes, const Peer&)>& take, const std::function<void(const Peer&)>& refused);

  /// Lets what was sent leave, for a while.
  void drain(Duration time);

  [[nodiscard]] Stream& stream() { return endpoint_->stream(); }

 private:
  Transport(std::unique_ptr<tli::Endpoint> endpoint, const wire::TransportAddress& local);

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
