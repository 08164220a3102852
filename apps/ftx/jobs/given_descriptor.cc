// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/given_descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

namespace sluice::ftx {
namespace {

/// So much goes into a pipe or a terminal that is ready to be written, without waiting.
constexpr std::size_t atomic_bytes = 4096;  // PIPE_BUF

/// What was interrupted is tried again.
ssize_t answer(ssize_t done) {
  errno = done < 0 && errno == EINTR ? EAGAIN : errno;
  return done;
}

}  // namespace

Result<GivenDescriptor> GivenDescriptor::open(int descriptor, Access access) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    return fail(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(EISDIR);
  }
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return fail(errno);
  }
  Kind kind = S_ISREG(status.st_mode)    ? Kind::file
              : S_ISFIFO(status.st_mode) ? Kind::pipe
              : S_ISSOCK(status.st_mode) ? Kind::socket
                                         : Kind::other;
  Descriptor own;
  if (kind == Kind::pipe) {
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const int direction = access == Access::read ? O_RDONLY : O_WRONLY;
    own = Descriptor(::open(path.c_str(), direction | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    kind = own.valid() ? Kind::pipe : Kind::other;
  }
  return GivenDescriptor(descriptor, std::move(own), std::move(wake), kind);
}

void GivenDescriptor::interrupt() const {
  constexpr std::uint64_t once = 1;
  [[maybe_unused]] const auto woken = ::write(wake_.get(), &once, sizeof once);
}

/// Waits for one of `events`, or the end, or for interrupt(): false then, and errno EAGAIN.
bool GivenDescriptor::ready(short events) const {
  std::array<pollfd, 2> watched{{{descriptor_, events, 0}, {wake_.get(), POLLIN, 0}}};
  const int count = ::poll(watched.data(), watched.size(), -1);
  if (count < 0) {
    return answer(count) >= 0;
  }
  errno = EAGAIN;
  return watched[1].revents == 0;
}

ssize_t GivenDescriptor::read_some(Bytes out) const {
  if (kind_ == Kind::pipe || kind_ == Kind::socket) {
    // Before poll(2), which does not tell of the end of a FIFO whose last writer was gone when it was opened.
    const ssize_t got = kind_ == Kind::socket ? ::recv(descriptor_, out.data(), out.size(), MSG_DONTWAIT)
                                              : ::read(descriptor_, out.data(), out.size());
    if (got >= 0 || errno != EAGAIN) {
      return answer(got);
    }
    // What is there then is read the next time.
    [[maybe_unused]] const bool now = ready(POLLIN);
    return -1;
  }
  return kind_ == Kind::file || ready(POLLIN) ? answer(::read(descriptor_, out.data(), out.size())) : -1;
}

ssize_t GivenDescriptor::write_some(ConstBytes bytes) const {
  if (kind_ != Kind::file && !ready(POLLOUT)) {
    return -1;
  }
  if (kind_ == Kind::other) {
    bytes = bytes.first(std::min(bytes.size(), atomic_bytes));
  }
  return answer(kind_ == Kind::socket ? ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                      : ::write(descriptor_, bytes.data(), bytes.size()));
}

}  // namespace sluice::ftx
