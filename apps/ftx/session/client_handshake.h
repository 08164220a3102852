// SPDX-License-Identifier: Apache-2.0
#pragma once

// ClientHandshake: a client's way to a sealed session with a standing server. Sans-I/O (apps/ftx/session/endpoint.h
// says how to drive it).
//
//   greeting   sends HELLO until a COOKIE arrives
//   shaking    carries the TLS handshake over a ControlStream
//   settling   has the keys; its last flight has yet to be acknowledged, or refused
//   complete   the server has its last flight; it may still refuse what was asked for
//   failing    tells the server once, if there is something to tell
//   failed
//
// The keys are there as soon as the server has proved who it is, and the session may begin with them at once, beside
// this: RFC 8446 section 4.4.4: "Once a side has sent its Finished message and has received and validated the Finished
// message from its peer, it may begin to send and receive Application Data over the connection." Who drives the session
// drives this, too, until the session's peer has answered (settle()): so the last flight is repeated, and a refusal is
// heard. What is sent so early only this server can open; a server that refuses the client opens none of it.
//
// Several addresses are tried as Attempts says. The first that sends a COOKIE counts.
//
// Threat: an ERROR of somebody who forges it ends the handshake as long as there are no keys: he must know its
// connection, 64 random bits, so he is on the path and could drop everything as well. Nothing forged leads to a
// session: that takes the handshake, whose keys also depend on the cipher.
//
// Not thread-safe.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/protocol/request.h"
#include "apps/ftx/security/handshake.h"
#include "apps/ftx/session/attempts.h"
#include "apps/ftx/session/control_stream.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/event.h"
#include "apps/ftx/session/protection.h"

namespace sluice::ftx {

/// The protection of the session that this handshake was for. REQUIRES: it is complete.
[[nodiscard]] Result<Protection> protection_of(const Handshake& handshake, Cipher cipher, Side side);

struct ClientHandshakeOptions {
  Peer peer;
  /// Where the server may be as well, in the order in which they are tried.
  std::vector<Peer> others{};
  /// What the client wants to fetch; none: it sends.
  std::optional<PullRequest> request{};
  std::size_t tsdu_bytes = 1472;
  std::uint64_t seed = 0;  // of the connection identifier; unpredictable outside of tests
  Cipher cipher = Cipher::aes_128_gcm;
  Duration timeout = std::chrono::seconds(10);
};

class ClientHandshake {
 public:
  enum class State : std::uint8_t { greeting, shaking, settling, complete, failing, failed };

  /// REQUIRES: adu_bytes_for(options.tsdu_bytes, true) > 0; `handshake` is a client's and has just begun; the request
  /// can be encoded.
  ClientHandshake(TimePoint now, ClientHandshakeOptions options, Handshake handshake);

  void receive(TimePoint now, ConstBytes datagram, const Peer& from = {});
  void unreachable(TimePoint now, const Peer& peer);
  void interrupt(TimePoint now);
  void transmit(TimePoint now, Burst& burst);
  [[nodiscard]] TimePoint next_deadline() const;
  std::optional<Event> next_event() { return std::nullopt; }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool over() const { return state_ == State::complete || state_ == State::failed; }
  /// The server has proved who it is, and the session may begin.
  [[nodiscard]] bool has_keys() const { return protection_.has_value(); }
  /// REQUIRES: has_keys(). Once.
  [[nodiscard]] Protection take_protection() { return *std::exchange(protection_, std::nullopt); }
  /// The session's peer has answered: nothing is left to send or to hear.
  void settle();
  [[nodiscard]] bool settled() const { return settled_; }
  /// The address that answered. REQUIRES: a COOKIE came.
  [[nodiscard]] const Peer& peer() const { return options_.peer; }
  /// A datagram of this handshake, and not of the session that follows.
  [[nodiscard]] bool owns(const Envelope& envelope) const {
    return !envelope.sealed() && envelope.connection == envelope_.connection;
  }
  /// What both ends' transports carry: the TSDU of the session's sender. REQUIRES: a COOKIE came.
  [[nodiscard]] std::size_t tsdu_bytes() const {
    return std::max(control_bytes_max, data_header_bytes + adu_bytes_ + tag_bytes);
  }
  /// REQUIRES: state() == State::failed.
  [[nodiscard]] const Failure& failure() const { return failure_; }
  /// It failed because the server has judged this client's key or secret.
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  void on_cookie(TimePoint now, ConstBytes datagram, const Peer& from);
  void on_control(TimePoint now, ConstBytes datagram);
  void on_error(ConstBytes datagram);
  void advance();
  void take_keys();
  void take_refusal();
  void fail(Failure failure);
  [[nodiscard]] std::size_t next(TimePoint now, Bytes out, Peer& to);
  [[nodiscard]] std::size_t next_hello(TimePoint now, Bytes out, Peer& to);

  ClientHandshakeOptions options_;
  Handshake handshake_;
  Envelope envelope_;
  State state_ = State::greeting;
  Failure failure_;
  bool refused_ = false;
  std::optional<Protection> protection_;
  bool keyed_ = false;  // protection_ has been made
  bool settled_ = false;
  std::vector<std::byte> refusal_;  // what has come of it
  TimePoint started_at_;
  TimePoint asked_at_{};
  Attempts attempts_;
  std::uint32_t adu_bytes_;
  Cookie cookie_{};
  ControlStream stream_;
  std::uint64_t dropped_ = 0;
};

}  // namespace sluice::ftx
