// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pulls: the sessions of a standing server in which it sends: each begins with what a client asked for behind its
// handshake (apps/ftx/protocol/request.h). Sans-I/O; a Server drives them.
//
// Threat: clients that ask for much and take nothing. There are so many at most, and of one host; where there is no
// more room, apps/ftx/session/admission.h says who gives way. Each Sender ends by its own timers. Nothing is sent to an
// address that has not proved that it receives: the cookie and the handshake came from there, and a changed address is
// validated first (path_validation.h).
//
// Borrows the Provider. Not thread-safe. Every call is linear in the pulls, but make_room() where there is none.

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/session/admission.h"
#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/session/event.h"
#include "apps/ftx/session/handshakes.h"
#include "apps/ftx/session/sender.h"

namespace sluice::ftx {

/// What sends the files of one request.
struct OpenedPull {
  std::unique_ptr<Source> source;
  std::unique_ptr<CongestionControl> congestion;
  SenderOptions options;  // of which peer and path are set by who uses it

  /// Of all files.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// What a standing server has to send.
class Provider {
 public:
  virtual ~Provider() = default;
  /// The failure is told to the client: its text must say nothing that is not the client's to know.
  [[nodiscard]] virtual std::expected<OpenedPull, Failure> open(const PullRequest& request, const Peer& to) = 0;
};

class Pulls {
 public:
  /// What a client is told for whom there is no room.
  static constexpr std::string_view busy_text = "the server is busy: it has as many transfers as it may";

  /// REQUIRES: the limits are more than 0.
  Pulls(const AdmissionLimits& limits, EventQueue& events) : limits_(limits), events_(events) {}

  /// Makes room for one of `host`. False: there is none.
  [[nodiscard]] bool make_room(TimePoint now, const Peer& host);
  /// REQUIRES: make_room(now, host); pull.source has been opened.
  void begin(TimePoint now, OpenedPull pull, const Peer& host, Handshakes::Taken taken);

  [[nodiscard]] bool knows(std::uint64_t connection) const;
  /// REQUIRES: knows(connection).
  void receive(TimePoint now, std::uint64_t connection, ConstBytes datagram, const Peer& from);
  void interrupt(TimePoint now);
  void too_big(TimePoint now);

  /// Adds the next datagrams of one session to an empty burst.
  void transmit(TimePoint now, Burst& burst);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Those whose outcome is not known yet.
  [[nodiscard]] std::size_t open() const;
  [[nodiscard]] std::size_t size() const { return pulls_.size(); }
  /// As Sender has it, of all so far.
  [[nodiscard]] std::uint64_t cipher_bytes() const;
  /// How many bytes of files those that have ended since the last call had announced and not sent.
  [[nodiscard]] std::uint64_t take_unsent() { return std::exchange(unsent_bytes_, 0); }

 private:
  struct Entry {
    std::uint64_t connection = 0;
    Peer host;
    std::string client;
    std::string path;  // for people
    std::unique_ptr<Source> source;
    std::unique_ptr<CongestionControl> congestion;
    std::unique_ptr<Sender> sender;  // borrows both
    std::uint64_t total_bytes = 0;
    bool leaving = false;  // its outcome is known
  };
  using Entries = std::list<Entry>;

  void take_events(Entry& entry);

  AdmissionLimits limits_;
  EventQueue& events_;
  Entries pulls_;
  std::uint64_t unsent_bytes_ = 0;
  std::uint64_t ended_cipher_bytes_ = 0;  // of those that are not there any more
};

}  // namespace sluice::ftx
