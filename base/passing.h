// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages between processes that bring a descriptor (SCM_RIGHTS, unix(7)).
//
// Plain functions; thread-safe.

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/retried.h"

namespace sluice {

/// Sends one message, with `descriptor` unless that is negative. 0, or an errno: EAGAIN where it would wait.
[[nodiscard]] inline int send_message(int channel, ConstBytes message, int descriptor) {
  iovec part{.iov_base = const_cast<std::byte*>(message.data()), .iov_len = message.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  return retried([&] { return ::sendmsg(channel, &header, MSG_DONTWAIT | MSG_NOSIGNAL); }) < 0 ? errno : 0;
}

/// What came: its bytes, 0 at the end of the channel, and the descriptor, if it brought one. An errno where nothing
/// did.
struct Passed {
  std::size_t size = 0;
  Descriptor descriptor;
  int error = 0;
};
/// Receives one message into `place`, which it must fit: EMSGSIZE.
[[nodiscard]] inline Passed receive_message(int channel, Bytes place) {
  iovec part{.iov_base = place.data(), .iov_len = place.size()};
  // Room for one descriptor: the kernel closes others itself (MSG_CTRUNC).
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  Passed passed;
  const ssize_t got = retried([&] { return ::recvmsg(channel, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  if (got < 0) {
    passed.error = errno;
    return passed;
  }
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS && one->cmsg_len == CMSG_LEN(sizeof(int))) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(one), sizeof descriptor);
      passed.descriptor = Descriptor(descriptor);
    }
  }
  passed.size = static_cast<std::size_t>(got);
  passed.error = (header.msg_flags & MSG_TRUNC) != 0 ? EMSGSIZE : 0;
  return passed;
}

}  // namespace sluice
