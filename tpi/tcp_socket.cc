// SPDX-License-Identifier: Apache-2.0
#include "tpi/tcp_socket.h"

#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/contract.h"

namespace sluice::tpi {

TcpSocket::TcpSocket(TcpSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), v6_(other.v6_), dual_stack_(other.dual_stack_) {}

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  v6_ = other.v6_;
  dual_stack_ = other.dual_stack_;
  return *this;
}

TcpSocket::~TcpSocket() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool TcpSocket::set(int level, int option, int value) const {
  return ::setsockopt(descriptor_, level, option, &value, sizeof value) == 0;
}

Result<TcpSocket> TcpSocket::bind(const wire::TransportAddress& local, const Options& options, bool reuses) {
  const bool v6 = local.address.is_v6();
  const bool dual_stack = v6 && local.address.is_unspecified();
  TcpSocket socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP), v6,
                   dual_stack);
  if (socket.descriptor_ < 0 || (v6 && !socket.set(IPPROTO_IPV6, IPV6_V6ONLY, dual_stack ? 0 : 1)) ||
      (reuses && !socket.set(SOL_SOCKET, SO_REUSEADDR, 1))) {
    return fail(errno);
  }
  if (options.receive_buffer_bytes != 0) {
    set_buffer(socket.descriptor_, SO_RCVBUF, options.receive_buffer_bytes);
  }
  if (options.send_buffer_bytes != 0) {
    set_buffer(socket.descriptor_, SO_SNDBUF, options.send_buffer_bytes);
  }
  // Urgent data stays where it was sent, in the stream: nobody here tells it from the rest.
  static_cast<void>(socket.set(SOL_SOCKET, SO_OOBINLINE, 1));
  const SocketAddress address = socket_address_of(local, v6);
  if (::bind(socket.descriptor_, &address.generic, address.size) != 0) {
    return fail(errno);
  }
  return socket;
}

int TcpSocket::listen(unsigned backlog) const {
  return ::listen(descriptor_, static_cast<int>(backlog)) == 0 ? 0 : errno;
}

/// connect(2): interrupted, it goes on by itself.
int TcpSocket::connect(const wire::TransportAddress& to, const TcpCalls& calls) const {
  if (v6_ ? to.address.is_v4() && !dual_stack_ : to.address.is_v6()) {
    return EAFNOSUPPORT;
  }
  const SocketAddress address = socket_address_of(to, v6_);
  const int error = calls.connect(descriptor_, &address.generic, address.size) == 0 ? 0 : errno;
  return error == EINTR ? EINPROGRESS : error;
}

Result<TcpSocket> TcpSocket::accept(const TcpCalls& calls) const {
  constexpr int interruptions_max = 16;
  for (int interruptions = 0;;) {
    const int descriptor = calls.accept(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      return TcpSocket(descriptor, v6_, dual_stack_);
    }
    if (errno != EINTR || ++interruptions == interruptions_max) {
      return fail(errno == EINTR ? EAGAIN : errno);
    }
  }
}

TcpSocket::Moved TcpSocket::send(std::span<const ConstBytes> parts, const TcpCalls& calls) const {
  SLUICE_REQUIRE(parts.size() <= parts_max);
  std::array<iovec, parts_max> vectors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    vectors[i] = {.iov_base = const_cast<std::byte*>(parts[i].data()), .iov_len = parts[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = calls.send(descriptor_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent >= 0 ? Moved{static_cast<std::size_t>(sent), 0} : Moved{0, errno};
}

TcpSocket::Moved TcpSocket::receive(Bytes place, const TcpCalls& calls) const {
  const ssize_t received = calls.receive(descriptor_, place.data(), place.size(), MSG_DONTWAIT);
  return received >= 0 ? Moved{static_cast<std::size_t>(received), 0} : Moved{0, errno};
}

int TcpSocket::take_error() const {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int TcpSocket::end_sending() const { return ::shutdown(descriptor_, SHUT_WR) == 0 ? 0 : errno; }

void TcpSocket::share_address() const { static_cast<void>(set(SOL_SOCKET, SO_REUSEADDR, 1)); }

void TcpSocket::abort() const {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
}

Result<wire::TransportAddress> TcpSocket::local() const {
  SocketAddress address;
  address.size = sizeof address.v6;
  if (::getsockname(descriptor_, &address.generic, &address.size) != 0) {
    return fail(errno);
  }
  return transport_address(address);
}

wire::TransportAddress TcpSocket::remote() const {
  SocketAddress address;
  address.size = sizeof address.v6;
  const bool known = ::getpeername(descriptor_, &address.generic, &address.size) == 0;
  return known ? transport_address(address) : wire::TransportAddress{};
}

}  // namespace sluice::tpi
