// SPDX-License-Identifier: Apache-2.0
#pragma once

// Confinement: a process gives up, before it reads the first byte of a peer, what it does not need any more.
//
// Threat: a fault in a decoder lets a peer run code of its own in this process. Without confinement that code may do
// whatever the user may. Confined, it opens no file but those that the transfer is about, starts no program, reaches no
// other process of the user and no service of the host; what is left to it docs/security.md says.
//
// Two mechanisms of Linux, neither of which needs a privilege, and neither of which can be undone:
//
//   restrict_files()   Landlock (Linux 5.19 and later): which files may be opened, made, renamed, linked and removed.
//                      All others are refused with EACCES. landlock(7): "One policy layer grants access to a file path
//                      if at least one of its rules encountered on the path grants the access." Layers add up: a second
//                      call takes away more.
//   restrict_calls()   seccomp(2), and Landlock's rules for sockets and signals: which calls may be made at all. Those
//                      that are refused answer EPERM, since a library that tries one of them can go on without. A call
//                      by the numbers of another architecture ends the process.
//
// The calls are a list of those that are refused. seccomp(2) advises otherwise: "It is strongly recommended to use an
// allow-list approach whenever possible because such an approach is more robust and simple." The calls that a program
// makes are not its own choice, though: another version of libc, OpenSSL, a sanitizer or a driver makes others, and
// a list of what today's make would end transfers on tomorrow's systems. What a forgotten call could harm most, the
// user's files, Landlock guards, whose rules are a list of what is allowed.
//
// What neither can refuse: Landlock does not guard looking at files and their times. landlock(7): "It is currently not
// possible to restrict some file-related actions accessible through these system call families: chdir(2), truncate(2),
// stat(2), flock(2), chmod(2), chown(2), setxattr(2), utime(2), ioctl(2), fcntl(2), access(2)." Of these chmod, chown
// and setxattr by name are refused as calls, and by descriptor, but for chmod, where nobody needs them.
//
// Where the kernel has none of it the functions fail, and the process goes on as it was.
//
// Call them while the process has one thread. landlock(7): "one process's thread may apply Landlock rules to itself,
// but they will not be automatically applied to other sibling threads". Threads that are started later inherit both.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::ftx {

/// Files, and directories with all that lies below them. Symbolic links are followed now, not later. A path that cannot
/// be opened now gives no right.
struct FileRights {
  std::vector<std::string> read;
  std::vector<std::string> write;  // made, read, replaced and removed, too; no devices, FIFOs and sockets

  bool operator==(const FileRights&) const = default;
};

/// Always left: the network by datagrams of IPv4 and IPv6, descriptors that are open, memory, threads, time.
struct CallRights {
  /// The one other process that may be sent signals.
  std::optional<pid_t> child{};
  /// The drivers of a declared stack (dlpi/) ask the kernel of interfaces and change their XDP programs while they run:
  /// sockets of other families, but not of AF_UNIX, and bpf(2).
  bool drivers = false;
  /// A receiver gives files to their owners: fchown(2), and fchownat(2) of what is no symbolic link's target.
  bool owners = false;
  /// A receiver sets and removes extended attributes of what is open: fsetxattr(2), fremovexattr(2).
  bool attributes = false;
};

/// Fails with ENOSYS or EOPNOTSUPP where the kernel has no Landlock, or not enough of it.
[[nodiscard]] Status restrict_files(const FileRights& rights);

/// Fails where the kernel has no seccomp filters.
[[nodiscard]] Status restrict_calls(const CallRights& rights);

}  // namespace sluice::ftx
