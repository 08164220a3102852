// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/datagram_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sockets/server/endpoints.h"

namespace sluice::sockets {

using wire::TransportAddress;

DatagramSocket::DatagramSocket(Host& host, const Identity& identity, Descriptor channel)
    : Socket(host, identity, std::move(channel)) {
  watch();
}

DatagramSocket::~DatagramSocket() {
  if (port_ != nullptr) {
    port_->leave(*this);
  }
}

// ---- What the program asks ----

Reply DatagramSocket::bind(const Address& address, bool shared) {
  if (port_ != nullptr) {
    return refusal(EINVAL);
  }
  const auto wanted = transport_address_of(address, identity_.family);
  return refusal(!wanted ? EAFNOSUPPORT : excludes(*wanted) ? EINVAL : bind_to(*wanted, shared));
}

/// What waits for the program is bounded by SO_RCVBUF, and one datagram of its own may wait for the stack.
bool DatagramSocket::take_memory() {
  memory_ = {};
  const auto asked = static_cast<std::size_t>(options_.get(SOL_SOCKET, SO_RCVBUF).value_or(0));
  const std::size_t bytes = std::max(asked, receive_bytes_default) + message_bytes_max;
  memory_ = host_.quotas().take(identity_.user, Quotas::What::memory, bytes);
  return static_cast<bool>(memory_);
}

int DatagramSocket::bind_to(const TransportAddress& address, bool shared) {
  if (!take_memory()) {
    return ENOBUFS;
  }
  auto port = DatagramPort::bind(host_, address, shared, options_, host_.datagram_ports());
  if (!port) {
    memory_ = {};
    return port.error();
  }
  port_ = std::move(*port);
  port_->join(*this);
  local_ = port_->local();
  return 0;
}

/// What it sends from. A stack without IPv6 has no [::].
int DatagramSocket::bind_for(const TransportAddress& to) {
  const int error = bind_to(any_address(v6()), false);
  return error == EADDRNOTAVAIL && to.address.is_v4() ? bind_to(any_address(false), false) : error;
}

Reply DatagramSocket::connect(const Request& request, Asker) {
  sa_family_t family = AF_UNSPEC;
  std::memcpy(&family, request.address.bytes, sizeof family);
  if (request.address.size >= sizeof family && family == AF_UNSPEC) {
    peer_.reset();
    return {};
  }
  const auto to = transport_address_of(request.address, identity_.family);
  if (!to) {
    return refusal(EAFNOSUPPORT);
  }
  const int error = excludes(*to) ? ENETUNREACH : port_ == nullptr ? bind_for(*to) : 0;
  if (error == 0) {
    peer_ = *to;
  }
  return refusal(error);
}

/// Without memory for more the buffer stays as it is, without a word.
void DatagramSocket::apply_options() {
  if (port_ != nullptr && take_memory()) {
    port_->apply(options_);
  }
}

SocketRecord DatagramSocket::record() {
  SocketRecord record = Socket::record();
  record.kind = SocketKind::datagram;
  record.send_queue = waiting_.empty() ? 0 : waiting_.size() - sizeof(DatagramHeader);
  return record;
}

bool DatagramSocket::turn() {
  const bool up = port_ != nullptr && port_->receive(*this);
  return pass_down() || up;
}

// ---- To the program ----

/// A pair without room drops it.
void DatagramSocket::deliver(int error, const TransportAddress& address, ConstBytes data) {
  DatagramHeader header{.error = error, .address = address_of(address, identity_.family)};
  std::array<iovec, 2> parts{{{.iov_base = &header, .iov_len = sizeof header},
                              {.iov_base = const_cast<std::byte*>(data.data()), .iov_len = data.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const bool delivered = ::sendmsg(channel_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  received_ += delivered ? data.size() : 0;
}

// ---- To the peer ----

bool DatagramSocket::pass_down() {
  for (int units = 0; units < turn_units_max; ++units) {
    if (!waiting_.empty()) {
      if (!send(waiting_)) {
        return false;  // the stream wakes us when it has room
      }
      waiting_.clear();
    }
    if (!readable_ || hung_up_) {
      return false;
    }
    const Bytes place = host_.scratch().first(message_bytes_max);
    const ssize_t got = ::recv(channel_.get(), place.data(), place.size(), MSG_DONTWAIT);
    if (got <= 0) {
      readable_ = got < 0 && errno == EINTR;
      continue;
    }
    const ConstBytes message = place.first(static_cast<std::size_t>(got));
    if (!send(message)) {
      waiting_.assign(message.begin(), message.end());
      return false;
    }
  }
  return true;
}

/// What cannot be sent at all is dropped, and its error is the program's to take.
bool DatagramSocket::send(ConstBytes message) {
  DatagramHeader header;
  if (message.size() < sizeof header) {
    return true;
  }
  std::memcpy(&header, message.data(), sizeof header);
  const auto to = header.address.size == 0 ? peer_ : transport_address_of(header.address, identity_.family);
  int error = !to ? EDESTADDRREQ : excludes(*to) ? ENETUNREACH : 0;
  error = error == 0 && port_ == nullptr ? bind_for(*to) : error;
  error = error == 0 ? port_->send(*to, message.subspan(sizeof header)) : error;
  sent_ += error == 0 ? message.size() - sizeof header : 0;
  pending_error_ = error == 0 || error == EAGAIN ? pending_error_ : error;
  return error != EAGAIN;
}

}  // namespace sluice::sockets
