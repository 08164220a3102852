# SPDX-License-Identifier: Apache-2.0
"""Each call of a program to the operating system fails, one at a time: what fails, how, and what must come of it.

system_faults.cc lets the calls fail. A first run without faults tells which call sites there are; then the program runs
once for each of their first calls and each error that such a call can have."""
import errno
import functools
import os
import re
import subprocess

SENDS = {"sendmsg", "sendmmsg", "sendto"}
RECEIVES = {"recv", "recvmsg", "recvmmsg"}
MOVES = {"read", "write", "pread", "pwritev", "send", "recv"}

# open(2), read(2), ... under "ERRORS". What a signal interrupts, what would block, what was done in part, and what the
# network has no room for are no failures: the program does its work all the same.
INTERRUPTED = SENDS | RECEIVES | MOVES | {"writev", "open", "openat", "poll", "epoll_wait", "fsync", "ftruncate", "flock",
                                        "waitpid", "accept4"}
DESCRIPTORS = {"open", "openat", "socket", "accept4", "socketpair", "mkostemp", "epoll_create", "epoll_create1", "eventfd", "pipe", "timerfd_create"}
DISK = {"read", "pread", "write", "pwritev", "fsync", "ftruncate", "fstat", "fstatat", "fchmod", "futimens", "openat", "close",
        "renameat", "unlinkat", "open", "rename", "renameat2", "unlink", "link", "mkostemp"}
SPACE = {"write", "pwritev", "openat", "ftruncate", "renameat", "fsync", "rename", "renameat2", "link", "mkostemp"}
# XDP; libxdp's functions answer -1, which is EPERM.
PROGRAMS = {"bpf_map_create", "bpf_map_update_elem", "bpf_prog_load", "bpf_link_create", "bpf_link_update", "bpf_link_detach"}
MEMORY = {"mmap", "socket", "setsockopt", "poll", "epoll_ctl", "ioctl"} | PROGRAMS
PERMISSION = {"open", "openat", "socket", "bind", "setsockopt", "ioctl", "renameat", "unlinkat", "fchmod", "xsk_umem__create",
              "xsk_socket__create"} | PROGRAMS
OTHER = {"bind": ["EADDRINUSE", "EADDRNOTAVAIL"], "listen": ["EADDRINUSE"], "accept4": ["EAGAIN", "ECONNABORTED", "ENOBUFS"],
         "connect": ["ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL", "ENOBUFS"], "getpeername": ["ENOTCONN", "ENOBUFS"], "ioctl": ["ENODEV"], "getsockopt": ["ENOPROTOOPT"],
         "setsockopt": ["ENOPROTOOPT"], "getsockname": ["ENOBUFS"], "fcntl": ["EINVAL"], "recvmsg": ["ENETDOWN"],
         "sendmmsg": ["ENETDOWN", "EPERM"], "sendmsg": ["ENETDOWN"], "sendto": ["ENETDOWN", "EBUSY"], "munmap": ["EINVAL"], "madvise": ["EAGAIN"],
         "timerfd_settime": ["EINVAL"], "writev": ["EIO"], "flock": ["ENOLCK"], "recvmmsg": ["ECONNREFUSED"],
         "send": ["EAGAIN", "EPIPE"], "recv": ["ECONNRESET"], "waitpid": ["ECHILD"], "posix_spawnp": ["ENOENT", "ENOMEM"],
         "kill": ["ESRCH"], "shutdown": ["ENOTCONN"], "renameat2": ["EINVAL"]}
HALF = "half"
NAMES = ("LD_PRELOAD", "ASAN_OPTIONS", "FAULT_LOG", "FAULT_SITE", "FAULT_CALL", "FAULT_ERRNO")  # of a program's settings


def errors_of(function):
    names = list(OTHER.get(function, []))
    for group, name in ((INTERRUPTED, "EINTR"), (SENDS | RECEIVES, "EAGAIN"), (SENDS, "ENOBUFS"), (MOVES, HALF),
                        (DESCRIPTORS, "EMFILE"), (DISK, "EIO"), (SPACE, "ENOSPC"), (MEMORY, "ENOMEM"),
                        (PERMISSION, "EACCES")):
        if function in group:
            names.append(name)
    return names


class Fault:
    def __init__(self, function, offset, call, name):
        self.function, self.offset, self.call, self.name = function, offset, call, name

    def __str__(self):
        return f"{self.function}() at {self.offset}, call {self.call}: {self.name}"

    def must_not_matter(self):
        return self.name in ("EINTR", "EAGAIN", HALF) or (self.function in SENDS and self.name == "ENOBUFS")

    def environment(self):
        number = 0 if self.name == HALF else getattr(errno, self.name)
        return environment({"FAULT_SITE": f"{self.function}:{self.offset}", "FAULT_CALL": self.call, "FAULT_ERRNO": str(number)})


def environment(settings):
    library = os.path.join(os.environ["SLUICE_BIN"], "..", "tests", "libsystem_faults.so")
    more = {"LD_PRELOAD": library, **settings}
    # AddressSanitizer wants to be the first library; these functions pass its own on.
    more["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {**os.environ, **more}


# Boost.Asio does not look at what these answer: its own wake-ups and its pipe for signals. Only that there is no
# descriptor for them is noticed, and tried.
NOT_OURS = ("boost_asio_signal_handler", "signal_set_service", "register_internal_descriptor",
            "epoll_reactor::epoll_reactor")


def is_ours(program, function, offset):
    if function in DESCRIPTORS:
        return True
    frames = source_of(program, offset)
    return not any(name in frames for name in NOT_OURS)


@functools.cache  # reading the debug information takes long
def source_of(program, offset):
    """Functions and files of what makes a call there, those that are inlined included."""
    return subprocess.run(["addr2line", "-Cfie", program, hex(int(offset, 16) - 1)], capture_output=True, text=True, check=True).stdout


def faults(program, scenario, log, within=None):
    """All faults of a program; of calls from `within` (a pattern of functions and files) alone, where it is given.
    `scenario(environment)` runs it."""
    scenario(environment({"FAULT_LOG": log}))
    with open(log) as lines:
        calls = [line.split() for line in lines]
    ours = {(function, offset): re.search(within, source_of(program, offset)) if within else is_ours(program, function, offset)
            for function, offset, _ in calls}
    return [Fault(function, offset, call, name) for function, offset, call in calls
            if ours[function, offset] for name in errors_of(function)]


class Wrong(Exception):
    """What the program did was wrong."""


def rest_of(process, seconds_max):
    """What `process` still writes until it ends, which it must."""
    try:
        return process.communicate(timeout=seconds_max)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise Wrong(f"it hangs: {process.communicate()[0]}")


def try_all(what, program, scenario, log, within=None):
    """`scenario(environment, fault)` raises Wrong; `fault` is None in the run without one. Answers how many failed."""
    plan = faults(program, lambda settings: scenario(settings, None), log, within)
    failed = 0
    for fault in plan:
        try:
            scenario(fault.environment(), fault)
        except Wrong as wrong:
            failed += 1
            print(f"FAILED: {what}: {fault}: {wrong}", flush=True)
    print(f"{what}: {len(plan)} faults of {len({(fault.function, fault.offset) for fault in plan})} calls, {failed} failed", flush=True)
    if not plan:
        print(f"FAILED: {what}: no call was seen")
    return failed + (not plan)
