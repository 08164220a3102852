// SPDX-License-Identifier: Apache-2.0

// Data. The bytes of a connection are the kernel's business, but for its end: where nothing more comes, or can be sent,
// the server knows whether the connection was reset. A datagram has a header in front (DatagramHeader).

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "sockets/library/confinement.h"
#include "sockets/library/exported.h"
#include "sockets/library/kinds.h"
#include "sockets/library/server_call.h"
#include "sockets/library/system.h"

namespace {

using namespace sluice::sockets;

bool is(int descriptor, SocketKind kind) { return known_kind(descriptor) == kind; }

/// What has ended a connection, or 0. A descriptor that only the table takes for ours is forgotten.
int end_of(int descriptor) {
  if (is_confined()) {
    return 0;
  }
  Request request;
  request.operation = Operation::take_error;
  Answer answer;
  ask_server(request, descriptor, answer);
  if (answer.error == 0) {
    return answer.value;
  }
  learn_kind(descriptor);
  return known_kind(descriptor) ? ECONNRESET : 0;
}

/// Whether the kernel says that the descriptor is no socket, though the table takes it for one of ours: it was closed
/// in a way that this library does not see, and its number is another file's now.
bool was_mistaken(int descriptor, ssize_t result) {
  if (result >= 0 || errno != ENOTSOCK) {
    return false;
  }
  note_kind(descriptor, std::nullopt);
  return true;
}

/// After a call that received `got` bytes of a connection, where it was asked for any.
ssize_t after_receive(int descriptor, ssize_t got, bool wanted) {
  if (got == 0 && wanted) {
    if (const int error = end_of(descriptor); error != 0) {
      errno = error;
      return -1;
    }
  }
  return got;
}

/// After a call that sent `sent` bytes on a connection, without a signal. As its own kind of socket would, SIGPIPE is
/// raised only where there was no other reason.
ssize_t after_send(int descriptor, ssize_t sent, int flags) {
  if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)) {
    return sent;
  }
  const int error = end_of(descriptor);
  if (error == 0 && (flags & MSG_NOSIGNAL) == 0) {
    static_cast<void>(::raise(SIGPIPE));
  }
  errno = error == 0 ? EPIPE : error;
  return -1;
}

/// A header and the program's parts, in one piece where there are many.
class Parts {
 public:
  Parts(DatagramHeader& header, const iovec* parts, std::size_t count) {
    own_[0] = {.iov_base = &header, .iov_len = sizeof header};
    if (count < own_.size()) {
      std::copy_n(parts, count, own_.begin() + 1);
      all_ = own_.data();
      count_ = count + 1;
      return;
    }
    many_.reset(static_cast<iovec*>(std::malloc((count + 1) * sizeof(iovec))));
    if (many_ != nullptr) {
      many_[0] = own_[0];
      std::copy_n(parts, count, many_.get() + 1);
      all_ = many_.get();
      count_ = count + 1;
    }
  }
  /// A header of all parts; its msg_iov is nullptr where there was no memory.
  [[nodiscard]] msghdr message() const {
    msghdr whole{};
    whole.msg_iov = all_;
    whole.msg_iovlen = count_;
    return whole;
  }

 private:
  std::array<iovec, 17> own_{};
  struct Free {
    void operator()(iovec* memory) const { std::free(memory); }
  };
  std::unique_ptr<iovec[], Free> many_;  // of C's: programs in C have no other
  iovec* all_ = nullptr;
  std::size_t count_ = 0;
};

ssize_t failed(int error) {
  errno = error;
  return -1;
}

ssize_t send_datagram(int descriptor, const msghdr& message, int flags) {
  DatagramHeader header;
  if (message.msg_name != nullptr && message.msg_namelen > 0) {
    header.address.size = std::min<std::uint32_t>(message.msg_namelen, sizeof header.address.bytes);
    std::memcpy(header.address.bytes, message.msg_name, header.address.size);
  }
  std::size_t size = 0;
  for (std::size_t at = 0; at < message.msg_iovlen; ++at) {
    size += message.msg_iov[at].iov_len;
  }
  if (size > datagram_bytes_max) {
    return failed(EMSGSIZE);
  }
  const Parts parts(header, message.msg_iov, message.msg_iovlen);
  msghdr whole = parts.message();
  if (whole.msg_iov == nullptr) {
    return failed(ENOMEM);
  }
  const ssize_t sent = system_calls().sendmsg(descriptor, &whole, flags | MSG_NOSIGNAL);
  if (sent < 0) {
    return failed(errno == EPIPE ? ECONNRESET : errno);
  }
  return static_cast<ssize_t>(size);
}

ssize_t receive_datagram(int descriptor, msghdr& message, int flags) {
  DatagramHeader header;
  const Parts parts(header, message.msg_iov, message.msg_iovlen);
  msghdr whole = parts.message();
  if (whole.msg_iov == nullptr) {
    return failed(ENOMEM);
  }
  const ssize_t got = system_calls().recvmsg(descriptor, &whole, flags);
  if (got < 0) {
    return got;
  }
  if (got < static_cast<ssize_t>(sizeof header)) {
    return failed(ECONNRESET);  // the server has gone
  }
  if (header.error != 0) {
    return failed(header.error);
  }
  if (message.msg_name != nullptr) {
    std::memcpy(message.msg_name, header.address.bytes,
                std::min<std::size_t>(message.msg_namelen, header.address.size));
    message.msg_namelen = header.address.size;
  }
  message.msg_controllen = 0;
  message.msg_flags = whole.msg_flags;
  return got - static_cast<ssize_t>(sizeof header);
}

msghdr message_of(iovec& part, const void* data, std::size_t size) {
  part = {.iov_base = const_cast<void*>(data), .iov_len = size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return message;
}

msghdr message_of(const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(std::max(count, 0));
  return message;
}

bool wants_any(const msghdr& message) {
  return std::any_of(message.msg_iov, message.msg_iov + message.msg_iovlen,
                     [](const iovec& part) { return part.iov_len > 0; });
}

/// Of a socket of ours, of either kind that carries data.
ssize_t receive(int descriptor, msghdr& message, int flags) {
  if (is(descriptor, SocketKind::datagram)) {
    return receive_datagram(descriptor, message, flags);
  }
  const ssize_t got = system_calls().recvmsg(descriptor, &message, flags);
  message.msg_namelen = 0;
  return after_receive(descriptor, got, wants_any(message));
}

ssize_t send(int descriptor, const msghdr& message, int flags) {
  if (is(descriptor, SocketKind::datagram)) {
    return send_datagram(descriptor, message, flags);
  }
  msghdr unaddressed = message;
  unaddressed.msg_name = nullptr;
  unaddressed.msg_namelen = 0;
  // A Unix socket would pass descriptors on (SCM_RIGHTS), and cut what is read at each; TCP has nothing of the kind.
  unaddressed.msg_control = nullptr;
  unaddressed.msg_controllen = 0;
  return after_send(descriptor, system_calls().sendmsg(descriptor, &unaddressed, flags | MSG_NOSIGNAL), flags);
}

/// One piece, as nearly all programs have it: without a header for the kernel to copy.
ssize_t send_piece(int descriptor, const void* data, std::size_t size, int flags) {
  if (is(descriptor, SocketKind::stream)) {
    return after_send(descriptor, system_calls().send(descriptor, data, size, flags | MSG_NOSIGNAL), flags);
  }
  iovec part;
  return send(descriptor, message_of(part, data, size), flags);
}

ssize_t receive_from(int descriptor, void* place, std::size_t size, int flags, sockaddr* address,
                     socklen_t* name_size) {
  if (is(descriptor, SocketKind::stream)) {
    const ssize_t got = system_calls().recv(descriptor, place, size, flags);
    if (got >= 0 && address != nullptr && name_size != nullptr) {
      *name_size = 0;
    }
    return after_receive(descriptor, got, size > 0);
  }
  iovec part;
  msghdr message = message_of(part, place, size);
  message.msg_name = address;
  message.msg_namelen = address != nullptr && name_size != nullptr ? *name_size : 0;
  const ssize_t got = receive(descriptor, message, flags);
  if (got >= 0 && address != nullptr && name_size != nullptr) {
    *name_size = message.msg_namelen;
  }
  return got;
}

}  // namespace

SLUICE_EXPORTED ssize_t read(int descriptor, void* place, std::size_t size) {
  if (is(descriptor, SocketKind::datagram)) {
    const ssize_t received = receive_from(descriptor, place, size, 0, nullptr, nullptr);
    return was_mistaken(descriptor, received) ? system_calls().read(descriptor, place, size) : received;
  }
  const ssize_t got = system_calls().read(descriptor, place, size);
  return got == 0 && is(descriptor, SocketKind::stream) ? after_receive(descriptor, got, size > 0) : got;
}

SLUICE_EXPORTED ssize_t readv(int descriptor, const iovec* parts, int count) {
  if (!known_kind(descriptor) || (is_confined() && is(descriptor, SocketKind::stream))) {
    return system_calls().readv(descriptor, parts, count);
  }
  msghdr message = message_of(parts, count);
  const ssize_t got = receive(descriptor, message, 0);
  return was_mistaken(descriptor, got) ? system_calls().readv(descriptor, parts, count) : got;
}

SLUICE_EXPORTED ssize_t recv(int descriptor, void* place, std::size_t size, int flags) {
  return known_kind(descriptor) ? receive_from(descriptor, place, size, flags, nullptr, nullptr)
                                : system_calls().recv(descriptor, place, size, flags);
}

SLUICE_EXPORTED ssize_t recvfrom(int descriptor, void* place, std::size_t size, int flags, sockaddr* address,
                                 socklen_t* name_size) {
  return known_kind(descriptor) ? receive_from(descriptor, place, size, flags, address, name_size)
                                : system_calls().recvfrom(descriptor, place, size, flags, address, name_size);
}

SLUICE_EXPORTED ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  return known_kind(descriptor) && message != nullptr ? receive(descriptor, *message, flags)
                                                      : system_calls().recvmsg(descriptor, message, flags);
}

SLUICE_EXPORTED int recvmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  if (!known_kind(descriptor)) {
    return system_calls().recvmmsg(descriptor, messages, count, flags, timeout);
  }
  unsigned taken = 0;
  for (; taken < count; ++taken) {
    // "MSG_WAITFORONE [...] Turns on MSG_DONTWAIT after the first message has been received." (recvmmsg(2))
    const int now = taken > 0 && (flags & MSG_WAITFORONE) != 0 ? flags | MSG_DONTWAIT : flags;
    const ssize_t got = receive(descriptor, messages[taken].msg_hdr, now & ~MSG_WAITFORONE);
    if (got < 0) {
      break;
    }
    messages[taken].msg_len = static_cast<unsigned>(got);
  }
  return taken > 0 || count == 0 ? static_cast<int>(taken) : -1;
}

SLUICE_EXPORTED ssize_t write(int descriptor, const void* data, std::size_t size) {
  if (!known_kind(descriptor) || (is_confined() && is(descriptor, SocketKind::stream))) {
    return system_calls().write(descriptor, data, size);
  }
  const ssize_t sent = send_piece(descriptor, data, size, 0);
  return was_mistaken(descriptor, sent) ? system_calls().write(descriptor, data, size) : sent;
}

SLUICE_EXPORTED ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (!known_kind(descriptor) || (is_confined() && is(descriptor, SocketKind::stream))) {
    return system_calls().writev(descriptor, parts, count);
  }
  const ssize_t sent = send(descriptor, message_of(parts, count), 0);
  return was_mistaken(descriptor, sent) ? system_calls().writev(descriptor, parts, count) : sent;
}

SLUICE_EXPORTED ssize_t sendto(int descriptor, const void* data, std::size_t size, int flags, const sockaddr* address,
                               socklen_t name_size) {
  if (!known_kind(descriptor)) {
    return system_calls().sendto(descriptor, data, size, flags, address, name_size);
  }
  iovec part;
  msghdr message = message_of(part, data, size);
  message.msg_name = const_cast<sockaddr*>(address);
  message.msg_namelen = name_size;
  return send(descriptor, message, flags);
}

SLUICE_EXPORTED ssize_t send(int descriptor, const void* data, std::size_t size, int flags) {
  return known_kind(descriptor) ? send_piece(descriptor, data, size, flags)
                                : system_calls().send(descriptor, data, size, flags);
}

SLUICE_EXPORTED ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  return known_kind(descriptor) && message != nullptr ? send(descriptor, *message, flags)
                                                      : system_calls().sendmsg(descriptor, message, flags);
}

SLUICE_EXPORTED int sendmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags) {
  if (!known_kind(descriptor)) {
    return system_calls().sendmmsg(descriptor, messages, count, flags);
  }
  unsigned sent = 0;
  for (; sent < count; ++sent) {
    const ssize_t taken = send(descriptor, messages[sent].msg_hdr, flags);
    if (taken < 0) {
      break;
    }
    messages[sent].msg_len = static_cast<unsigned>(taken);
  }
  return sent > 0 || count == 0 ? static_cast<int>(sent) : -1;
}

// What programs that were compiled with _FORTIFY_SOURCE call instead; the C library ends a program whose buffer is too
// small.

extern "C" [[noreturn]] void __chk_fail(void);

SLUICE_EXPORTED ssize_t __read_chk(int descriptor, void* place, std::size_t size, std::size_t room) {
  return size > room ? (__chk_fail(), -1) : read(descriptor, place, size);
}

SLUICE_EXPORTED ssize_t __recv_chk(int descriptor, void* place, std::size_t size, std::size_t room, int flags) {
  return size > room ? (__chk_fail(), -1) : recv(descriptor, place, size, flags);
}

SLUICE_EXPORTED ssize_t __recvfrom_chk(int descriptor, void* place, std::size_t size, std::size_t room, int flags,
                                       sockaddr* address, socklen_t* name_size) {
  return size > room ? (__chk_fail(), -1) : recvfrom(descriptor, place, size, flags, address, name_size);
}
