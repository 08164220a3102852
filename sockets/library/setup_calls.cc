// SPDX-License-Identifier: Apache-2.0

// Sockets until they carry data: socket, bind, listen, accept, connect, their names and options. Calls about
// descriptors that are not ours, or where the environment names no server, are the C library's.

#include <fcntl.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "sockets/library/exported.h"
#include "sockets/library/kinds.h"
#include "sockets/library/server_call.h"
#include "sockets/library/system.h"

namespace {

using namespace sluice::sockets;

int failed(int error) {
  errno = error;
  return -1;
}

/// Of an answer, as a call returns it.
int outcome_of(const Answer& answer) { return answer.error == 0 ? 0 : failed(answer.error); }

int ask(const Request& request, int shown) {
  Answer answer;
  ask_server(request, shown, answer);
  return outcome_of(answer);
}

bool address_into(Request& request, const sockaddr* address, socklen_t size) {
  if (address == nullptr || size < sizeof(sa_family_t)) {
    return false;
  }
  // What is longer than any address of the family is as long as it (struct sockaddr_storage).
  request.address.size = std::min<std::uint32_t>(size, sizeof request.address.bytes);
  std::memcpy(request.address.bytes, address, request.address.size);
  return true;
}

void tell_address(const Address& from, sockaddr* address, socklen_t* size) {
  if (address == nullptr || size == nullptr) {
    return;
  }
  std::memcpy(address, from.bytes, std::min<std::size_t>(*size, from.size));
  *size = from.size;
}

void set_flags(int descriptor, bool close_on_exec, bool nonblocking) {
  if (!close_on_exec) {
    system_calls().fcntl(descriptor, F_SETFD, 0);
  }
  if (nonblocking) {
    system_calls().fcntl(descriptor, F_SETFL, system_calls().fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
}

bool is_nonblocking(int descriptor) { return (system_calls().fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0; }

/// The option of the pair that keeps one of SOL_SOCKET. A Unix socket refuses SO_REUSEPORT; here the two are one.
int kept_as(int name) { return name == SO_REUSEPORT ? SO_REUSEADDR : name; }

/// Whether the program has asked for an address that others may have, too.
bool may_share(int descriptor) {
  int set = 0;
  socklen_t size = sizeof set;
  return system_calls().getsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &set, &size) == 0 && set != 0;
}

bool is_writable(int descriptor) {
  pollfd one{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&one, 1, 0) == 1;
}

/// As much as makes the socket look as if nothing could be written: bytes that mean nothing.
std::uint32_t fill(int descriptor) {
  static constexpr std::array<char, 65536> nothing{};
  constexpr int attempts_max = 1024;
  std::uint32_t filled = 0;
  for (int attempt = 0; attempt < attempts_max && is_writable(descriptor); ++attempt) {
    const ssize_t sent = system_calls().send(descriptor, nothing.data(), nothing.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) {
      break;
    }
    filled += static_cast<std::uint32_t>(sent);
  }
  return filled;
}

SocketState state_of(int descriptor, Answer& names) {
  Request request;
  request.operation = Operation::names;
  ask_server(request, descriptor, names);
  return static_cast<SocketState>(names.value);
}

int connect_stream(int descriptor, Request& request) {
  if (is_nonblocking(descriptor)) {
    // Of a connection that is there the filler would be data.
    Answer names;
    const SocketState state = state_of(descriptor, names);
    if (names.error != 0) {
      return failed(names.error);
    }
    if (state == SocketState::connecting) {
      return failed(EALREADY);
    }
    if (state == SocketState::idle) {
      request.background = 1;
      request.filler = fill(descriptor);
    }
  }
  Answer answer;
  ask_server(request, descriptor, answer);
  return outcome_of(answer);
}

template <class Value>
int tell_option(void* place, socklen_t* size, const Value& value) {
  if (place == nullptr || size == nullptr) {
    return failed(EFAULT);
  }
  std::memcpy(place, &value, std::min<std::size_t>(*size, sizeof value));
  *size = static_cast<socklen_t>(std::min<std::size_t>(*size, sizeof value));
  return 0;
}

int pending_error(int descriptor) {
  Request request;
  request.operation = Operation::take_error;
  Answer answer;
  ask_server(request, descriptor, answer);
  return answer.error != 0 ? ECONNRESET : answer.value;
}

int family_of(int descriptor) {
  Answer names;
  static_cast<void>(state_of(descriptor, names));
  sa_family_t family = AF_INET;
  std::memcpy(&family, names.local.bytes, names.error == 0 ? sizeof family : 0);
  return family;
}

int ask_option(int descriptor, int level, int name, void* value, socklen_t* size) {
  Request request;
  request.operation = Operation::get_option;
  request.level = level;
  request.name = name;
  Answer answer;
  ask_server(request, descriptor, answer);
  return answer.error == 0 ? tell_option(value, size, answer.value) : failed(answer.error);
}

int get_socket_option(int descriptor, SocketKind kind, int name, void* value, socklen_t* size) {
  const bool datagram = kind == SocketKind::datagram;
  switch (name) {
    case SO_ERROR:
      return tell_option(value, size, pending_error(descriptor));
    case SO_TYPE:
      return tell_option(value, size, int{datagram ? SOCK_DGRAM : SOCK_STREAM});
    case SO_PROTOCOL:
      return tell_option(value, size, int{datagram ? IPPROTO_UDP : IPPROTO_TCP});
    case SO_DOMAIN:
      return tell_option(value, size, family_of(descriptor));
    case SO_ACCEPTCONN:
      return tell_option(value, size, int{kind == SocketKind::listening});
    case SO_KEEPALIVE:
      return ask_option(descriptor, SOL_SOCKET, name, value, size);
    default:  // buffers, times, flags: the pair has them
      return system_calls().getsockopt(descriptor, SOL_SOCKET, kept_as(name), value, size);
  }
}

/// What the stack knows of the connection. A socket that has none yet has a state all the same.
int get_tcp_info(int descriptor, void* value, socklen_t* size) {
  Request request;
  request.operation = Operation::connection;
  Answer answer;
  ask_server(request, descriptor, answer);
  if (answer.error != 0 && answer.error != ENOTCONN) {
    return failed(answer.error);
  }
  const Connection& connection = answer.connection;
  tcp_info info{};
  info.tcpi_state = connection.state == 0 ? static_cast<std::uint8_t>(TCP_CLOSE) : connection.state;
  info.tcpi_options = connection.options;
  info.tcpi_snd_wscale = connection.send_scale & 0xfU;
  info.tcpi_rcv_wscale = connection.receive_scale & 0xfU;
  info.tcpi_rto = connection.timeout_us;
  info.tcpi_rtt = connection.round_trip_us;
  info.tcpi_rttvar = connection.round_trip_variation_us;
  info.tcpi_snd_mss = connection.send_mss;
  info.tcpi_advmss = info.tcpi_rcv_mss = connection.receive_mss;
  info.tcpi_total_retrans = static_cast<std::uint32_t>(connection.segments_again);
  const std::uint64_t segment = connection.send_mss == 0 ? 1 : connection.send_mss;
  info.tcpi_snd_cwnd = static_cast<std::uint32_t>(connection.congestion_window / segment);
  info.tcpi_unacked = static_cast<std::uint32_t>((connection.unacknowledged + segment - 1) / segment);
  return tell_option(value, size, info);
}

/// Hints about segments, times and service classes that a program must not fail without.
bool is_hint(int level, int name) {
  switch (level) {
    case IPPROTO_TCP:
      return name == TCP_CORK || name == TCP_QUICKACK || name == TCP_USER_TIMEOUT || name == TCP_DEFER_ACCEPT ||
             name == TCP_NOTSENT_LOWAT;
    case IPPROTO_IP:
      return name == IP_TOS || name == IP_MTU_DISCOVER || name == IP_RECVERR || name == IP_BIND_ADDRESS_NO_PORT;
    case IPPROTO_IPV6:
      return name == IPV6_TCLASS || name == IPV6_MTU_DISCOVER || name == IPV6_RECVERR;
    default:
      return false;
  }
}

int set_linger(int descriptor, const void* value, socklen_t size) {
  linger wanted{};
  std::memcpy(&wanted, value, std::min<std::size_t>(size, sizeof wanted));
  Request request;
  request.operation = Operation::set_option;
  request.level = SOL_SOCKET;
  request.name = SO_LINGER;
  request.value = wanted.l_onoff != 0 ? wanted.l_linger : -1;
  return ask(request, descriptor);
}

int name_of_socket(int descriptor, bool peer, sockaddr* address, socklen_t* size) {
  Answer names;
  const SocketState state = state_of(descriptor, names);
  if (names.error != 0) {
    return failed(names.error);
  }
  if (peer && (state != SocketState::connected || names.peer.size == 0)) {
    return failed(ENOTCONN);
  }
  tell_address(peer ? names.peer : names.local, address, size);
  return 0;
}

}  // namespace

SLUICE_EXPORTED int socket(int domain, int type, int protocol) noexcept {
  const int base = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  const bool stream = base == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP);
  const bool datagram = base == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
  if ((domain != AF_INET && domain != AF_INET6) || (!stream && !datagram) || !has_server()) {
    const int made = system_calls().socket(domain, type, protocol);
    note_kind(made, std::nullopt);
    return made;
  }
  Request request;
  request.operation = Operation::open;
  request.kind = stream ? SocketKind::stream : SocketKind::datagram;
  request.family = static_cast<std::uint16_t>(domain);
  Answer answer;
  int descriptor = -1;
  ask_server(request, -1, answer, &descriptor);
  if (answer.error != 0 || descriptor < 0) {
    return failed(answer.error == 0 ? EMFILE : answer.error == ECONNRESET ? ENETDOWN : answer.error);
  }
  set_flags(descriptor, (type & SOCK_CLOEXEC) != 0, (type & SOCK_NONBLOCK) != 0);
  note_kind(descriptor, request.kind);
  return descriptor;
}

SLUICE_EXPORTED int bind(int descriptor, const sockaddr* address, socklen_t size) noexcept {
  if (!known_kind(descriptor)) {
    return system_calls().bind(descriptor, address, size);
  }
  Request request;
  request.operation = Operation::bind;
  request.value = may_share(descriptor) ? 1 : 0;
  return address_into(request, address, size) ? ask(request, descriptor) : failed(EINVAL);
}

/// The descriptor becomes one that callers come on.
SLUICE_EXPORTED int listen(int descriptor, int backlog) noexcept {
  if (!known_kind(descriptor)) {
    return system_calls().listen(descriptor, backlog);
  }
  Request request;
  request.operation = Operation::listen;
  request.value = backlog;
  Answer answer;
  int listening = -1;
  ask_server(request, descriptor, answer, &listening);
  if (answer.error != 0 || listening < 0) {
    return known_kind(descriptor) == SocketKind::listening && answer.error == 0 ? 0 : outcome_of(answer);
  }
  const bool close_on_exec = (system_calls().fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0;
  set_flags(listening, true, is_nonblocking(descriptor));
  const int moved = system_calls().dup3(listening, descriptor, close_on_exec ? O_CLOEXEC : 0);
  system_calls().close(listening);
  note_kind(descriptor, SocketKind::listening);
  return moved < 0 ? -1 : 0;
}

SLUICE_EXPORTED int accept4(int descriptor, sockaddr* address, socklen_t* size, int flags) {
  const auto kind = known_kind(descriptor);
  if (!kind) {
    const int made = system_calls().accept4(descriptor, address, size, flags);
    note_kind(made, std::nullopt);
    return made;
  }
  if (*kind != SocketKind::listening) {
    return failed(*kind == SocketKind::datagram ? EOPNOTSUPP : EINVAL);
  }
  Caller caller;
  std::size_t got = 0;
  int connection = -1;
  const int wanted = (flags & SOCK_CLOEXEC) != 0 ? MSG_CMSG_CLOEXEC : 0;
  if (!receive_passed(descriptor, &caller, sizeof caller, wanted, got, connection)) {
    return -1;
  }
  if (connection < 0) {
    return failed(got == 0 ? ECONNRESET : EMFILE);  // no server any more; or no number for what has come
  }
  set_flags(connection, true, (flags & SOCK_NONBLOCK) != 0);
  note_kind(connection, SocketKind::stream);
  tell_address(caller.peer, address, size);
  return connection;
}

SLUICE_EXPORTED int accept(int descriptor, sockaddr* address, socklen_t* size) {
  return accept4(descriptor, address, size, 0);
}

SLUICE_EXPORTED int connect(int descriptor, const sockaddr* address, socklen_t size) {
  const auto kind = known_kind(descriptor);
  if (!kind) {
    return system_calls().connect(descriptor, address, size);
  }
  Request request;
  request.operation = Operation::connect;
  if (!address_into(request, address, size)) {
    return failed(EINVAL);
  }
  return *kind == SocketKind::stream ? connect_stream(descriptor, request) : ask(request, descriptor);
}

SLUICE_EXPORTED int getsockname(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  return kind_of(descriptor) ? name_of_socket(descriptor, false, address, size)
                             : system_calls().getsockname(descriptor, address, size);
}

SLUICE_EXPORTED int getpeername(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  return kind_of(descriptor) ? name_of_socket(descriptor, true, address, size)
                             : system_calls().getpeername(descriptor, address, size);
}

SLUICE_EXPORTED int getsockopt(int descriptor, int level, int name, void* value, socklen_t* size) noexcept {
  const auto kind = kind_of(descriptor);
  if (!kind) {
    return system_calls().getsockopt(descriptor, level, name, value, size);
  }
  if (level == SOL_SOCKET) {
    return get_socket_option(descriptor, *kind, name, value, size);
  }
  if (is_hint(level, name)) {
    return tell_option(value, size, 0);
  }
  if (level == IPPROTO_TCP && name == TCP_INFO && *kind == SocketKind::stream) {
    return get_tcp_info(descriptor, value, size);
  }
  return ask_option(descriptor, level, name, value, size);
}

SLUICE_EXPORTED int setsockopt(int descriptor, int level, int name, const void* value, socklen_t size) noexcept {
  if (!kind_of(descriptor)) {
    return system_calls().setsockopt(descriptor, level, name, value, size);
  }
  if (level == SOL_SOCKET) {
    const int set = system_calls().setsockopt(descriptor, level, kept_as(name), value, size);
    if (set != 0 || (name != SO_KEEPALIVE && name != SO_RCVBUF && name != SO_SNDBUF)) {
      return set == 0 && name == SO_LINGER ? set_linger(descriptor, value, size) : set;
    }
  }
  if (is_hint(level, name)) {
    return 0;
  }
  Request request;
  request.operation = Operation::set_option;
  request.level = level;
  request.name = name;
  std::memcpy(&request.value, value, value == nullptr ? 0 : std::min<std::size_t>(size, sizeof request.value));
  const bool buffer = level == SOL_SOCKET && name != SO_KEEPALIVE;
  request.value = buffer ? std::max(request.value, 1) : request.value;  // the kernel refuses no size
  return ask(request, descriptor);
}
