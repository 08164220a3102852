// SPDX-License-Identifier: Apache-2.0

// What makes, copies and ends descriptors: the table of those that are ours follows.

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <limits>

#include "sockets/library/exported.h"
#include "sockets/library/kinds.h"
#include "sockets/library/server_call.h"
#include "sockets/library/system.h"

namespace {

using namespace sluice::sockets;

constinit std::atomic<pid_t> owner{0};  // of the table

void own_table() { owner.store(::getpid(), std::memory_order_relaxed); }

/// vfork(2): "The child shares all memory with its parent", but not its descriptors: what it closes or copies before it
/// becomes another program is not for the parent's table.
bool owns_table() { return owner.load(std::memory_order_relaxed) == ::getpid(); }

/// A program may have inherited sockets of ours from the one that started it.
__attribute__((constructor)) void learn_inherited() {
  if (!has_server()) {
    return;
  }
  own_table();
  static_cast<void>(::pthread_atfork(nullptr, nullptr, own_table));
  DIR* const open = ::opendir("/proc/self/fd");
  if (open == nullptr) {
    return;
  }
  while (const dirent* const entry = ::readdir(open)) {
    if (entry->d_name[0] != '.') {
      learn_kind(std::atoi(entry->d_name));
    }
  }
  ::closedir(open);
}

int noted(int made, int original) {
  if (made >= 0 && owns_table()) {
    note_kind(made, known_kind(original));
  }
  return made;
}

}  // namespace

SLUICE_EXPORTED int close(int descriptor) {
  if (known_kind(descriptor) && owns_table()) {
    note_kind(descriptor, std::nullopt);
  }
  return system_calls().close(descriptor);
}

SLUICE_EXPORTED int close_range(unsigned first, unsigned last, int flags) noexcept {
  const int closed = system_calls().close_range(first, last, flags);
  if (closed == 0 && (static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) == 0 && owns_table()) {
    forget_kinds(first, last);
  }
  return closed;
}

/// "The function closes all open file descriptors greater than or equal to lowfd" (closefrom(3)).
SLUICE_EXPORTED void closefrom(int lowest) noexcept {
  system_calls().closefrom(lowest);
  if (owns_table()) {
    forget_kinds(static_cast<unsigned>(std::max(lowest, 0)), std::numeric_limits<int>::max());
  }
}

SLUICE_EXPORTED int dup(int descriptor) noexcept { return noted(system_calls().dup(descriptor), descriptor); }

SLUICE_EXPORTED int dup2(int descriptor, int number) noexcept {
  return noted(system_calls().dup2(descriptor, number), descriptor);
}

SLUICE_EXPORTED int dup3(int descriptor, int number, int flags) noexcept {
  return noted(system_calls().dup3(descriptor, number, flags), descriptor);
}

/// Its argument is an int or a pointer, which take the same way here: what is passed on is a long.
#define SLUICE_FCNTL(name)                                                  \
  SLUICE_EXPORTED int name(int descriptor, int command, ...) {              \
    va_list arguments;                                                      \
    va_start(arguments, command);                                           \
    const long argument = va_arg(arguments, long);                          \
    va_end(arguments);                                                      \
    const int result = system_calls().fcntl(descriptor, command, argument); \
    const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;   \
    return copies ? noted(result, descriptor) : result;                     \
  }
SLUICE_FCNTL(fcntl)
SLUICE_FCNTL(fcntl64)
