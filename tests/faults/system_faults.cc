// SPDX-License-Identifier: Apache-2.0
// A library to be preloaded (LD_PRELOAD): lets calls of a program to the operating system fail, one call site at a
// time. A site is a function and the place in the program's own code that calls it. Calls from other libraries pass.
//
//   FAULT_LOG    a file that gets a line for each of a site's first calls: function, offset in the program, which call
//   FAULT_SITE   the function's name and the offset of the site that fails, "close:6ddb6"
//   FAULT_CALL   at which of its first calls, from 1
//   FAULT_ERRNO  with which errno; 0: the call is made for half of the bytes only, where it is one of a file or a pipe
//
// close() does close: Linux frees the descriptor whatever it answers.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace {

constexpr int none = -1;

/// The program's own code, the first object that the linker loaded.
struct Program {
  std::uintptr_t base = 0;
  std::uintptr_t end = 0;

  Program() {
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* out) {
          auto& program = *static_cast<Program*>(out);
          program.base = object->dlpi_addr;
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto& part = object->dlpi_phdr[i];
            if (part.p_type == PT_LOAD && object->dlpi_addr + part.p_vaddr + part.p_memsz > program.end) {
              program.end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
            }
          }
          return 1;
        },
        this);
  }
};

class Sites {
 public:
  /// The errno with which this call is to fail, 0: it is to be cut short, or `none`. `offset` is the caller's.
  int fault(const char* function, std::uintptr_t offset) {
    // A signal's handler may call while its thread holds the lock: that call passes.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) {
      return none;
    }
    int& calls = calls_[{offset, function}];
    if (calls == calls_max) {
      return none;
    }
    ++calls;
    if (log_ != nullptr) {
      std::fprintf(log_, "%s %lx %d\n", function, offset, calls);
      std::fflush(log_);
    }
    char site[64];
    std::snprintf(site, sizeof site, "%s:%lx", function, offset);
    return std::strcmp(site, site_) == 0 && calls == call_ ? errno_ : none;
  }

 private:
  static constexpr int calls_max = 3;

  static const char* setting(const char* name, const char* otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : otherwise;
  }

  std::mutex mutex_;
  std::map<std::pair<std::uintptr_t, const void*>, int> calls_;
  std::FILE* log_ = std::getenv("FAULT_LOG") != nullptr ? std::fopen(std::getenv("FAULT_LOG"), "ae") : nullptr;
  const char* site_ = setting("FAULT_SITE", "");
  int call_ = std::atoi(setting("FAULT_CALL", "1"));
  int errno_ = std::atoi(setting("FAULT_ERRNO", "5"));
};

int fault(const char* function, void* caller) {
  static const Program program;
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  if (at < program.base || at >= program.end) {
    return none;
  }
  // Made by the program's first call, not by a library's, which may come before there is an environment. Never
  // destroyed: calls are made until the very end.
  static Sites& sites = *new Sites;
  const int before = errno;
  const int chosen = sites.fault(function, at - program.base);
  errno = before;
  return chosen;
}

/// Whether a call that moves `size` bytes may do so for half of them.
bool may_be_cut(int descriptor, std::size_t size) {
  struct stat status{};
  if (size < 2 || fstat(descriptor, &status) != 0) {
    return false;
  }
  int type = 0;
  socklen_t type_size = sizeof type;
  const bool stream = S_ISSOCK(status.st_mode) && getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
                      type == SOCK_STREAM;
  return stream || S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Defines `name` for the linker; in C++ it has another one, since the system's headers declare it.
#define DEFINE(result, name, parameters)                     \
  extern "C" result faulty_##name parameters __asm__(#name); \
  extern "C" result faulty_##name parameters

#define FAIL_IF_CHOSEN(result, name)                            \
  const int chosen = fault(#name, __builtin_return_address(0)); \
  if (chosen > 0) {                                             \
    errno = chosen;                                             \
    return (result)(-1);                                        \
  }

#define CALL(result, name, parameters, arguments)             \
  DEFINE(result, name, parameters) {                          \
    FAIL_IF_CHOSEN(result, name)                              \
    static auto* const next = real<result parameters>(#name); \
    return next arguments;                                    \
  }

// A null pointer says that it failed.
#define FIND(found, name, parameters, arguments)                                    \
  DEFINE(found*, name, parameters) {                                                \
    if (const int chosen = fault(#name, __builtin_return_address(0)); chosen > 0) { \
      errno = chosen;                                                               \
      return nullptr;                                                               \
    }                                                                               \
    static auto* const next = real<found * parameters>(#name);                      \
    return next arguments;                                                          \
  }

// The size is that of the third parameter.
#define TRANSFER(name, parameters, arguments)                     \
  DEFINE(ssize_t, name, parameters) {                             \
    FAIL_IF_CHOSEN(ssize_t, name)                                 \
    static auto* const next = real<ssize_t parameters>(#name);    \
    size = chosen == 0 && may_be_cut(fd, size) ? size / 2 : size; \
    return next arguments;                                        \
  }

CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
CALL(int, bind, (int fd, const sockaddr* address, socklen_t size), (fd, address, size))
CALL(int, listen, (int fd, int backlog), (fd, backlog))
CALL(int, accept4, (int fd, sockaddr* address, socklen_t* size, int flags), (fd, address, size, flags))
CALL(int, connect, (int fd, const sockaddr* address, socklen_t size), (fd, address, size))
CALL(int, getpeername, (int fd, sockaddr* address, socklen_t* size), (fd, address, size))
CALL(int, getsockname, (int fd, sockaddr* address, socklen_t* size), (fd, address, size))
CALL(int, getsockopt, (int fd, int level, int name, void* value, socklen_t* size), (fd, level, name, value, size))
CALL(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size), (fd, level, name, value, size))
TRANSFER(recv, (int fd, void* out, std::size_t size, int flags), (fd, out, size, flags))
TRANSFER(send, (int fd, const void* bytes, std::size_t size, int flags), (fd, bytes, size, flags))
CALL(int, socketpair, (int domain, int type, int protocol, int* fds), (domain, type, protocol, fds))
CALL(pid_t, waitpid, (pid_t pid, int* status, int options), (pid, status, options))
CALL(int, kill, (pid_t pid, int signal), (pid, signal))
CALL(int, shutdown, (int fd, int how), (fd, how))
CALL(int, mkostemp, (char* path, int flags), (path, flags))
CALL(int, rename, (const char* from, const char* to), (from, to))
CALL(int, renameat2, (int from_fd, const char* from, int to_fd, const char* to, unsigned flags),
     (from_fd, from, to_fd, to, flags))
CALL(int, unlink, (const char* path), (path))
CALL(int, link, (const char* from, const char* to), (from, to))
CALL(ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags))
CALL(ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags))
CALL(int, recvmmsg, (int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout),
     (fd, messages, count, flags, timeout))
CALL(ssize_t, sendto, (int fd, const void* bytes, std::size_t size, int flags, const sockaddr* to, socklen_t to_size),
     (fd, bytes, size, flags, to, to_size))
CALL(int, sendmmsg, (int fd, mmsghdr* messages, unsigned count, int flags), (fd, messages, count, flags))
CALL(ssize_t, writev, (int fd, const iovec* parts, int count), (fd, parts, count))
TRANSFER(read, (int fd, void* out, std::size_t size), (fd, out, size))
TRANSFER(write, (int fd, const void* bytes, std::size_t size), (fd, bytes, size))
TRANSFER(pread, (int fd, void* out, std::size_t size, off_t at), (fd, out, size, at))
DEFINE(ssize_t, pwritev, (int fd, const iovec* parts, int count, off_t at)) {
  FAIL_IF_CHOSEN(ssize_t, pwritev)
  static auto* const next = real<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  const bool cut = chosen == 0 && may_be_cut(fd, parts->iov_len);
  const iovec half{parts->iov_base, parts->iov_len / 2};
  return next(fd, cut ? &half : parts, cut ? 1 : count, at);
}
CALL(int, poll, (pollfd * asked, nfds_t count, int timeout), (asked, count, timeout))
CALL(int, epoll_create, (int size), (size))
CALL(int, epoll_create1, (int flags), (flags))
CALL(int, epoll_ctl, (int fd, int operation, int other, epoll_event* event), (fd, operation, other, event))
CALL(int, epoll_wait, (int fd, epoll_event* events, int count, int timeout), (fd, events, count, timeout))
CALL(int, eventfd, (unsigned value, int flags), (value, flags))
CALL(int, pipe, (int* fds), (fds))
CALL(int, timerfd_create, (int clock, int flags), (clock, flags))
CALL(int, timerfd_settime, (int fd, int flags, const itimerspec* wanted, itimerspec* before),
     (fd, flags, wanted, before))
CALL(void*, mmap, (void* at, std::size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
CALL(int, munmap, (void* at, std::size_t size), (at, size))
CALL(int, madvise, (void* at, std::size_t size, int advice), (at, size, advice))
CALL(int, fstat, (int fd, struct stat* status), (fd, status))
CALL(int, fstatat, (int fd, const char* path, struct stat* status, int flags), (fd, path, status, flags))
CALL(int, ftruncate, (int fd, off_t size), (fd, size))
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode))
CALL(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
CALL(int, fchownat, (int fd, const char* path, uid_t user, gid_t group, int flags), (fd, path, user, group, flags))
CALL(ssize_t, flistxattr, (int fd, char* out, size_t size), (fd, out, size))
CALL(ssize_t, fgetxattr, (int fd, const char* name, void* out, size_t size), (fd, name, out, size))
CALL(int, fsetxattr, (int fd, const char* name, const void* value, size_t size, int flags),
     (fd, name, value, size, flags))
CALL(int, fremovexattr, (int fd, const char* name), (fd, name))
CALL(int, futimens, (int fd, const timespec* times), (fd, times))
CALL(int, fsync, (int fd), (fd))
CALL(int, fdatasync, (int fd), (fd))
CALL(int, flock, (int fd, int operation), (fd, operation))
CALL(int, renameat, (int from_fd, const char* from, int to_fd, const char* to), (from_fd, from, to_fd, to))
CALL(int, unlinkat, (int fd, const char* path, int flags), (fd, path, flags))
CALL(int, mkdirat, (int fd, const char* path, mode_t mode), (fd, path, mode))
CALL(int, linkat, (int fd, const char* path, int to_fd, const char* to, int flags), (fd, path, to_fd, to, flags))
CALL(int, symlinkat, (const char* target, int fd, const char* path), (target, fd, path))
CALL(ssize_t, readlinkat, (int fd, const char* path, char* out, std::size_t size), (fd, path, out, size))
CALL(int, utimensat, (int fd, const char* path, const timespec* times, int flags), (fd, path, times, flags))
CALL(int, syncfs, (int fd), (fd))
FIND(DIR, fdopendir, (int fd), (fd))
FIND(dirent, readdir, (DIR * directory), (directory))
CALL(int, closedir, (DIR * directory), (directory))

// bpf(2) has no function of its own; libbpf's, and what libxdp makes of several calls.
CALL(int, bpf_map_create,
     (int type, const char* name, unsigned key, unsigned value, unsigned entries, const void* options),
     (type, name, key, value, entries, options))
CALL(int, bpf_map_update_elem, (int map, const void* key, const void* value, std::uint64_t flags),
     (map, key, value, flags))
CALL(int, bpf_prog_load,
     (int type, const char* name, const char* license, const void* program, std::size_t size, void* options),
     (type, name, license, program, size, options))
CALL(int, bpf_link_create, (int program, int target, int type, const void* options), (program, target, type, options))
CALL(int, bpf_link_update, (int link, int program, const void* options), (link, program, options))
CALL(int, bpf_link_detach, (int link), (link))
CALL(int, xsk_umem__create,
     (void* umem, void* memory, std::uint64_t size, void* fill, void* completion, const void* options),
     (umem, memory, size, fill, completion, options))
CALL(int, xsk_socket__create,
     (void* socket, const char* device, unsigned queue, void* umem, void* receive, void* transmit, const void* options),
     (socket, device, queue, umem, receive, transmit, options))

DEFINE(int, close, (int fd)) {
  const int chosen = fault("close", __builtin_return_address(0));
  static auto* const next = real<int(int)>("close");
  const int result = next(fd);
  if (chosen > 0) {
    errno = chosen;
    return -1;
  }
  return result;
}

// Answers the errno.
DEFINE(int, posix_spawnp,
       (pid_t * pid, const char* file, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
        char* const* arguments, char* const* environment)) {
  const int chosen = fault("posix_spawnp", __builtin_return_address(0));
  if (chosen > 0) {
    return chosen;
  }
  static auto* const next = real<decltype(posix_spawnp)>("posix_spawnp");
  return next(pid, file, actions, attributes, arguments, environment);
}

// The rest have one argument that may be absent, and of any type.
DEFINE(int, open, (const char* path, int flags, ...)) {
  FAIL_IF_CHOSEN(int, open)
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  static auto* const next = real<int(const char*, int, ...)>("open");
  return next(path, flags, mode);
}

DEFINE(int, openat, (int fd, const char* path, int flags, ...)) {
  FAIL_IF_CHOSEN(int, openat)
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  static auto* const next = real<int(int, const char*, int, ...)>("openat");
  return next(fd, path, flags, mode);
}

DEFINE(int, fcntl, (int fd, int command, ...)) {
  FAIL_IF_CHOSEN(int, fcntl)
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  static auto* const next = real<int(int, int, ...)>("fcntl");
  return next(fd, command, argument);
}

DEFINE(int, ioctl, (int fd, unsigned long request, ...)) {
  FAIL_IF_CHOSEN(int, ioctl)
  va_list more;
  va_start(more, request);
  void* const argument = va_arg(more, void*);
  va_end(more);
  static auto* const next = real<int(int, unsigned long, ...)>("ioctl");
  return next(fd, request, argument);
}
