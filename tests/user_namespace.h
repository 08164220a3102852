// SPDX-License-Identifier: Apache-2.0
#pragma once

// A user namespace in which this process is root, so that tests and benchmarks may make devices and mounts that nobody
// else sees. REQUIRES: the process has one thread.

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace sluice::test {

/// Moves the process into new namespaces: the user's and those of `others` (CLONE_NEWNET, CLONE_NEWNS). False where
/// the system does not allow it; errno says why.
[[nodiscard]] inline bool enter_user_namespace(int others) {
  const auto map_of = [](auto id) { return "0 " + std::to_string(id) + " 1"; };
  const std::string user = map_of(::getuid());
  const std::string group = map_of(::getgid());
  if (::unshare(CLONE_NEWUSER | others) != 0) {
    return false;
  }
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user;
  std::ofstream("/proc/self/gid_map") << group;
  return ::getuid() == 0;
}

}  // namespace sluice::test
