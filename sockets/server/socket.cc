// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/socket.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "sockets/server/endpoints.h"

namespace sluice::sockets {

Socket::Socket(Host& host, const Identity& identity, Descriptor channel)
    : host_(host), identity_(identity), channel_(std::move(channel)) {}

Socket::~Socket() {
  host_.forget(*this);
  if (channel_) {
    host_.poller().remove(channel_.get());
  }
}

void Socket::watch() {
  if (const int error = host_.poller().add(channel_.get(), *this); error != 0) {
    // Nobody would hear of it again: as if the program had gone.
    pending_error_ = error;
    hung_up_ = true;
  }
}

void Socket::await_room() {
  writable_ = false;
  host_.poller().tell_of_room(channel_.get(), *this, true);
}

void Socket::on_events(std::uint32_t events) {
  readable_ = readable_ || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (!writable_ && (events & EPOLLOUT) != 0) {
    writable_ = true;
    host_.poller().tell_of_room(channel_.get(), *this, false);
  }
  closing_ = closing_ || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  hung_up_ = hung_up_ || (events & (EPOLLHUP | EPOLLERR)) != 0;
  host_.wake(*this);
}

bool Socket::excludes(const wire::TransportAddress& address) const {
  return v6() && address.address.is_v4() && options_.get(IPPROTO_IPV6, IPV6_V6ONLY) != 0;
}

void Socket::shut_down(int how) { static_cast<void>(::shutdown(channel_.get(), how)); }

Reply Socket::names() const {
  Reply reply;
  reply.answer.value = static_cast<std::int32_t>(state());
  reply.answer.local = address_of(local_.value_or(any_address(v6())), identity_.family);
  if (peer_) {
    reply.answer.peer = address_of(*peer_, identity_.family);
  }
  return reply;
}

SocketRecord Socket::record() {
  const Answer named = names().answer;
  return {.pid = identity_.process,
          .uid = identity_.user,
          .family = static_cast<std::uint16_t>(identity_.family),
          .local = named.local,
          .peer = named.peer,
          .received = received_,
          .sent = sent_};
}

Reply Socket::take_error() {
  Reply reply;
  reply.answer.value = std::exchange(pending_error_, 0);
  return reply;
}

Reply Socket::listen(int) { return refusal(EOPNOTSUPP); }

/// Linux: IPV6_V6ONLY is of sockets of IPv6, and settled when the socket is bound.
Reply Socket::set_option(const Request& request) {
  if (request.level == IPPROTO_IPV6 && (!v6() || is_bound())) {
    return refusal(v6() ? EINVAL : ENOPROTOOPT);
  }
  if (request.level == SOL_SOCKET && request.name == SO_LINGER) {
    set_reset_at_close(request.value == 0);
    return {};
  }
  const int error = options_.set(request.level, request.name, request.value);
  if (error == 0) {
    apply_options();
  }
  return refusal(error);
}

Reply Socket::get_option(const Request& request) {
  const auto value = options_.get(request.level, request.name);
  Reply reply = refusal(value && (v6() || request.level != IPPROTO_IPV6) ? 0 : ENOPROTOOPT);
  reply.answer.value = value.value_or(0);
  return reply;
}

}  // namespace sluice::sockets
