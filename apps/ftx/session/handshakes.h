// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handshakes: what a standing server keeps of clients between their cookie and their OFFER: the TLS handshake, then the
// keys. Sans-I/O; a Server drives it, and has checked the cookie of what begins one.
//
// Threat: clients, of many addresses even, that begin handshakes and never finish them, so that others find no room, or
// so that the server does nothing but sign. There are handshakes_max at most, per_host_max of one host. Where there is
// no more room the oldest gives way (of that host, or of all), but not before yields_after: so a client has that long
// to answer whatever others do, and neither a host nor all of them can make the server sign more often than
// per_host_max or handshakes_max times in it. In a crowd one gives way each yields_after / handshakes_max, so that who
// tries again has a new chance each time. A handshake ends after `timeout`, and so does one that is complete and
// neither offers nor asks for anything. Each takes about 50 KiB, most of it OpenSSL's, and none before its cookie was
// good.
//
// A client that wants to fetch files says so behind its handshake (apps/ftx/protocol/request.h), once. Whoever drives
// this takes the session or refuses the request.
//
// Not thread-safe. Every call is linear in the handshakes; transmit() and next_deadline() are O(1) where nothing is
// due.

#include <deque>
#include <list>
#include <optional>
#include <string>

#include "apps/ftx/protocol/request.h"
#include "apps/ftx/security/access.h"
#include "apps/ftx/security/handshake.h"
#include "apps/ftx/session/control_stream.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/protection.h"

namespace sluice::ftx {

struct HandshakeLimits {
  std::size_t handshakes_max = 256;
  std::size_t per_host_max = 32;
  Duration timeout = std::chrono::seconds(10);
  Duration yields_after = std::chrono::milliseconds(250);
};

/// Who a sealed session's client is, as the handshake has proved it.
struct Client {
  std::optional<KeyPin> key{};
  bool has_shared_secret = false;
  /// For people and events; empty: nobody knows.
  [[nodiscard]] std::string text() const {
    return key ? key->text() : has_shared_secret ? std::string("shared secret") : std::string();
  }
};

class Handshakes {
 public:
  /// The most refusals that wait to be told to the program.
  static constexpr std::size_t refusals_max = 16;

  /// REQUIRES: the limits are more than 0.
  Handshakes(HandshakeContext context, HandshakeLimits limits) : context_(std::move(context)), limits_(limits) {}

  /// True when a handshake of this connection is under way there.
  [[nodiscard]] bool knows(const Peer& peer, std::uint64_t connection);
  /// Begins a handshake. False: no room. REQUIRES: `peer` receives at its address; !knows(peer, connection); the cipher
  /// is known.
  [[nodiscard]] bool begin(TimePoint now, const Peer& peer, const Peer& host, std::uint64_t connection, Cipher cipher);
  /// False: of no use. REQUIRES: knows(peer, connection).
  bool receive(TimePoint now, const Peer& peer, std::uint64_t connection, const Control& control);

  /// The keys of the session that a complete handshake has led to; null: none.
  [[nodiscard]] Protection* find(std::uint64_t session);
  /// Who that session's client is. REQUIRES: find(session).
  [[nodiscard]] const Client& client_of(std::uint64_t session);
  struct Taken {
    Protection protection;
    Client client;
    Peer peer;  // where the handshake was; it receives there
  };
  /// The session begins: its handshake is forgotten. REQUIRES: find(session).
  [[nodiscard]] Taken take(std::uint64_t session);

  struct Request {
    std::uint64_t session = 0;
    Peer peer;
    Peer host;
    PullRequest pull;
  };
  /// What a client wants to fetch. Each is to be taken or refused before anything else happens here.
  std::optional<Request> next_request();
  /// The client is told why it gets nothing; its handshake ends. REQUIRES: find(session).
  void refuse_request(std::uint64_t session, const Failure& failure);

  /// The next datagram and its peer; 0: none now. REQUIRES: `out` holds control_bytes_max.
  std::size_t transmit(TimePoint now, Bytes out, Peer& to);
  [[nodiscard]] TimePoint next_deadline() const { return next_; }

  /// Why a client was refused; the program may say it.
  std::optional<std::string> next_refusal();
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Those that gave way to others.
  [[nodiscard]] std::uint64_t displaced() const { return displaced_; }

 private:
  struct Entry {
    Peer peer;
    Peer host;
    std::uint64_t connection = 0;
    Cipher cipher{};
    TimePoint began_at{};
    TimePoint until{};
    std::optional<Handshake> handshake;    // until the client is refused
    std::optional<Protection> protection;  // when it is complete
    Client client{};
    ControlStream stream{};
    std::vector<std::byte> message{};  // of the request, what has come
    std::optional<PullRequest> request{};
  };
  using Entries = std::list<Entry>;  // the oldest first

  [[nodiscard]] Entries::iterator find(const Peer& peer, std::uint64_t connection);
  [[nodiscard]] bool make_room(TimePoint now, const Peer& host);
  void advance(TimePoint now, Entry& entry);
  void take_keys(TimePoint now, Entry& entry);
  void take_message(Entry& entry);
  void refuse(Entry& entry, std::string why);
  void tell(Entry& entry, const Failure& failure);
  [[nodiscard]] Entries::iterator entry_of(std::uint64_t session);

  HandshakeContext context_;
  HandshakeLimits limits_;
  Entries entries_;
  TimePoint next_ = never;  // when transmit() has something to do
  std::deque<std::string> refusals_;
  std::uint64_t displaced_ = 0;
  TimePoint displaced_at_{};  // for another host
};

}  // namespace sluice::ftx
