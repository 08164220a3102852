// SPDX-License-Identifier: Apache-2.0
#include "sockets/library/confinement.h"

#include <sys/prctl.h>

#include <atomic>
#include <cstdarg>

#include "sockets/library/exported.h"
#include "sockets/library/system.h"

namespace sluice::sockets {
namespace {

constinit std::atomic<bool> confined{false};

}  // namespace

bool is_confined() { return confined.load(std::memory_order_relaxed); }

}  // namespace sluice::sockets

/// Its arguments are unsigned longs or pointers, which take the same way here.
SLUICE_EXPORTED int prctl(int option, ...) noexcept {
  va_list arguments;
  va_start(arguments, option);
  unsigned long values[4];
  for (unsigned long& value : values) {
    value = va_arg(arguments, unsigned long);
  }
  va_end(arguments);
  if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
    sluice::sockets::confined.store(true, std::memory_order_relaxed);
  }
  return sluice::sockets::system_calls().prctl(option, values[0], values[1], values[2], values[3]);
}
