// SPDX-License-Identifier: Apache-2.0
#pragma once

// One socket of a program, as the server has it: its end of the pair, and what it stands for in the stack. What kind of
// socket it is says what crosses the pair (sockets/protocol/protocol.h).
//
// Work is done in turns: whatever happens at either side only notes that a turn is due (Host::wake), and a turn does a
// bounded amount. So no program keeps another one waiting, and nothing is called in the middle of something else.
//
// Threat: the program is not trusted. It may write anything into the pair, never read, close or duplicate its end at
// any time, and ask for anything in any order; it can harm no socket but its own. What it does not read waits in the
// pair, which the kernel bounds, and behind it at the peer, whose window closes.
//
// Ownership: owns both; the host outlives it. Threads: the stream set's.

#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "sockets/protocol/protocol.h"
#include "sockets/server/datagram_port.h"
#include "sockets/server/endpoint_options.h"
#include "sockets/server/poller.h"
#include "sockets/server/quotas.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::sockets {

class Socket;

/// What a request is answered with.
struct Reply {
  Answer answer;
  Descriptor passed;   // to the program
  bool later = false;  // the socket answers when it can (Host::answer)
};

[[nodiscard]] inline Reply refusal(int error) {
  Reply reply;
  reply.answer.error = error;
  return reply;
}

/// Who asked, for an answer that comes later. 0: nobody.
using Asker = std::uint64_t;

/// A pair of Unix sockets, the program's end known by its name and its inode.
struct Pair {
  Descriptor ours;     // non-blocking
  Descriptor program;  // blocking, as a new socket is
  ino_t inode = 0;     // of the program's end
};

/// What sockets need of the server they are part of.
class Host {
 public:
  using OpenEndpoint = std::function<Result<std::unique_ptr<tli::Endpoint>>()>;

  virtual ~Host() = default;
  /// Has Socket::turn() called soon.
  virtual void wake(Socket& socket) = 0;
  /// It ends.
  virtual void forget(const Socket& socket) = 0;
  virtual void answer(Asker asker, const Answer& answer) = 0;
  /// A new pair; EMFILE and its like.
  [[nodiscard]] virtual Result<Pair> make_pair(SocketKind kind) = 0;
  /// An endpoint for a socket of that kind, non-blocking and unbound.
  [[nodiscard]] virtual Result<std::unique_ptr<tli::Endpoint>> open_endpoint(SocketKind kind) = 0;
  /// Takes a socket over, and gives it its turns. EMFILE: its user has as many as one may have.
  [[nodiscard]] virtual int adopt(std::unique_ptr<Socket> socket) = 0;
  /// The ports of UDP that sockets have.
  [[nodiscard]] virtual std::vector<std::weak_ptr<DatagramPort>>& datagram_ports() = 0;
  [[nodiscard]] virtual Poller& poller() = 0;
  /// Where a connection begins whose program has named no port: not where one of the last hundreds has, since the peer
  /// may still have that one's end.
  [[nodiscard]] virtual std::uint16_t next_port() = 0;
  /// What users have, and may have.
  [[nodiscard]] virtual Quotas& quotas() = 0;
  [[nodiscard]] virtual StreamSet& set() = 0;
  /// Memory for the bytes of one turn.
  [[nodiscard]] virtual Bytes scratch() = 0;
};

class Socket : public Poller::Watched {
 public:
  /// What the program's end is to be called, and who it belongs to.
  struct Identity {
    ino_t inode = 0;
    uid_t user = 0;
    pid_t process = 0;
    int family = AF_INET;
  };

  Socket(Host& host, const Identity& identity, Descriptor channel);
  ~Socket() override;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] const Identity& identity() const { return identity_; }

  /// `shared`: together with others that say so.
  virtual Reply bind(const Address& address, bool shared) = 0;
  virtual Reply listen(int backlog);
  virtual Reply connect(const Request& request, Asker asker) = 0;
  [[nodiscard]] Reply names() const;
  [[nodiscard]] virtual SocketState state() const { return peer_ ? SocketState::connected : SocketState::idle; }
  [[nodiscard]] Reply take_error();
  Reply set_option(const Request& request);
  virtual void set_reset_at_close(bool) {}
  virtual Reply get_option(const Request& request);
  /// ENOTCONN: it has none, or nothing is known of it.
  virtual Reply connection() { return refusal(ENOTCONN); }

  /// For statistics.
  [[nodiscard]] virtual SocketRecord record();

  /// Does what is due, a bounded amount of it; whether more is.
  virtual bool turn() = 0;
  /// The pair is shut both ways, and nothing is left to do. Whether the program has closed its end cannot be told then,
  /// so the server keeps what it may still ask for (sockets/server/ended_sockets.h).
  [[nodiscard]] virtual bool finished() const = 0;

  void on_events(std::uint32_t events) override;

  // The server's: whether it is in the list of those whose turn is due, and its place among the sockets of its user.
  bool due = false;
  Quotas::Share counted;

 protected:
  /// To what there is of an endpoint now; options_ has changed.
  virtual void apply_options() = 0;
  [[nodiscard]] virtual bool is_bound() const = 0;
  /// Whether it is for IPv6 alone, and that is an address of IPv4.
  [[nodiscard]] bool excludes(const wire::TransportAddress& address) const;
  [[nodiscard]] bool v6() const { return identity_.family == AF_INET6; }
  void watch();
  /// The pair takes no more: a turn is due when it does.
  void await_room();
  /// Ends one direction, or both, of the pair, as shutdown(2) names them.
  void shut_down(int how);

  Host& host_;
  const Identity identity_;
  Descriptor channel_;
  std::optional<wire::TransportAddress> local_;
  std::optional<wire::TransportAddress> peer_;
  EndpointOptions options_;
  std::uint64_t received_ = 0;  // bytes given to the program
  std::uint64_t sent_ = 0;      // and to the stack
  int pending_error_ = 0;       // SO_ERROR
  bool readable_ = true;        // the channel, until it says EAGAIN
  bool writable_ = true;        // likewise
  bool closing_ = false;        // the program has shut its end, at least the way to us
  bool hung_up_ = false;        // the pair is shut both ways, as a rule since the program has closed its end
};

}  // namespace sluice::sockets
