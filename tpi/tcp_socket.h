// SPDX-License-Identifier: Apache-2.0
#pragma once

// One non-blocking TCP socket of the kernel: bound, listening, connecting or connected. What it asks of the system goes
// through TcpCalls, so that tests can have each call fail.
//
// Ownership: owns the descriptor; move-only. Threads: one.

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "stack/wire/address.h"
#include "tpi/socket_address.h"

namespace sluice::tpi {

/// The seam to the operating system.
struct TcpCalls {
  int (*connect)(int, const sockaddr*, socklen_t) = ::connect;
  int (*accept)(int, sockaddr*, socklen_t*, int) = ::accept4;
  ssize_t (*send)(int, const msghdr*, int) = ::sendmsg;
  ssize_t (*receive)(int, void*, std::size_t, int) = ::recv;
};

/// What a failed call says: there is nothing, or no room, now; or the kernel is short of memory, and time alone helps.
[[nodiscard]] constexpr bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
[[nodiscard]] constexpr bool is_shortage(int error) { return error == ENOBUFS || error == ENOMEM; }

class TcpSocket {
 public:
  struct Options {
    std::size_t receive_buffer_bytes = 0;  // 0: what the system has for TCP, which adapts it to the path
    std::size_t send_buffer_bytes = 0;
  };
  /// What a call that moves data has done: bytes, or an errno.
  struct Moved {
    std::size_t bytes = 0;
    int error = 0;  // EAGAIN: the socket is full, or empty
  };
  static constexpr std::size_t parts_max = 64;

  /// Opens and binds; port 0 asks the kernel for a free one. `reuses`: although connections of that address linger in
  /// TIME_WAIT. The error has the errno of the call that failed.
  [[nodiscard]] static Result<TcpSocket> bind(const wire::TransportAddress& local, const Options& options, bool reuses);

  TcpSocket(TcpSocket&& other) noexcept;
  TcpSocket& operator=(TcpSocket&& other) noexcept;
  ~TcpSocket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Whether it is of the family of IPv6, and then whether it speaks IPv4, too.
  [[nodiscard]] bool is_v6() const { return v6_; }
  [[nodiscard]] bool dual_stack() const { return dual_stack_; }

  /// 0, or the errno.
  [[nodiscard]] int listen(unsigned backlog) const;
  /// 0: connected. EINPROGRESS: tells by becoming writable. EAFNOSUPPORT: the socket cannot send there.
  [[nodiscard]] int connect(const wire::TransportAddress& to, const TcpCalls& calls) const;
  /// The next connection that has come; the error has the errno.
  [[nodiscard]] Result<TcpSocket> accept(const TcpCalls& calls) const;
  [[nodiscard]] Moved send(std::span<const ConstBytes> parts, const TcpCalls& calls) const;
  /// 0 bytes without an error: the peer sends no more.
  [[nodiscard]] Moved receive(Bytes place, const TcpCalls& calls) const;
  /// "Get and clear the pending socket error" (socket(7)).
  [[nodiscard]] int take_error() const;
  /// Says that no more comes: the peer reads to the end, then finds it. 0, or the errno.
  [[nodiscard]] int end_sending() const;
  /// Lets sockets that are bound with `reuses` have the address beside this connection, and while it lingers.
  void share_address() const;
  /// Lets the destructor end the connection with a reset; what has not been sent is lost.
  void abort() const;

  [[nodiscard]] Result<wire::TransportAddress> local() const;
  [[nodiscard]] wire::TransportAddress remote() const;

 private:
  TcpSocket(int descriptor, bool v6, bool dual_stack) : descriptor_(descriptor), v6_(v6), dual_stack_(dual_stack) {}
  [[nodiscard]] bool set(int level, int option, int value) const;

  int descriptor_ = -1;
  bool v6_ = false;
  bool dual_stack_ = false;
};

}  // namespace sluice::tpi
