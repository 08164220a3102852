#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each role of ftx is confined while it talks to its peer. A debugger stands for the peer's code: it makes a running ftx
call the operating system, and looks at what that answers. Traffic is on loopback, and slow enough to look at it."""
import ctypes
import errno
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from waiting import SECONDS_MAX, wait_until  # noqa: E402

FTX = os.path.join(os.environ["SLUICE_BIN"], "ftx")
SLOW = ("--rate", "1")  # Mbit/s
BYTES = 2_000_000
ALLOWED = 0

# ptrace(2), on x86-64.
PTRACE_ATTACH, PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_SINGLESTEP = 16, 12, 13, 9
WAIT_ALL = 0x40000000
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base "
             "ds es fs gs").split()
SYSCALL_INSTRUCTION = b"\x0f\x05"
NUMBERS = {"openat": 257, "execve": 59, "socket": 41, "fork": 57, "unlink": 87, "kill": 62, "fchown": 93, "fremovexattr": 199}
AT_FDCWD = -100 & 0xFFFFFFFFFFFFFFFF
NO_DESCRIPTOR = -1 & 0xFFFFFFFFFFFFFFFF


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in REGISTERS]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace {request}: {os.strerror(code)}")


class Debugged:
    """A process that is stopped, and killed in the end."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        ptrace(PTRACE_ATTACH, self.pid)
        os.waitpid(self.pid, WAIT_ALL)
        maps = [line.split() for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines()]
        self.sanitized = any(re.search(r"/lib(clang_rt\.)?[at]san", line[-1]) for line in maps)
        ranges = [(*(int(end, 16) for end in line[0].split("-")), line) for line in maps]
        self.memory = open(f"/proc/{self.pid}/mem", "r+b", buffering=0)
        code = next((begin, end) for begin, end, line in ranges if line[1] == "r-xp" and "libc." in line[-1])
        self.memory.seek(code[0])
        self.instruction = code[0] + self.memory.read(code[1] - code[0]).index(SYSCALL_INSTRUCTION)
        self.texts = next(begin for begin, _, line in ranges if line[-1] == "[stack]")  # far below what is in use
        return self

    def __exit__(self, *_):
        self.memory.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, WAIT_ALL)

    def call(self, name, *arguments):
        """An errno value, or 0."""
        registers = Registers()
        ptrace(PTRACE_GETREGS, self.pid, ctypes.addressof(registers))
        for register, value in zip(("rdi", "rsi", "rdx", "r10"), arguments):
            if isinstance(value, str):
                self.memory.seek(self.texts)
                self.memory.write(os.fsencode(value) + b"\0")
                value = self.texts
            setattr(registers, register, value)
        registers.rax, registers.rip = NUMBERS[name], self.instruction
        registers.orig_rax = 0xFFFFFFFFFFFFFFFF  # no call is to be made again
        ptrace(PTRACE_SETREGS, self.pid, ctypes.addressof(registers))
        # A signal that comes first, of a child that has ended, stops it before the instruction.
        while registers.rip == self.instruction:
            ptrace(PTRACE_SINGLESTEP, self.pid)
            os.waitpid(self.pid, WAIT_ALL)
            ptrace(PTRACE_GETREGS, self.pid, ctypes.addressof(registers))
        result = ctypes.c_longlong(registers.rax).value
        return -result if result < 0 else 0


class Case:
    def __init__(self, folder):
        self.top = pathlib.Path(folder)
        for name in ("here", "there", "outside", "config/ftx"):
            (self.top / name).mkdir(parents=True)
        self.source = self.top / "here/a.bin"
        self.source.write_bytes(os.urandom(BYTES))
        (self.top / "there/b.bin").write_bytes(os.urandom(BYTES))
        self.secret = self.top / "outside/secret"
        self.secret.write_text("of nobody else")
        self.allowed = self.top / "config/ftx/allowed_keys"
        self.ssh = self.top / "ssh"
        self.processes = []

    def path(self, name):
        return str(self.top / name)

    def start(self, *arguments):
        environment = {**os.environ, "XDG_CONFIG_HOME": self.path("config")}
        self.processes.append(subprocess.Popen([FTX, *arguments], cwd=self.top, env=environment, stdin=subprocess.DEVNULL,
                                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return self.processes[-1]

    def key(self):
        """Of the server and of its clients, which have one configuration."""
        return subprocess.run([FTX, "key"], env={**os.environ, "XDG_CONFIG_HOME": self.path("config")}, check=True,
                              capture_output=True, text=True).stdout.split()[0]

    def serve(self, *arguments):
        self.allowed.write_text(self.key() + " me\n")
        self.allowed.chmod(0o600)
        server = self.start("serve", "there", "--listen", "127.0.0.1", "--port", "0", *arguments)
        line = server.stdout.readline()
        self.url = f"ftx://127.0.0.1:{line.split(',')[0].rsplit(':')[-1].strip()}/"
        return server

    def through_ssh(self, *operands, command=(), script=f"exec {shlex.quote(FTX)} remote"):
        """Answers the near side; far() is the other."""
        self.ssh.write_text(f"""#!/bin/sh
for argument; do [ "$argument" = -G ] && {{ echo "hostname 127.0.0.1"; exit 0; }}; done
export HOME={shlex.quote(self.path("there"))} SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
echo $$ > {shlex.quote(self.path("pid"))}
{script}
""")
        self.ssh.chmod(0o700)
        return self.start(*command, "--ssh", str(self.ssh), *operands)

    def far(self):
        path = self.top / "pid"
        return int(wait_until(lambda: path.exists() and path.read_text().strip(), "ssh did not start"))

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def status_of(pid):
    fields = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        lines = dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)
        for name in ("Seccomp", "NoNewPrivs"):
            fields.setdefault(name, set()).add(lines[name].strip())
    return fields


def expect_confined(pid):
    """All of its threads."""
    wait_until(lambda: status_of(pid) == {"Seccomp": {"2"}, "NoNewPrivs": {"1"}}, f"not confined: {status_of(pid)}")


def arrives(at, directory):
    wait_until(lambda: [path for path in (at.top / directory).iterdir() if ".ftx-" in path.name], "nothing arrives")


def expect_answers(at, pid, answers):
    """`answers`: what calls of the process lead to. What nobody may do is added."""
    expect_confined(pid)
    if platform.machine() != "x86_64":
        print("  only x86-64: its calls are not tried")
        return
    path = str(at.secret)
    everywhere = [(errno.EACCES, "openat", AT_FDCWD, path, os.O_RDONLY), (errno.EACCES, "openat", AT_FDCWD, path, os.O_WRONLY),
                  (errno.EACCES, "openat", AT_FDCWD, at.path("outside/new"), os.O_WRONLY | os.O_CREAT, 0o600),
                  (errno.EACCES, "openat", AT_FDCWD, "/etc/passwd", os.O_RDONLY), (errno.EACCES, "unlink", path),
                  (errno.EPERM, "execve", "/bin/true", 0, 0), (errno.EPERM, "fork"), (errno.EPERM, "socket", 1, 1, 0),
                  (errno.EPERM, "socket", 2, 1, 0), (errno.EPERM, "kill", os.getpid(), 0)]
    try:
        with Debugged(pid) as process:
            if process.sanitized:  # LeakSanitizer forks
                everywhere.remove((errno.EPERM, "fork"))
            for expected, *call in everywhere + answers:
                got = process.call(*call)
                assert got == expected, f"{call}: {errno.errorcode.get(got, got)}, expected {errno.errorcode.get(expected, expected)}"
    except PermissionError as error:  # ptrace: without privileges nobody debugs a process that may not be dumped
        print(f"  its calls are not tried: {error}")


def reads(at, name, expected=ALLOWED):
    return (expected, "openat", AT_FDCWD, at.path(name), os.O_RDONLY)


def writes(at, name, expected=ALLOWED):
    return (expected, "openat", AT_FDCWD, at.path(name), os.O_WRONLY | os.O_CREAT, 0o600)


def metadata(owners=False, attributes=False):
    """Whether it may set owners and extended attributes of what is open; asked of a descriptor that is not."""
    return [(errno.EBADF if owners else errno.EPERM, "fchown", NO_DESCRIPTOR, 0, 0),
            (errno.EBADF if attributes else errno.EPERM, "fremovexattr", NO_DESCRIPTOR, "user.x")]


cases = []


def case(function):
    cases.append(function)
    return function


@case
def a_server_writes_below_its_directory_and_reads_its_list(at):
    server = at.serve()
    at.allowed.with_suffix(".new").write_text(at.allowed.read_text())
    at.allowed.with_suffix(".new").replace(at.allowed)
    expect_answers(at, server.pid, [writes(at, "there/new"), reads(at, "there/b.bin"), reads(at, "config/ftx/allowed_keys"),
                                    writes(at, "config/ftx/allowed_keys", errno.EACCES), reads(at, "here/a.bin", errno.EACCES), *metadata()])


@case
def a_server_that_takes_owners_and_attributes_sets_them(at):
    expect_answers(at, at.serve("--owners", "--xattrs").pid, metadata(owners=True, attributes=True))


@case
def a_server_that_only_reads_writes_nothing(at):
    expect_answers(at, at.serve("--read-only").pid, [reads(at, "there/b.bin"), writes(at, "there/new", errno.EACCES)])


@case
def a_server_that_receives_is_confined_with_its_threads(at):
    server = at.serve()
    for number in range(100):
        (at.top / f"here/small{number}").write_bytes(b"x")
    at.start("--accept-key", at.key(), *SLOW, "-r", "here/", at.url)
    arrives(at, "there")
    wait_until(lambda: len(os.listdir(f"/proc/{server.pid}/task")) > 1, "it has no threads")  # the pack's, or the journal's
    expect_confined(server.pid)


@case
def a_client_that_sends_reads_its_source(at):
    at.serve("--insecure")
    expect_answers(at, at.start("--insecure", *SLOW, "here/a.bin", at.url).pid,
                   [reads(at, "here/a.bin"), writes(at, "here/a.bin", errno.EACCES), writes(at, "here/new", errno.EACCES),
                    reads(at, "there/b.bin", errno.EACCES), *metadata()])


@case
def a_client_that_has_pinned_a_key_writes_no_list(at):
    at.serve()
    client = at.start("--accept-key", at.key(), *SLOW, "here/a.bin", at.url)
    arrives(at, "there")
    assert (at.top / "config/ftx/known_hosts").exists()
    expect_answers(at, client.pid, [reads(at, "here/a.bin"), writes(at, "config/ftx/known_hosts", errno.EACCES),
                                    reads(at, "config/ftx/key", errno.EACCES)])


@case
def a_client_that_fetches_writes_below_its_destination(at):
    at.serve()
    client = at.start("--accept-key", at.key(), *SLOW, at.url + "b.bin", "here/")
    arrives(at, "here")
    expect_answers(at, client.pid, [writes(at, "here/new"), reads(at, "here/a.bin"), reads(at, "there/b.bin", errno.EACCES),
                                    writes(at, "config/ftx/known_hosts", errno.EACCES), *metadata()])


@case
def a_client_that_keeps_owners_or_attributes_sets_those(at):
    at.serve()
    client = at.start("--accept-key", at.key(), *SLOW, "-X", at.url + "b.bin", "here/")
    arrives(at, "here")
    expect_answers(at, client.pid, metadata(attributes=True))


@case
def the_near_side_of_a_push_reads_its_source(at):
    near = at.through_ssh(*SLOW, "here/a.bin", "127.0.0.1:")
    arrives(at, "there")
    expect_answers(at, near.pid, [reads(at, "here/a.bin"), writes(at, "here/new", errno.EACCES), (ALLOWED, "kill", at.far(), 0),
                                  reads(at, "there/b.bin", errno.EACCES)])


@case
def the_far_side_of_a_push_writes_below_the_destination(at):
    (at.top / "there/dir").mkdir()
    at.through_ssh(*SLOW, "here/a.bin", "127.0.0.1:dir/")
    arrives(at, "there/dir")
    expect_answers(at, at.far(), [writes(at, "there/dir/new"), writes(at, "there/new", errno.EACCES),
                                  reads(at, "there/b.bin", errno.EACCES), reads(at, "here/a.bin", errno.EACCES),
                                  *metadata(owners=True, attributes=True)])


@case
def the_near_side_of_a_pull_writes_below_its_destination(at):
    near = at.through_ssh(*SLOW, "-g", "127.0.0.1:b.bin", "here/")
    arrives(at, "here")
    expect_answers(at, near.pid, [writes(at, "here/new"), reads(at, "there/b.bin", errno.EACCES), (ALLOWED, "kill", at.far(), 0),
                                  *metadata(owners=True)])


@case
def the_far_side_of_a_pull_reads_its_source(at):
    at.through_ssh(*SLOW, "127.0.0.1:b.bin", "here/")
    arrives(at, "here")
    expect_answers(at, at.far(), [reads(at, "there/b.bin"), writes(at, "there/b.bin", errno.EACCES),
                                  writes(at, "there/new", errno.EACCES), reads(at, "there", errno.EACCES), *metadata()])


@case
def on_the_pipe_both_are_confined_as_well(at):
    near = at.through_ssh("--via", "pipe", *SLOW, "here/a.bin", "127.0.0.1:")
    arrives(at, "there")
    expect_confined(at.far())
    expect_answers(at, near.pid, [reads(at, "here/a.bin"), writes(at, "here/new", errno.EACCES)])


@case
def before_the_far_side_says_a_word_the_near_side_is_confined(at):
    near = at.through_ssh("here/a.bin", "127.0.0.1:", script="exec sleep 60")
    expect_answers(at, near.pid, [reads(at, "here/a.bin")])
    os.kill(at.far(), signal.SIGKILL)


@case
def before_the_near_side_says_a_word_the_far_side_starts_no_program(at):
    at.processes.append(subprocess.Popen([FTX, "remote"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    expect_confined(at.processes[-1].pid)
    at.processes[-1].stdin.close()


@case
def before_a_server_says_a_word_who_asks_it_is_confined(at):
    for arguments in (["doctor"], ["here/a.bin"]):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            silent.settimeout(SECONDS_MAX)
            client = at.start(*arguments, f"ftx://127.0.0.1:{silent.getsockname()[1]}/")
            silent.recvfrom(65536)
            expect_answers(at, client.pid, [reads(at, "there/b.bin", errno.EACCES)])


@case
def the_doctor_that_has_asked_through_ssh_is_confined(at):
    # The far side stops before the doctor fetches anything.
    doctor = at.through_ssh("127.0.0.1", command=["doctor"], script=f"""case "$*" in *doctor*) kill -STOP $(cat {at.path("far")}); echo asked > {at.path("asked")}; exit;; esac
echo $$ > {at.path("far")}
exec {shlex.quote(FTX)} remote""")
    wait_until((at.top / "asked").exists, "the doctor does not ask")
    expect_answers(at, doctor.pid, [reads(at, "here/a.bin", errno.EACCES)])
    os.kill(int((at.top / "far").read_text()), signal.SIGKILL)


def as_an_old_kernel():
    """What this process starts meets a kernel without Landlock and seccomp filters: seccomp filters say so."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_init.argtypes = [ctypes.c_uint32]
    seccomp.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    allow, fail = 0x7FFF0000, 0x00050000
    context = seccomp.seccomp_init(allow)
    for call in (b"landlock_create_ruleset", b"seccomp"):
        number = seccomp.seccomp_syscall_resolve_name(call)
        assert seccomp.seccomp_rule_add(context, fail | errno.ENOSYS, number, 0) == 0

    class Comparison(ctypes.Structure):
        _fields_ = [("argument", ctypes.c_uint), ("operation", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]

    set_seccomp, equal = 22, 4
    which = Comparison(0, equal, set_seccomp, 0)
    seccomp.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    assert seccomp.seccomp_rule_add_array(context, fail | errno.EINVAL, seccomp.seccomp_syscall_resolve_name(b"prctl"), 1,
                                          ctypes.addressof(which)) == 0
    assert seccomp.seccomp_load(context) == 0


@case
def without_landlock_and_seccomp_a_transfer_goes_on_and_says_so_once(at):
    at.serve("--insecure")
    for flags, lines in ((["-v"], 1), ([], 0)):
        ran = subprocess.run([FTX, *flags, "--insecure", "here/a.bin", at.url], cwd=at.top, capture_output=True, text=True,
                             timeout=SECONDS_MAX, preexec_fn=as_an_old_kernel)
        assert ran.returncode == 0, ran
        assert ran.stderr.count("confined less than it could be: no Landlock: Function not implemented, no seccomp filter:") == lines, ran
        assert ran.stderr.count("\n") == lines, ran
    ran = subprocess.run([FTX, "--json", "--insecure", "here/a.bin", at.url], cwd=at.top, capture_output=True, text=True,
                         timeout=SECONDS_MAX, preexec_fn=as_an_old_kernel)
    first = json.loads(ran.stdout.splitlines()[0])
    assert first["event"] == "unconfined" and first["text"].startswith("no Landlock: Function not implemented, no seccomp filter:"), ran
    assert "confined" not in ran.stderr, ran
    assert (at.top / "there/a.bin").read_bytes() == at.source.read_bytes()


def main():
    failed = 0
    for function in cases:
        with tempfile.TemporaryDirectory() as folder:
            at = Case(folder)
            try:
                function(at)
                print(f"ok: {function.__name__}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED: {function.__name__}: {error}", flush=True)
            finally:
                at.end()
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
