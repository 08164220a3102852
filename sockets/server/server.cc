// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "base/contract.h"
#include "base/local_socket.h"
#include "base/passing.h"
#include "sockets/server/datagram_socket.h"
#include "sockets/server/snapshot.h"
#include "sockets/server/stream_socket.h"

namespace sluice::sockets {
namespace {

constexpr int callers_per_turn_max = 16;
constexpr int answer_attempts_max = 16;
static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Answer>);

}  // namespace

/// A connection that requests come on.
class Server::Client final : public Poller::Watched {
 public:
  Client(Server& server, Asker number, Descriptor channel, const ucred& client_credentials)
      : server_(server), number_(number), channel_(std::move(channel)), credentials(client_credentials) {}
  ~Client() override { server_.poller_->remove(channel_.get()); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void on_events(std::uint32_t) override { server_.heard_.push_back(number_); }
  [[nodiscard]] int channel() const { return channel_.get(); }
  [[nodiscard]] Asker number() const { return number_; }
  /// False: it has gone, or will get none, and must not wait for it.
  [[nodiscard]] bool answer(const Reply& reply) const {
    int error = EINTR;
    for (int attempt = 0; attempt < answer_attempts_max && error == EINTR; ++attempt) {
      error = send_message(channel_.get(), std::as_bytes(std::span(&reply.answer, 1)), reply.passed.get());
    }
    return error == 0;
  }

 private:
  Server& server_;
  const Asker number_;
  Descriptor channel_;

 public:
  const ucred credentials;
};

class Server::Listener final : public Poller::Watched {
 public:
  explicit Listener(Server& server) : server_(server) {}
  void on_events(std::uint32_t) override { server_.callers_wait_ = true; }

 private:
  Server& server_;
};

Result<std::unique_ptr<Server>> Server::open(StreamSet& set, const Options& options, OpenEndpoint open_stream,
                                             OpenEndpoint open_datagram) {
  auto poller = Poller::open(set);
  if (!poller) {
    return std::unexpected(poller.error());
  }
  auto listening = listen_at(options.path, options.mode);
  if (!listening) {
    return std::unexpected(listening.error());
  }
  std::unique_ptr<Server> server(new Server(set, options, std::move(open_stream), std::move(open_datagram),
                                            std::move(*poller), std::move(*listening)));
  if (const int error = server->poller_->add(server->listening_.get(), *server->listener_); error != 0) {
    return fail(error, "cannot wait for clients");
  }
  return server;
}

Server::Server(StreamSet& set, const Options& options, OpenEndpoint open_stream, OpenEndpoint open_datagram,
               std::unique_ptr<Poller> poller, Descriptor listening)
    : set_(set),
      options_(options),
      open_stream_(std::move(open_stream)),
      open_datagram_(std::move(open_datagram)),
      poller_(std::move(poller)),
      listening_(std::move(listening)),
      listener_(std::make_unique<Listener>(*this)),
      look_again_(set.scheduler(), [this] { callers_wait_ = true; }),
      scratch_(Quotas::turn_piece_bytes_max),
      quotas_(options.per_user) {
  struct stat file{};
  if (::stat(options_.path.c_str(), &file) == 0) {
    device_ = file.st_dev;
    inode_ = file.st_ino;
  }
}

/// The file goes with the server, unless it is another one's by now.
Server::~Server() {
  sockets_.clear();
  clients_.clear();
  struct stat file{};
  if (::lstat(options_.path.c_str(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_) {
    ::unlink(options_.path.c_str());
  }
}

Server::Statistics Server::statistics() const {
  Statistics statistics = statistics_;
  statistics.sockets = sockets_.size();
  return statistics;
}

// ---- What sockets need ----

void Server::wake(Socket& socket) {
  if (!std::exchange(socket.due, true)) {
    due_.push_back(&socket);
  }
}

void Server::answer(Asker asker, const Answer& answer) {
  if (const auto found = clients_.find(asker); found != clients_.end()) {
    Reply reply;
    reply.answer = answer;
    if (!found->second->answer(reply)) {
      clients_.erase(found);
    }
  }
}

Result<Pair> Server::make_pair(SocketKind kind) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, (kind == SocketKind::stream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(errno);
  }
  Pair pair{.ours = Descriptor(ends[0]), .program = Descriptor(ends[1])};
  struct stat file{};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || ::fstat(ends[1], &file) != 0) {
    return fail(errno);
  }
  pair.inode = file.st_ino;
  // Another server of this network namespace may have that name: it takes no more than another number.
  constexpr int attempts_max = 64;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const std::string name = std::string(1, '\0') + name_prefix + static_cast<char>(kind) +
                             std::to_string(set_.prng()() % 1'000'000'000) + std::to_string(next_name_++);
    const auto address = local_address(name);
    if (address && ::bind(ends[1], reinterpret_cast<const sockaddr*>(&address->first), address->second) == 0) {
      return pair;
    }
  }
  return fail(EADDRINUSE);
}

Result<std::unique_ptr<tli::Endpoint>> Server::open_endpoint(SocketKind kind) {
  const OpenEndpoint& open = kind == SocketKind::datagram ? open_datagram_ : open_stream_;
  return open ? open() : fail(EPROTONOSUPPORT);
}

/// RFC 6056 section 3.3.5, Random-Increments Port Selection, from a random start: nobody guesses the next one at once,
/// and none comes again before some thousand others have.
std::uint16_t Server::next_port() {
  constexpr unsigned count = 65536 - port_min;
  Prng& random = set_.prng();
  const unsigned last = port_ == 0 ? static_cast<unsigned>(random.below(count)) : port_ - port_min;
  port_ = static_cast<std::uint16_t>(port_min + (last + 1 + random.below(port_step_max)) % count);
  return port_;
}

int Server::adopt(std::unique_ptr<Socket> socket) {
  socket->counted = quotas_.take(socket->identity().user, Quotas::What::sockets, 1);
  if (!socket->counted) {
    return EMFILE;
  }
  Socket& adopted = *socket;
  ended_.forget(adopted.identity().inode);
  sockets_.insert_or_assign(adopted.identity().inode, std::move(socket));
  wake(adopted);
  return 0;
}

void Server::erase(Socket& socket) {
  const ino_t inode = socket.identity().inode;
  EndedSockets::Ended ended{.names = socket.names().answer, .pending_error = socket.take_error().answer.value};
  ended.names.value = static_cast<std::int32_t>(SocketState::over);
  ended_.add(inode, ended);
  sockets_.erase(inode);
}

// ---- Turns ----

void Server::turn() {
  if (std::exchange(callers_wait_, false)) {
    take_clients();
  }
  for (const Asker number : std::exchange(heard_, {})) {
    if (const auto found = clients_.find(number); found != clients_.end()) {
      hear(*found->second);
    }
  }
  // Who becomes due meanwhile has his turn in the next round.
  for (Socket* const socket : std::exchange(due_, {})) {
    socket->due = false;
    if (socket->turn()) {
      wake(*socket);
    }
    if (!socket->due && socket->finished()) {
      erase(*socket);
    }
  }
}

void Server::take_clients() {
  for (int taken = 0; taken < callers_per_turn_max; ++taken) {
    Descriptor channel(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!channel) {
      callers_wait_ = errno == EINTR || errno == ECONNABORTED;
      if (!callers_wait_ && errno != EAGAIN) {
        look_again_.arm_after(callers_pause);  // no descriptor or memory to spare: who waits is not told of again
      }
      return;
    }
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(channel.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
      continue;
    }
    if (clients_.size() >= options_.clients_max) {
      clients_.erase(clients_.begin());
      ++statistics_.crowded_out;
    }
    const Asker number = next_asker_++;
    auto client = std::make_unique<Client>(*this, number, std::move(channel), credentials);
    if (poller_->add(client->channel(), *client) == 0) {
      clients_.emplace(number, std::move(client));
    }
  }
  callers_wait_ = true;
}

/// One request, or the end.
void Server::hear(Client& client) {
  Request request;
  const Passed passed = receive_message(client.channel(), std::as_writable_bytes(std::span(&request, 1)));
  if (passed.error == EINTR) {
    heard_.push_back(client.number());
    return;
  }
  if (passed.error == EAGAIN) {
    return;
  }
  if (passed.error != 0 || passed.size != sizeof request || request.version != protocol_version) {
    statistics_.malformed += passed.size != 0 || passed.error != 0 ? 1U : 0U;
    clients_.erase(client.number());
    return;
  }
  ++statistics_.requests;
  const Reply reply = execute(request, passed.descriptor.get(), client.credentials, client.number());
  statistics_.refused += reply.answer.error != 0 && reply.answer.error != EINPROGRESS ? 1U : 0U;
  if (!reply.later && !client.answer(reply)) {
    clients_.erase(client.number());
    return;
  }
  heard_.push_back(client.number());  // it may have said more
}

Reply Server::execute(const Request& request, int shown, const ucred& client, Asker asker) {
  if (request.operation == Operation::open) {
    return open_socket(request, client);
  }
  if (request.operation == Operation::statistics) {
    return tell_statistics();
  }
  struct stat file{};
  if (shown < 0 || ::fstat(shown, &file) != 0 || !S_ISSOCK(file.st_mode)) {
    return refusal(ENOTSOCK);
  }
  const auto found = sockets_.find(file.st_ino);
  if (found == sockets_.end()) {
    return answer_for_ended(request, file.st_ino);
  }
  Socket& socket = *found->second;
  switch (request.operation) {
    case Operation::bind:
      return socket.bind(request.address, request.value != 0);
    case Operation::listen:
      return socket.listen(request.value);
    case Operation::connect:
      return socket.connect(request, asker);
    case Operation::names:
      return socket.names();
    case Operation::take_error:
      return socket.take_error();
    case Operation::set_option:
      return socket.set_option(request);
    case Operation::get_option:
      return socket.get_option(request);
    case Operation::connection:
      return socket.connection();
    default:
      return refusal(EOPNOTSUPP);
  }
}

Reply Server::answer_for_ended(const Request& request, ino_t inode) {
  EndedSockets::Ended* const ended = ended_.find(inode);
  if (ended == nullptr) {
    return refusal(ENOTSOCK);
  }
  Reply reply = refusal(0);
  switch (request.operation) {
    case Operation::names:
      reply.answer = ended->names;
      break;
    case Operation::take_error:
      reply.answer.value = std::exchange(ended->pending_error, 0);
      break;
    case Operation::set_option:
    case Operation::get_option:
    case Operation::connection:
      break;
    default:
      reply.answer.error = EINVAL;
  }
  return reply;
}

/// The same file for all who ask soon after one another: who asks for ever costs others nothing.
Reply Server::tell_statistics() {
  const TimePoint now = set_.now();
  if (!snapshot_ || now >= snapshot_at_ + snapshot_life) {
    std::vector<SocketRecord> records;
    for (const auto& [inode, socket] : sockets_) {
      if (records.size() == records_max) {
        break;
      }
      records.push_back(socket->record());
    }
    auto made = make_snapshot({.records = static_cast<std::uint32_t>(records.size()),
                               .sockets = sockets_.size(),
                               .requests = statistics_.requests,
                               .refused = statistics_.refused,
                               .malformed = statistics_.malformed,
                               .crowded_out = statistics_.crowded_out},
                              records);
    if (!made) {
      return refusal(made.error().code);
    }
    snapshot_ = std::move(*made);
    snapshot_at_ = now;
  }
  Reply reply;
  reply.passed = Descriptor(::fcntl(snapshot_.get(), F_DUPFD_CLOEXEC, 0));
  reply.answer.error = reply.passed ? 0 : errno;
  return reply;
}

Reply Server::open_socket(const Request& request, const ucred& client) {
  if (request.family != AF_INET && request.family != AF_INET6) {
    return refusal(EAFNOSUPPORT);
  }
  const bool datagrams = request.kind == SocketKind::datagram;
  if ((!datagrams && request.kind != SocketKind::stream) || !(datagrams ? open_datagram_ : open_stream_)) {
    return refusal(EPROTONOSUPPORT);
  }
  auto pair = make_pair(request.kind);
  if (!pair) {
    return refusal(pair.error().code);
  }
  const Socket::Identity identity{
      .inode = pair->inode, .user = client.uid, .process = client.pid, .family = request.family};
  Host& host = *this;
  std::unique_ptr<Socket> socket;
  if (datagrams) {
    socket = std::make_unique<DatagramSocket>(host, identity, std::move(pair->ours));
  } else {
    socket = std::make_unique<StreamSocket>(host, identity, std::move(pair->ours));
  }
  Reply reply = refusal(adopt(std::move(socket)));
  reply.passed = std::move(pair->program);
  return reply;
}

}  // namespace sluice::sockets
