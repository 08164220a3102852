// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C library's own functions, behind those of the same names that this library puts in front of them.
//
// Thread-safe: found once, when the first is wanted.

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>

namespace sluice::sockets {

struct SystemCalls {
  int (*socket)(int, int, int);
  int (*bind)(int, const sockaddr*, socklen_t);
  int (*listen)(int, int);
  int (*accept4)(int, sockaddr*, socklen_t*, int);
  int (*connect)(int, const sockaddr*, socklen_t);
  int (*getsockname)(int, sockaddr*, socklen_t*);
  int (*getpeername)(int, sockaddr*, socklen_t*);
  int (*getsockopt)(int, int, int, void*, socklen_t*);
  int (*setsockopt)(int, int, int, const void*, socklen_t);
  int (*close)(int);
  int (*close_range)(unsigned, unsigned, int);
  void (*closefrom)(int);
  int (*dup)(int);
  int (*dup2)(int, int);
  int (*dup3)(int, int, int);
  int (*fcntl)(int, int, ...);
  int (*prctl)(int, ...);
  ssize_t (*read)(int, void*, std::size_t);
  ssize_t (*readv)(int, const iovec*, int);
  ssize_t (*recv)(int, void*, std::size_t, int);
  ssize_t (*recvfrom)(int, void*, std::size_t, int, sockaddr*, socklen_t*);
  ssize_t (*recvmsg)(int, msghdr*, int);
  ssize_t (*write)(int, const void*, std::size_t);
  ssize_t (*writev)(int, const iovec*, int);
  ssize_t (*send)(int, const void*, std::size_t, int);
  ssize_t (*sendto)(int, const void*, std::size_t, int, const sockaddr*, socklen_t);
  ssize_t (*sendmsg)(int, const msghdr*, int);
  int (*recvmmsg)(int, mmsghdr*, unsigned, int, timespec*);
  int (*sendmmsg)(int, mmsghdr*, unsigned, int);
};

[[nodiscard]] const SystemCalls& system_calls();

/// Receives a message and the descriptor it brings, or -1; false with errno where there is none.
bool receive_passed(int channel, void* place, std::size_t size, int flags, std::size_t& got, int& descriptor);

}  // namespace sluice::sockets
