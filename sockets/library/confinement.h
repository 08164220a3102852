// SPDX-License-Identifier: Apache-2.0
#pragma once

// Programs that confine themselves to few system calls (seccomp(2)) foresee read(2) and write(2) on their sockets, not
// what this library makes of those: sendmsg(2), and questions of the server. sshd's child that has not authenticated
// anybody yet is killed for a sendmsg(2). So a process that has said prctl(PR_SET_NO_NEW_PRIVS), which must come before
// the filter, or PR_SET_SECCOMP itself, reads and writes its connections plainly from then on. What that costs: a reset
// looks like an end to who reads, and like a broken pipe to who writes.
//
// Datagrams need their header in any case. Filters that were there when the program began are of containers and
// services, which foresee sockets. Thread-safe.

namespace sluice::sockets {

[[nodiscard]] bool is_confined();

}  // namespace sluice::sockets
