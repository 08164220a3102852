// SPDX-License-Identifier: Apache-2.0
#pragma once

// Transport: the connectionless endpoint below the sessions, TLI on the declared stack. No call blocks but drain(); the
// program waits in its run loop.
//
// Ownership: owns its stream; the stream set outlives it. Threads: the set's.

#include <array>
#include <expected>
#include <memory>
#include <vector>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/transport/datagram_handler.h"
#include "apps/ftx/transport/opening_stage.h"
#include "stack/core/stream_set.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::ftx {

class Transport {
 public:
  /// The most datagrams that one receive() handles, and the bytes after which it handles no more, so that sending and
  /// timers get their turn. So many bytes because what arrives in one turn is written with one call.
  static constexpr int burst_max = 1024;
  static constexpr std::size_t burst_bytes = std::size_t{1} << 20;

  /// Opens the stack and binds to `local`. `waiter` serves the requests that wait for an answer before data flows.
  [[nodiscard]] static std::expected<std::unique_ptr<Transport>, Failure> open(StreamSet& set, Waiter& waiter,
                                                                               const StackDeclaration& stack,
                                                                               const wire::TransportAddress& local);

  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  /// The largest datagram that the provider accepts.
  [[nodiscard]] std::size_t tsdu_bytes() const;

  /// No datagram is fragmented, here or by a router, so that a sender may search for the path MTU.
  [[nodiscard]] bool never_fragments() const { return never_fragments_; }

  /// How many bytes of payload wait in the driver, at least, before some are lost.
  [[nodiscard]] std::size_t receive_room() const { return receive_room_; }

  /// Sends what is left in `burst`, in order. False: the transport is full; what it has not taken is left in the burst,
  /// try again after the next event. A datagram that fails is lost, as if the network had lost it.
  bool send(Burst& burst);
  /// False when send() would send nothing. The run loop's wait ends when there is room again.
  [[nodiscard]] bool can_send() { return endpoint_->stream().can_put(); }

  /// Hands every waiting datagram to `handler`, up to a burst and what came together with its last one. True when more
  /// may wait. A payload that the handler names a place for lands there in one pass, which also verifies and opens it.
  bool receive(DatagramHandler& handler);

  /// Waits until the sent datagrams have left, for `time` at most.
  void drain(Duration time);

  [[nodiscard]] Stream& stream() { return endpoint_->stream(); }

 private:
  Transport(std::unique_ptr<tli::Endpoint> endpoint, const wire::TransportAddress& local, bool never_fragments);

  /// Receives the datagrams that came together, run_; their bytes, 0 where it takes another way.
  std::size_t take_run(DatagramHandler& handler);
  /// Lands the datagram whose header is `header` in `place`; false where that cannot be done, and it still waits.
  bool land(DatagramHandler& handler, const PayloadPlace& place, Bytes header, std::size_t datagram_bytes,
            const Peer& from);
  /// Receives the datagram whose header `unit` shows.
  void take_shown(DatagramHandler& handler, const tli::t_unitdata& unit, std::size_t datagram_bytes);
  /// Receives the unit data error that waits and records which peer refused.
  void take_error();

  std::unique_ptr<tli::Endpoint> endpoint_;
  wire::TransportAddress local_;
  bool never_fragments_;
  std::size_t receive_room_;
  std::vector<Peer> refused_;  // peers whose host says that nobody listens; receive() reports them
  bool too_big_ = false;       // a datagram was; likewise
  std::vector<std::byte> buffer_;
  std::vector<Bytes> run_;
  std::shared_ptr<OpeningStage> opening_ = std::make_shared<OpeningStage>();
};

/// The address bytes of a peer, as the transport writes them.
[[nodiscard]] Peer peer_of(const wire::TransportAddress& address);
/// What all addresses of the same host have in common: the IPv4 address, a link-local IPv6 address, or the first 64
/// bits of another one, since the rest is the host's to choose (RFC 4291 section 2.5.4: "All Global Unicast addresses
/// other than those that start with binary 000 have a 64-bit interface ID field").
[[nodiscard]] ConstBytes host_of(ConstBytes address);

}  // namespace sluice::ftx
