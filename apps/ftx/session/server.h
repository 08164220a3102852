// SPDX-License-Identifier: Apache-2.0
#pragma once

// Server: all receiving sessions of one endpoint. It demultiplexes by (peer, connection), sealed sessions by connection
// alone, opens and seals for them (server_sealed.cc), answers strangers without keeping state for them, and bounds the
// memory that peers can make it use. Sans-I/O (apps/ftx/session/endpoint.h says how to drive it).
//
// Threat: a host that takes what there is, so that nobody else is served. A host may have a part of the sessions, of
// the memory and of the open files; who gives way when the server is full, apps/ftx/session/admission.h says.
// Dispensable is a session that is over and, where all arrived, closed by its sender.
//
// A standing server (options.handshake) takes sealed sessions only, after a TLS handshake of which it keeps nothing
// before the client's cookie was good (apps/ftx/session/handshakes.h). What clients ask for it sends
// (apps/ftx/session/pulls.h, server_sealed.cc), if there is a Provider and they may.
//
// A stranger gets at most one datagram for each of its own, and never a larger one: COOKIE (47 bytes) for a HELLO
// (1200), ERROR for an unknown connection.
//
// Borrows the Destination. Not thread-safe. receive() is O(1); next_deadline() is linear in the sessions.

#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/ftx/recovery/ring.h"
#include "apps/ftx/session/admission.h"
#include "apps/ftx/session/cookie.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/handshakes.h"
#include "apps/ftx/session/path_validation.h"
#include "apps/ftx/session/payload_place.h"
#include "apps/ftx/session/protection.h"
#include "apps/ftx/session/pulls.h"
#include "apps/ftx/session/receiver.h"

namespace sluice::ftx {

struct ServerOptions {
  std::uint64_t seed = 0;  // of the cookie key; unpredictable outside of tests
  std::size_t tsdu_bytes = 1472;
  /// Takes sessions that are not sealed from anybody. Without it the server answers nobody but those it expects.
  bool insecure = false;
  /// Takes sealed sessions from whom it proves. Not with `insecure`.
  std::optional<HandshakeContext> handshake{};
  HandshakeLimits handshake_limits{};
  /// What clients of `handshake` may fetch; null: nothing. It outlives the server.
  Provider* provider = nullptr;
  AdmissionLimits pull_limits{.sessions_max = 16, .per_host_max = 8};
  /// What a client of `handshake` may do. Asked when it wants to, so that who is taken off a list no longer may.
  std::function<Access(const Client&)> access = [](const Client&) { return Access::both; };
  /// How many bytes of files peers may move, all sessions together and one of them. What was written or sent counts,
  /// whatever became of the session.
  std::uint64_t quota_bytes = Budget::unlimited;
  std::uint64_t transfer_bytes_max = Budget::unlimited;
  /// How many files, directories and links peers may make, likewise.
  std::uint64_t quota_entries = Budget::unlimited;
  std::uint64_t transfer_entries_max = Budget::unlimited;
  /// What the transport holds of payload that nobody has read yet. Sessions share it (Report::credit_bytes).
  std::uint64_t receive_room_bytes = std::uint64_t{1} << 20;
  AdmissionLimits session_limits{.sessions_max = 64, .per_host_max = 32};
  std::uint64_t memory_bytes_max = 384U << 20;           // lists of files and slots, all sessions together
  std::uint64_t memory_per_host_bytes_max = 192U << 20;  // a million files have room
  std::uint64_t open_files_max = 512;                    // all sessions together, beside one of each session
  std::uint64_t open_files_per_host_max = Budget::files_max;
  /// The part of an address that all addresses of one host have in common.
  ConstBytes (*host_of)(ConstBytes address) = [](ConstBytes address) { return address; };
  ReceiverOptions receiver{};
};

class Server {
 public:
  /// The most answers to strangers that wait to be sent. From half of them on answers_wait(): the rest is for the
  /// datagrams of one run, each of which may want one.
  static constexpr std::size_t answers_max = 128;
  /// What a peer is told for whom there is no room.
  static constexpr std::string_view busy_text = Pulls::busy_text;

  /// REQUIRES: adu_bytes_for(options.tsdu_bytes) > 0.
  Server(ServerOptions options, Destination& destination);

  /// The session of this protection may begin: its first datagram comes sealed.
  void expect(Protection protection);
  /// Begins the session of this protection: knocks at `at`, all of them, until its sender offers. If none does within
  /// `timeout`, that is an event of kind error. Without any address the sender knows already, and is waited for.
  void invite(TimePoint now, Protection protection, std::vector<Peer> at, Duration timeout);

  void receive(TimePoint now, ConstBytes datagram, const Peer& from);
  /// As receive(), of datagrams that came together. Those that continue what has arrived (data_run()) are one piece of
  /// work; payloads that follow each other in a file are written with one call, from where they lie or, if they were
  /// sealed, were opened to. Those that were sealed may be written later, with those of the next calls: before anything
  /// else is done, and so before a report says that they have landed. What is in the datagrams afterwards is
  /// unspecified.
  void receive_run(TimePoint now, std::span<const Bytes> datagrams, const Peer& from);

  /// receive() in three steps, for callers that land payloads themselves: call inspect(); if it answers `land`, put the
  /// payload into its place; then call landed() or landing_failed() of the session. A place is memory, perhaps of the
  /// file itself, or a file to write to. A caller that finds the payload damaged calls neither: the place stays
  /// unmarked, and the ADU arrives again. Session and place are valid until the next call of the server.
  struct Inspection {
    enum class Kind {
      other,     // not DATA for an open session: pass the whole datagram to receive()
      unwanted,  // done
      land,
    };
    Kind kind = Kind::other;
    Receiver* session = nullptr;
    Receiver::Landing landing{};
  };
  /// receive() in two steps, for a transport that verifies a datagram, and opens it, while it copies it. First step:
  /// the memory for the payload, and what opens it. Changes no state, because nothing has verified the header. Empty:
  /// no such memory.
  [[nodiscard]] PayloadPlace memory_for(ConstBytes header, std::size_t datagram_bytes, const Peer& from);
  /// Second step, if the datagram verified and opened: its payload is in `memory`. REQUIRES: memory_for() named that
  /// memory for the same header, with no other call of the server in between.
  void placed(TimePoint now, ConstBytes header, std::size_t datagram_bytes, const Peer& from, Bytes memory);
  /// Or it verified, and did not open.
  void forged() { ++drops_.forged; }
  /// `header` is the datagram or at least its first data_header_bytes, verified.
  [[nodiscard]] Inspection inspect(TimePoint now, ConstBytes header, std::size_t datagram_bytes, const Peer& from);

  /// The transport refused a datagram as too large, or an ICMP message says so of one (EMSGSIZE).
  void too_big(TimePoint now) { pulls_.too_big(now); }

  /// An ICMP message says that nothing listens at `peer`. Ends the streams from there that are silent
  /// (Receiver::sender_refuses()).
  void unreachable(TimePoint now, const Peer& peer);

  /// The server stops: every open session fails, and transmit() tells its peer.
  void interrupt(TimePoint now);

  /// Replaces what is in `burst` by the next datagrams; left empty: none now.
  void transmit(TimePoint now, Burst& burst);
  /// The next datagram and its peer; 0: none now. REQUIRES: `out` holds control_bytes_max.
  std::size_t transmit(TimePoint now, Bytes out, Peer& to);
  [[nodiscard]] TimePoint next_deadline() const;

  std::optional<Event> next_event();
  /// Who is invited has offered, or says that he will; or did not in time.
  [[nodiscard]] bool begun() const { return std::ranges::all_of(invitations_, &Invitation::answered); }
  /// Bytes of payloads that were sealed or opened outside of the transport's pass, each in one pass.
  [[nodiscard]] std::uint64_t cipher_bytes() const { return opened_bytes_ + pulls_.cipher_bytes(); }
  [[nodiscard]] std::size_t handshakes() const { return handshakes_ ? handshakes_->size() : 0; }
  [[nodiscard]] std::uint64_t quota_left() const { return budget_.storage.left(); }
  [[nodiscard]] std::uint64_t quota_entries_left() const { return budget_.entries.left(); }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size() + pulls_.size(); }
  /// Sessions that are neither finished nor failed.
  [[nodiscard]] std::size_t open_sessions() const;
  /// A caller that receives before it sends loses answers to strangers.
  [[nodiscard]] bool answers_wait() const { return answers_.size() >= answers_max / 2; }
  /// Sessions whose peer has not closed yet.
  [[nodiscard]] std::size_t unclosed_sessions() const;
  [[nodiscard]] const DropCounters& drops() const { return drops_; }
  [[nodiscard]] std::uint64_t memory_left() const { return budget_.memory.left(); }
  [[nodiscard]] std::uint64_t open_files() const { return budget_.files.used(); }

 private:
  struct Key {
    Peer peer;
    std::uint64_t connection = 0;
    bool operator==(const Key&) const = default;
  };
  [[nodiscard]] static Key key_of(const Envelope& envelope, const Peer& from);
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Answer {
    Peer to;
    Envelope envelope;
    std::uint64_t nonce = 0;  // of the HELLO
    std::uint32_t adu_bytes = 0;
    ExitCode code = ExitCode::ok;     // ok: a COOKIE, else an ERROR
    std::vector<std::byte> sealed{};  // the whole datagram, if it is sealed
  };

  struct Session {
    std::unique_ptr<Receiver> receiver;
    Peer peer;
    Peer host;
    std::optional<Protection> protection;
    Client client;
    std::optional<PathValidation> path;
    std::optional<std::uint64_t> response_due;
  };
  /// A sender that has yet to offer.
  struct Invitation {
    std::uint64_t connection = 0;
    std::vector<Peer> at;
    std::size_t next = 0;  // of `at`
    TimePoint knock_at{};
    Duration interval{};
    Duration timeout{};
    TimePoint until{};
    bool answered = false;
  };
  using Sessions = std::unordered_map<Key, Session, KeyHash>;

  void begin_run(TimePoint now, Receiver& receiver);
  void end_run(TimePoint now);
  void receive_sealed(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  [[nodiscard]] bool open_payload(Session& session, ConstBytes datagram, Bytes place);
  [[nodiscard]] bool open_in_place(Session& session, const Envelope& envelope, Bytes& datagram);
  void make_room_for_run(TimePoint now, std::size_t bytes);
  [[nodiscard]] std::uint32_t open_run(Session& session, std::span<const Bytes> datagrams, std::size_t payload_bytes);
  void receive_sealed_run(TimePoint now, Session& session, const Envelope& envelope, std::span<const Bytes> datagrams,
                          const Peer& from);
  /// Of a datagram that is not sealed, or not any more.
  [[nodiscard]] static Envelope plain_of(const Envelope& envelope) { return {envelope.kind, 0, envelope.connection}; }
  [[nodiscard]] bool receive_sealed_data(TimePoint now, Session& session, const Envelope& envelope,
                                         ConstBytes datagram);
  void follow_path(TimePoint now, Session& session, const Envelope& envelope, ConstBytes opened, const Peer& from);
  [[nodiscard]] std::size_t transmit_knock(TimePoint now, Bytes out, Peer& to);
  [[nodiscard]] std::size_t transmit_sealed(Session& session, Bytes out, Peer& to);
  void give_up_invitations(TimePoint now);
  void receive_stranger(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  void greet(const Envelope& envelope, ConstBytes datagram, const Peer& from);
  void open(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  void on_invited(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  void open_expected(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  void on_control(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from);
  void refuse_plain(TimePoint now, const Envelope& envelope, const Cookie& cookie, const Peer& from);
  void admit(TimePoint now, const Envelope& envelope, const Offer& offer, const Peer& from,
             std::optional<Protection> protection, Client client, bool may_read);
  [[nodiscard]] bool make_room(TimePoint now, const Peer& host);
  [[nodiscard]] std::uint64_t credit_bytes() const;
  [[nodiscard]] Peer host_of(const Peer& peer) const { return Peer(options_.host_of(peer.address())); }
  void displace(TimePoint now, Sessions::iterator session);
  Sessions::iterator erase(Sessions::iterator session);
  void answer(const Answer& answer);
  [[nodiscard]] bool may_read(const Client& client) const;
  void answer_sealed(Protection& protection, const Envelope& envelope, const Peer& to, const Failure& failure);
  void answer_sealed(Protection& protection, const Peer& to, const Envelope& envelope,
                     const std::function<std::size_t(Bytes)>& emit);
  void serve_requests(TimePoint now);
  [[nodiscard]] std::expected<void, Failure> serve(TimePoint now, const Handshakes::Request& request);
  [[nodiscard]] std::size_t open_receivers() const;
  std::size_t transmit_answer(TimePoint now, Bytes out, Peer& to);

  ServerOptions options_;
  Destination& destination_;
  CookieJar jar_;
  Budget budget_;
  EventQueue events_;
  DropCounters drops_;
  std::uint64_t opened_bytes_ = 0;
  std::unordered_map<std::uint64_t, Protection> expected_;  // by connection
  std::vector<Invitation> invitations_;                     // of those
  std::optional<Handshakes> handshakes_;
  Pulls pulls_;
  std::vector<std::byte> opened_;  // a DATA datagram without its seal
  AduDecompressor decompressor_;
  /// The most that a transport receives in one turn; kernel_udp brings a quarter of it. Written at once that costs less
  /// than in runs of 64 KiB, of 1 MiB a twelfth.
  static constexpr std::size_t opened_runs_bytes = (std::size_t{1} << 20) + 65536;
  std::vector<std::byte> opened_runs_;  // payloads of DATA datagrams, one behind the other
  std::size_t opened_used_ = 0;         // bytes of these that in_run_ may not have written yet
  Receiver* in_run_ = nullptr;          // whose run is being received, or has payloads that wait to be written
  bool run_borrows_ = false;            // some of them may lie in the datagrams of this receive_run()
  Ring<Answer> answers_;
  /// Exists while it has sessions.
  struct Host {
    Host(const ServerOptions& options, Budget& server)
        : budget(options.memory_per_host_bytes_max, options.open_files_per_host_max, &server) {}
    Budget budget;
    std::size_t sessions = 0;
  };
  struct PeerHash {
    std::size_t operator()(const Peer& peer) const { return KeyHash{}({peer, 0}); }
  };
  std::unordered_map<Peer, Host, PeerHash> hosts_;  // before sessions_: they borrow
  Sessions sessions_;
  Key turn_;  // the session that transmitted last
};

}  // namespace sluice::ftx
