// SPDX-License-Identifier: Apache-2.0
#pragma once

// ClientHandshake: a client's way to a sealed session with a standing server. Sans-I/O (apps/ftx/session/endpoint.h
// says how to drive it).
//
//   greeting   sends HELLO until a COOKIE arrives
//   shaking    carries the TLS handshake over a ControlStream
//   settling   has the keys; its last flight has yet to be acknowledged, or refused
//   complete   protection() is the session's
//   failing    tells the server once, if there is something to tell
//   failed
//
// It waits for the acknowledgement before the session begins: a server refuses a client only then, and so says why
// before anything is sent.
//
// Threat: an ERROR of somebody who forges it ends the handshake, since there are no keys yet: he must know its
// connection, 64 random bits, so he is on the path and could drop everything as well. Nothing forged leads to a
// session: that takes the handshake, whose keys also depend on the cipher.
//
// Not thread-safe.

#include <algorithm>
#include <optional>
#include <utility>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/security/handshake.h"
#include "apps/ftx/session/control_stream.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/event.h"
#include "apps/ftx/session/protection.h"

namespace sluice::ftx {

/// The protection of the session that this handshake was for. REQUIRES: it is complete.
[[nodiscard]] Result<Protection> protection_of(const Handshake& handshake, Cipher cipher, Side side);

struct ClientHandshakeOptions {
  Peer peer;
  std::size_t tsdu_bytes = 1472;
  std::uint64_t seed = 0;  // of the connection identifier; unpredictable outside of tests
  Cipher cipher = Cipher::aes_128_gcm;
  Duration timeout = std::chrono::seconds(10);
};

class ClientHandshake {
 public:
  enum class State : std::uint8_t { greeting, shaking, settling, complete, failing, failed };

  /// REQUIRES: adu_bytes_for(options.tsdu_bytes, true) > 0; `handshake` is a client's and has just begun.
  ClientHandshake(TimePoint now, ClientHandshakeOptions options, Handshake handshake);

  void receive(TimePoint now, ConstBytes datagram, const Peer& from = {});
  void unreachable(TimePoint now, const Peer& peer);
  void interrupt(TimePoint now);
  void transmit(TimePoint now, Burst& burst);
  [[nodiscard]] TimePoint next_deadline() const;
  std::optional<Event> next_event() { return std::nullopt; }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool over() const { return state_ == State::complete || state_ == State::failed; }
  /// REQUIRES: state() == State::complete. Once.
  [[nodiscard]] Protection take_protection() { return *std::exchange(protection_, std::nullopt); }
  /// What both ends' transports carry: the TSDU of the session's sender. REQUIRES: state() == State::complete.
  [[nodiscard]] std::size_t tsdu_bytes() const {
    return std::max(control_bytes_max, data_header_bytes + adu_bytes_ + tag_bytes);
  }
  /// REQUIRES: state() == State::failed.
  [[nodiscard]] const Failure& failure() const { return failure_; }
  /// It failed because the server has seen who this client is.
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  void on_cookie(TimePoint now, ConstBytes datagram);
  void on_control(TimePoint now, ConstBytes datagram);
  void on_error(ConstBytes datagram);
  void advance();
  void fail(Failure failure);
  [[nodiscard]] std::size_t next(TimePoint now, Bytes out);

  ClientHandshakeOptions options_;
  Handshake handshake_;
  Envelope envelope_;
  State state_ = State::greeting;
  Failure failure_;
  bool refused_ = false;
  std::optional<Protection> protection_;
  TimePoint started_at_;
  TimePoint asked_at_{};
  TimePoint repeat_at_;
  Duration repeat_interval_;
  std::uint32_t adu_bytes_;
  Cookie cookie_{};
  ControlStream stream_;
  std::uint64_t dropped_ = 0;
};

}  // namespace sluice::ftx
