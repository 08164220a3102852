// SPDX-License-Identifier: Apache-2.0
#pragma once

// The server that owns a stack, and whose clients' sockets are sockets of that stack: the outboard transport of the L3
// papers ("T-server"), one process for all programs of a host. sockets/protocol/protocol.h says what it and the library
// in the programs say to each other.
//
//     auto server = Server::open(set, {.path = "/run/user/1000/sluice.sock"}, open_stream, open_datagram);
//     while (!stopped) {
//       loop.wait((*server)->busy() ? TimePoint::min() : never);
//       (*server)->turn();
//     }
//
// Who may have sockets is who may write to the server's own socket: its file has `mode`. Each user may have
// what quotas.h says, and the server never has more than `clients_max` requests under way.
//
// Threat: clients are not trusted. A request has one size and a version, and names its socket by showing its
// descriptor: who has none can do nothing to it. A client that says nothing, or does not take its answer, keeps a
// connection, of which there is a bounded number, the oldest of which goes first. Statistics are a file, made a few
// times a second at most, whoever asks (sockets/server/snapshot.h): who may have sockets may see all. What a client may
// do to its own socket: socket.h.
//
// Ownership: owns all sockets; the set and the endpoints' waiter outlive it. Threads: the set's.

#include <sys/socket.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sockets/server/ended_sockets.h"
#include "sockets/server/quotas.h"
#include "sockets/server/socket.h"
#include "stack/core/scheduler.h"

namespace sluice::sockets {

class Server final : private Host {
 public:
  struct Options {
    std::string path;
    mode_t mode = S_IRUSR | S_IWUSR;
    Quotas::Limits per_user{};
    std::size_t clients_max = 256;
  };
  struct Statistics {
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;      // requests that were answered with an error
    std::uint64_t malformed = 0;    // messages that are no request
    std::uint64_t crowded_out = 0;  // clients that others took the place of
    std::size_t sockets = 0;
  };

  /// Listens at `options.path`, in place of what a server that is gone has left there. EADDRINUSE: one is there;
  /// EEXIST: something that is no socket is. `open_stream`, `open_datagram`: empty where the stack has none.
  [[nodiscard]] static Result<std::unique_ptr<Server>> open(StreamSet& set, const Options& options,
                                                            OpenEndpoint open_stream, OpenEndpoint open_datagram);
  ~Server() override;

  /// Gives their turns to those that are due.
  void turn();
  /// Whether some are due now.
  [[nodiscard]] bool busy() const { return !due_.empty() || !heard_.empty() || callers_wait_; }
  [[nodiscard]] Statistics statistics() const;

 private:
  class Client;
  class Listener;

  Server(StreamSet& set, const Options& options, OpenEndpoint open_stream, OpenEndpoint open_datagram,
         std::unique_ptr<Poller> poller, Descriptor listening);

  void wake(Socket& socket) override;
  void forget(const Socket& socket) override { std::erase(due_, &socket); }
  void answer(Asker asker, const Answer& answer) override;
  Result<Pair> make_pair(SocketKind kind) override;
  Result<std::unique_ptr<tli::Endpoint>> open_endpoint(SocketKind kind) override;
  int adopt(std::unique_ptr<Socket> socket) override;
  std::vector<std::weak_ptr<DatagramPort>>& datagram_ports() override { return datagram_ports_; }
  Poller& poller() override { return *poller_; }
  Quotas& quotas() override { return quotas_; }
  std::uint16_t next_port() override;
  StreamSet& set() override { return set_; }
  Bytes scratch() override { return scratch_; }

  static constexpr Duration snapshot_life = std::chrono::milliseconds(250);
  static constexpr unsigned port_min = 49152;  // RFC 6335 section 6: the Dynamic Ports
  static constexpr unsigned port_step_max = 32;
  static constexpr Duration callers_pause = std::chrono::milliseconds(100);
  static constexpr std::size_t ended_max = 4096;

  void take_clients();
  void hear(Client& client);
  Reply open_socket(const Request& request, const ucred& client);
  Reply execute(const Request& request, int shown, const ucred& client, Asker asker);
  Reply tell_statistics();
  void erase(Socket& socket);
  Reply answer_for_ended(const Request& request, ino_t inode);

  StreamSet& set_;
  const Options options_;
  OpenEndpoint open_stream_;
  OpenEndpoint open_datagram_;
  std::unique_ptr<Poller> poller_;
  Descriptor listening_;
  dev_t device_ = 0;  // of the file that listening_ is bound to, and its inode: ours to remove
  ino_t inode_ = 0;
  std::unique_ptr<Listener> listener_;
  Timer look_again_;  // for clients, when there was no descriptor for one
  std::vector<std::byte> scratch_;
  Quotas quotas_;
  std::vector<std::weak_ptr<DatagramPort>> datagram_ports_;
  std::unordered_map<ino_t, std::unique_ptr<Socket>> sockets_;  // by the inode of the program's end
  EndedSockets ended_{ended_max};
  std::map<Asker, std::unique_ptr<Client>> clients_;  // oldest first
  std::vector<Socket*> due_;
  std::vector<Asker> heard_;  // clients that have something to say, or are gone
  Asker next_asker_ = 1;
  std::uint64_t next_name_ = 1;
  std::uint16_t port_ = 0;  // that the last connection got
  bool callers_wait_ = false;
  Statistics statistics_;
  Descriptor snapshot_;  // of statistics, and when it was made
  TimePoint snapshot_at_{};
};

}  // namespace sluice::sockets
