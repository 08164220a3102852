// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unix sockets with a name, by which processes of one host meet. Header only, no state; any thread.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace sluice {

/// An address in the file system, or behind a zero byte an abstract one.
[[nodiscard]] inline Result<std::pair<sockaddr_un, socklen_t>> local_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG,
                "the path of a socket has 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes: " + name);
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  return std::pair{address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())};
}

/// Whether somebody listens there.
[[nodiscard]] inline bool somebody_answers(const sockaddr_un& address, socklen_t size) {
  const Descriptor probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe && (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 || errno == EAGAIN);
}

/// What a server that is gone has left is in the way of the next one.
[[nodiscard]] inline Status remove_left_over(const std::string& path, const sockaddr_un& address, socklen_t size) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) {
    return {};
  }
  if (!S_ISSOCK(found.st_mode)) {
    return fail(EEXIST, path + " is there already, and no socket");
  }
  if (somebody_answers(address, size)) {
    return fail(EADDRINUSE, "another server has " + path);
  }
  return ::unlink(path.c_str()) == 0 ? Status{} : fail(errno, "cannot remove " + path + ": " + std::strerror(errno));
}

/// A socket of messages (SOCK_SEQPACKET) that listens at `path` with that mode of its file.
[[nodiscard]] inline Result<Descriptor> listen_at(const std::string& path, mode_t mode) {
  const auto address = local_address(path);
  if (!address) {
    return std::unexpected(address.error());
  }
  const auto& [name, size] = *address;
  if (Status removed = remove_left_over(path, name, size); !removed) {
    return std::unexpected(removed.error());
  }
  constexpr int backlog = 128;
  Descriptor listening(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Nobody may connect before the mode is right: what is not listening yet refuses.
  if (!listening || ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0 ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(listening.get(), backlog) != 0) {
    return fail(errno, "cannot listen at " + path + ": " + std::strerror(errno));
  }
  return listening;
}

}  // namespace sluice
