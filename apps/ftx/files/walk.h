// SPDX-License-Identifier: Apache-2.0
#pragma once

// One step of a walk below a directory that is held open. Neither call follows a symbolic link, so a walk from
// component to component leads nowhere else, whatever is swapped meanwhile.

#include <fcntl.h>
#include <sys/stat.h>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/system.h"

namespace sluice::ftx {

/// Invalid, and errno, when `name` is no directory: ENOTDIR or ELOOP for a symbolic link.
[[nodiscard]] inline Descriptor enter_directory(int parent, const char* name) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  return Descriptor(retried([&] { return os().openat(parent, name, flags, 0600); }));
}

/// Of a symbolic link: of itself. 0, or -1 and errno.
[[nodiscard]] inline int look_at(int parent, const char* name, struct stat& status) {
  return retried([&] { return os().fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW); });
}

}  // namespace sluice::ftx
