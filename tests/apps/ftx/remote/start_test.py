#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ftx starts its peer through a program that stands for ssh: what it gives to it, and every way in which it can fail.
Each case has a directory of its own; traffic is on loopback."""
import os
import pathlib
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from waiting import SECONDS_MAX, wait_until  # noqa: E402

FTX = os.path.join(os.environ["SLUICE_BIN"], "ftx")
SESSION = 3  # the version of docs/formats/ftx.md
OK, USAGE, SOURCE_UNREADABLE, PROTOCOL_ERROR, WRITE_FAILED = 0, 2, 5, 13, 10
SSH_MISSING, SSH_FAILED, REMOTE_MISSING, REMOTE_VERSION = 16, 17, 18, 19
UDP_BLOCKED, NO_SUCH_PATH, REMOTE_LOST, INTERRUPTED = 20, 21, 22, 130
MAGIC = b"\xf7ftx-start\r\n"
REMOTE = f"exec {shlex.quote(FTX)} remote"


class Case:
    """A home directory over there, files here, and an ssh that is a shell script."""

    def __init__(self, folder, script):
        self.top = pathlib.Path(folder)
        self.home, self.here = self.top / "home", self.top / "here"
        self.home.mkdir()
        self.here.mkdir()
        self.there("127.0.0.1")
        self.ssh = self.top / "my ssh"
        self.ssh.write_text(f"""#!/bin/sh
top={shlex.quote(folder)}
for argument; do [ "$argument" = -G ] && {{ cat "$top/hostname"; exit 0; }}; done
export HOME="$top/home" SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
echo $$ > "$top/pid"
{script}
""")
        self.ssh.chmod(0o700)

    def there(self, name):
        """The host that ssh says it goes to."""
        (self.top / "hostname").write_text(f"hostname {name}\n")

    def start(self, *operands, options=()):
        command = [FTX, "--ssh", f"'{self.ssh}' -F config", *options, *operands]
        return subprocess.Popen(command, cwd=self.here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")

    def run(self, *operands, options=()):
        return self.end(self.start(*operands, options=options))

    def end(self, process):
        try:
            self.text = process.communicate(timeout=SECONDS_MAX)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it hangs: {process.communicate()[0]}")
        return process.returncode

    def expect(self, code, *operands, options=(), says=""):
        status = self.run(*operands, options=options)
        assert status == code, f"exit code {status}, expected {code}: {self.text}"
        assert says in self.text, f"'{says}' is not said: {self.text}"
        if code != OK:
            assert len([line for line in self.text.strip().splitlines() if SAID not in line]) == 1, f"not one line: {self.text}"
        self.expect_nothing_runs()

    def expect_usage(self, *arguments):
        status = self.run(*arguments)
        assert status == USAGE, f"exit code {status}: {self.text}"

    def remote_pid(self):
        return wait_until(lambda: self.pid_file(), "ssh did not start")

    def pid_file(self):
        path = self.top / "pid"
        return int(path.read_text()) if path.exists() and path.read_text().strip() else None

    def expect_nothing_runs(self):
        pid = self.pid_file()
        if pid is not None:
            wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), f"process {pid} is still there")

    def source(self, name="a.bin", size=300_000):
        (self.here / name).write_bytes(os.urandom(size))
        return name

    def expect_equal(self, here, there):
        assert (self.here / here).read_bytes() == (self.home / there).read_bytes(), f"{here} and {there} differ"

    def leftovers(self):
        return [str(path) for path in [*self.home.rglob("*"), *self.here.rglob("*")] if ".ftx-" in path.name]


def case(script=REMOTE):
    def decorate(function):
        cases.append((function, script))
        return function
    return decorate


cases = []


# ---- what works ----

@case()
def push_into_home_under_a_new_name_and_into_a_directory(at):
    (at.home / "dir").mkdir()
    source = at.source()
    at.expect(OK, source, "127.0.0.1:")
    at.expect_equal(source, source)
    at.expect(OK, source, "me@127.0.0.1:new name")
    at.expect_equal(source, "new name")
    at.expect(OK, source, "127.0.0.1:~/dir")
    at.expect_equal(source, "dir/a.bin")
    at.expect(OK, source, at.source("b.bin"), "127.0.0.1:dir/")
    at.expect_equal("b.bin", "dir/b.bin")
    at.expect(OK, source, f"127.0.0.1:{at.home}/absolute")
    at.expect_equal(source, "absolute")
    assert not at.leftovers()


@case()
def pull_files_patterns_and_under_a_new_name(at):
    for name in ("a.log", "b.log", "c.txt"):
        (at.home / name).write_bytes(os.urandom(100_000))
    (at.here / "in").mkdir()
    at.expect(OK, "127.0.0.1:*.log", "127.0.0.1:~/c.txt", "in")
    assert sorted(os.listdir(at.here / "in")) == ["a.log", "b.log", "c.txt"]
    at.expect_equal("in/b.log", "b.log")
    at.expect(OK, "127.0.0.1:c.txt", "other name")
    at.expect_equal("other name", "c.txt")
    at.expect(OK, "127.0.0.1:c.txt", ".")
    at.expect_equal("c.txt", "c.txt")
    assert not at.leftovers()


@case('echo "Welcome to this host"; printf "no newline "; ' + REMOTE)
def a_banner_is_skipped(at):
    at.expect(OK, at.source(), "127.0.0.1:")
    at.expect_equal("a.bin", "a.bin")


@case()
def json_says_the_same(at):
    at.expect(OK, at.source(), "127.0.0.1:", options=["--json"], says='"event":"done"')
    assert at.run("a.bin", "127.0.0.1:no/x", options=["--json"]) == NO_SUCH_PATH
    assert '"name":"no_such_path"' in at.text, at.text


# ---- what ssh gets ----

@case('printf "%s\\n" "$@" > "$top/arguments"; env > "$top/environment"; ls -l /proc/$$/fd > "$top/descriptors"; '
      'cat /proc/$$/status > "$top/status"; tee "$top/input" | ' + REMOTE.removeprefix("exec "))
def no_secret_and_no_path_in_arguments_and_environment(at):
    """"no secret on argv": who looks at the list of processes must not learn it; and no shell may see a path."""
    path = "$(touch pwned) `id` ; x"
    at.expect(OK, at.source(), "127.0.0.1:" + path)
    at.expect_equal("a.bin", path)
    request = (at.top / "input").read_bytes()
    assert request.startswith(MAGIC) and path.encode() in request
    secret = request[18:50]
    arguments = (at.top / "arguments").read_bytes()
    environment = (at.top / "environment").read_bytes()
    assert b"ftx remote" in arguments and b"pwned" not in arguments + environment
    for form in (secret, secret.hex().encode(), secret[:8], secret[:8].hex().encode()):
        assert form not in arguments + environment + at.text.encode()
    assert not list(at.top.rglob("pwned"))
    # Another transfer has another secret.
    at.expect(OK, "a.bin", "127.0.0.1:y")
    assert (at.top / "input").read_bytes()[18:50] != secret

    open_there = [line for line in (at.top / "descriptors").read_text().splitlines() if "->" in line]
    # The shell's own: its script, and copies of 0 to 2.
    targets = {int(line.split("->")[0].split()[-1]): line.split("->")[1].strip() for line in open_there}
    given = {targets[number] for number in (0, 1, 2)}
    others = [target for target in targets.values() if target not in given and "my ssh" not in target]
    assert not others, others
    ignored = int(re.search(r"^SigIgn:\s*(\w+)", (at.top / "status").read_text(), re.M).group(1), 16)
    assert not ignored & (1 << (signal.SIGXFSZ - 1) | 1 << (signal.SIGPIPE - 1)), hex(ignored)


@case('printf "%s\\n" "$@" > "$top/arguments"; ' + REMOTE)
def options_reach_ssh(at):
    at.expect(OK, at.source(), "me@127.0.0.1:", options=["-p", "2222", "--remote-ftx", "/opt/my ftx"])
    arguments = (at.top / "arguments").read_text().splitlines()
    assert arguments[:4] == ["-F", "config", "-p", "2222"], arguments
    assert arguments[-3:] == ["--", "me@127.0.0.1", "/opt/my ftx remote"], arguments


# ---- what fails ----

@case()
def wrong_command_lines(at):
    at.source()
    at.expect(USAGE, "a.bin", "b.bin")
    at.expect(USAGE, "127.0.0.1:x", "127.0.0.1:y")
    at.expect(USAGE, "127.0.0.1:x", "a.bin", "127.0.0.1:y")
    at.expect(USAGE, "127.0.0.1:x", "127.0.0.2:x", ".")
    at.expect(USAGE, "127.0.0.1:x", "a.bin", ".")
    at.expect(USAGE, "ftx://127.0.0.1/../x", ".")
    at.expect(USAGE, "ftx://127.0.0.1/x", "127.0.0.1:x", ".")
    at.expect(USAGE, "ftx://127.0.0.1/x", "127.0.0.1:y")
    at.expect(USAGE, "a.bin", "-oProxyCommand=id@h:x", options=["--"], says="./-oProxyCommand")
    at.expect(USAGE, "a.bin", "127.0.0.1:~nobody/x")
    at.expect(USAGE, "a.bin", "127.0.0.1:" + "x" * 5000)
    ended = subprocess.run([FTX, "a.bin", "h:", "--ssh", "'"], cwd=at.here, capture_output=True, text=True)
    assert ended.returncode == USAGE and "--ssh" in ended.stderr, ended


@case()
def paths_that_are_missing(at):
    at.source()
    (at.home / "file").write_text("x")
    at.expect(NO_SUCH_PATH, "a.bin", "127.0.0.1:no/x", says="no such directory")
    at.expect(NO_SUCH_PATH, "a.bin", "127.0.0.1:no/", says="no such directory")
    at.expect(NO_SUCH_PATH, "127.0.0.1:*.log", ".", says="'*.log'")
    at.expect(WRITE_FAILED, "127.0.0.1:file", "no/x", says="no such directory")
    assert at.run("127.0.0.1:", ".") == 5, at.text  # a directory is no regular file
    assert not at.leftovers()


@case()
def ssh_logs_in_while_a_tree_is_looked_through(at):
    """It has been started when the walk fails, and ends with it."""
    (at.here / "good").mkdir()
    at.source("good/a.bin")
    at.expect(OK, "good", "127.0.0.1:", options=["-r"])
    at.expect_equal("good/a.bin", "good/a.bin")
    (at.top / "pid").unlink()
    os.makedirs(at.here / "deep" / "/".join(["d"] * 257) / "e")
    at.expect(SOURCE_UNREADABLE, "deep", "127.0.0.1:", options=["-r"], says="deeper than 256 directories")
    assert at.pid_file() is not None, "ssh was not started before the tree was known"
    (at.top / "pid").unlink()
    at.expect(SOURCE_UNREADABLE, "good", "missing", "127.0.0.1:", options=["-r"], says="missing")
    assert at.pid_file() is None, "ssh was started for what is not there"


@case()
def no_ssh_program(at):
    at.ssh.unlink()
    at.expect(SSH_MISSING, at.source(), "127.0.0.1:", says="--ssh")


@case("exit 255")
def ssh_fails(at):
    at.expect(SSH_FAILED, at.source(), "127.0.0.1:", says="ssh to 127.0.0.1 failed")


@case('echo "ssh: no such host" >&2; exit 255')
def the_message_of_ssh_is_shown(at):
    assert at.run(at.source(), "127.0.0.1:") == SSH_FAILED
    assert at.text.startswith("ssh: no such host\n"), at.text


@case("kill -9 $$")
def ssh_is_killed(at):
    at.expect(SSH_FAILED, at.source(), "127.0.0.1:")


@case("exit 127")
def there_is_no_ftx(at):
    at.expect(REMOTE_MISSING, at.source(), "127.0.0.1:", says="--remote-ftx")


@case("exit 126")
def the_ftx_there_cannot_be_run(at):
    at.expect(REMOTE_MISSING, at.source(), "127.0.0.1:")


@case("exit 2")
def the_ftx_there_is_older(at):
    at.expect(REMOTE_VERSION, at.source(), "127.0.0.1:", says="same version")


@case("cat >/dev/null & printf '\\367ftx-start\\r\\n\\003\\002\\000\\000\\000\\000'; wait")
def the_ftx_there_speaks_another_version(at):
    at.expect(REMOTE_VERSION, at.source(), "127.0.0.1:", says="version 3")


@case("echo this account is closed")
def the_login_shell_ends_with_a_word(at):
    at.expect(REMOTE_LOST, at.source(), "127.0.0.1:", says="this account is closed")


@case("exec yes 2>/dev/null")
def the_login_shell_prints_for_ever(at):
    at.expect(PROTOCOL_ERROR, at.source(), "127.0.0.1:", says="y?y?y?")


@case("exec sleep 1000")
def ssh_never_answers(at):
    at.expect(SSH_FAILED, at.source(), "127.0.0.1:", options=["--connect-timeout", "0.5"], says="--connect-timeout")


@case("trap '' HUP INT TERM; while :; do sleep 0.1; done")
def ssh_that_ignores_everything_is_killed(at):
    at.expect(SSH_FAILED, at.source(), "127.0.0.1:", options=["--connect-timeout", "0.5"])


@case("exec <&- >&-; exec sleep 1000")
def ssh_closes_its_output_and_stays(at):
    at.expect(REMOTE_LOST, at.source(), "127.0.0.1:", options=["--connect-timeout", "0.5"])


@case('python3 "$top/liar"; exec cat > /dev/null')
def udp_does_not_come_through(at):
    ready = struct.pack(">BHI", SESSION, 9, 1472) + b"\x00" + b"\x01x"
    message = MAGIC + b"\x02\x02" + struct.pack(">I", len(ready)) + ready
    (at.top / "liar").write_text(f"import sys\nsys.stdout.buffer.write({message!r})\n")
    at.expect(UDP_BLOCKED, at.source(), "127.0.0.1:", options=["--via", "udp"], says="port 9 of 127.0.0.1")


@case('cat > /dev/null & python3 "$top/liar"; wait')
def a_message_out_of_turn(at):
    ready = struct.pack(">BHI", SESSION, 9, 1472) + b"\x00" + b"\x01x"
    message = MAGIC + b"\x02\x02" + struct.pack(">I", len(ready)) + ready
    (at.top / "liar").write_text(f"import sys\nsys.stdout.buffer.write({message!r} + b'x')\n")
    at.expect(PROTOCOL_ERROR, at.source(), "127.0.0.1:", says="broke the start")


# ---- through the pipe ----

UNREACHED = "unset SSH_CONNECTION; "
SAID = "does not come through; going on over ssh, which is slower"


def expect_equal_over_the_pipe(at, *options, said):
    source = at.source(size=3_000_000)
    at.expect(OK, source, at.source("b.bin", 0), "127.0.0.1:", options=options)
    assert (SAID in at.text) == said, at.text
    at.expect_equal(source, source)
    at.expect(OK, "127.0.0.1:*.bin", ".", options=options)
    assert (SAID in at.text) == said, at.text
    at.expect_equal(source, source)
    at.expect_equal("b.bin", "b.bin")
    assert not at.leftovers()


@case(REMOTE)
def the_pipe_carries_the_files_where_it_is_asked_for(at):
    expect_equal_over_the_pipe(at, "--via", "pipe", said=False)


@case(UNREACHED + REMOTE)
def where_udp_has_no_way_the_pipe_carries_the_files(at):
    at.there("nowhere.invalid")
    expect_equal_over_the_pipe(at, said=True)
    assert at.run("a.bin", "127.0.0.1:", options=["--json"]) == OK
    assert '"event":"fallback","via":"pipe","reason":"udp_blocked"' in at.text, at.text


# Standard input and output of the far side are two pipes, and nothing in between takes more than a few bytes at once.
@case("cat | " + REMOTE.removeprefix("exec ") + " | dd bs=777 status=none")
def pipes_that_take_a_little_at_a_time_do(at):
    expect_equal_over_the_pipe(at, "--via", "pipe", said=False)


@case('echo "Welcome to this host"; ' + REMOTE)
def a_rate_holds_on_the_pipe(at):
    """At 8 Mbit/s a transfer of 50 MB is far from over when it is interrupted."""
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:", options=["--via", "pipe"])
    process.send_signal(signal.SIGINT)
    assert at.end(process) == INTERRUPTED, at.text
    at.expect_nothing_runs()
    assert not at.leftovers() and not (at.home / "a.bin").exists()


@case()
def the_rate_of_a_pull_is_kept_there(at):
    (at.home / "a.bin").write_bytes(bytes(50_000_000))
    for via in ("udp", "pipe"):
        process = begin(at, "127.0.0.1:a.bin", ".", options=["--via", via])
        process.send_signal(signal.SIGINT)
        assert at.end(process) == INTERRUPTED, at.text
        at.expect_nothing_runs()
        assert not at.leftovers() and not (at.here / "a.bin").exists()


@case()
def congestion_control_of_a_pull(at):
    (at.home / "a.bin").write_bytes(os.urandom(300_000))
    for options in (["--congestion", "cubic"], ["--background"], ["--rate", "1e30"]):
        at.expect(OK, "127.0.0.1:a.bin", "b.bin", options=options)
        at.expect_equal("b.bin", "a.bin")


@case()
def the_far_side_listens_where_it_may(at):
    import socket
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as taken, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as free:
        taken.bind(("::", 0))
        port = taken.getsockname()[1]
        at.expect(15, at.source(), "127.0.0.1:", options=["--remote-port", str(port)], says="no UDP port of")
        if port < 65000:
            at.expect(OK, "a.bin", "127.0.0.1:", options=["--via", "udp", "--remote-port", f"{port}-{port + 500}"])
            at.expect_equal("a.bin", "a.bin")
    for wrong in ("0", "x", "2-1", "70000"):
        at.expect_usage("a.bin", "127.0.0.1:", "--remote-port", wrong)


@case()
def the_far_side_dies_on_the_pipe(at):
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:", options=["--via", "pipe"])
    os.kill(at.remote_pid(), signal.SIGKILL)
    assert at.end(process) == REMOTE_LOST, at.text
    assert "run it again" in at.text, at.text
    assert not (at.home / "a.bin").exists()


@case()
def a_far_side_that_stops_reading_is_no_reason_to_hang(at):
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:", options=["--via", "pipe", "--idle-timeout", "1"])
    os.kill(at.remote_pid(), signal.SIGSTOP)
    try:
        assert at.end(process) == 7, at.text
    finally:
        at.expect_nothing_runs()


@case()
def interrupted_while_the_pipe_is_full(at):
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:", rate="80", options=["--via", "pipe"])
    os.kill(at.remote_pid(), signal.SIGSTOP)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert at.end(process) == INTERRUPTED, at.text
    at.expect_nothing_runs()


@case(UNREACHED + 'tee "$top/input" | ' + REMOTE.removeprefix("exec "))
def the_session_in_the_pipe_has_a_secret_of_its_own(at):
    at.there("nowhere.invalid")
    at.expect(OK, at.source(), "127.0.0.1:", says=SAID)
    said = (at.top / "input").read_bytes()
    request, change = (said.index(MAGIC + bytes([2, kind])) + 18 for kind in (1, 5))
    secrets = said[request:request + 32], said[change:change + 32]
    assert secrets[0] != secrets[1] and all(len(set(secret)) > 8 for secret in secrets), secrets


def liar(at, *messages):
    """A far side that says this, each message after so many bytes have come, and then reads on for ever."""
    (at.top / "liar").write_text(f"""import os, sys
for wait, message in {list(messages)!r}:
    while wait > 0:
        wait -= len(os.read(0, wait)) or sys.exit()
    os.write(1, message)
""")


def start_message(kind, body=b""):
    return MAGIC + bytes([2, kind]) + struct.pack(">I", len(body)) + body


READY = struct.pack(">BHI", SESSION, 9, 1472) + b"\x00" + b"\x01x"
LIAR = 'python3 "$top/liar"; exec cat > /dev/null'


@case(LIAR)
def a_far_side_that_switches_unasked(at):
    liar(at, (0, start_message(2, READY) + start_message(6)))
    at.expect(PROTOCOL_ERROR, at.source(), "127.0.0.1:", says="out of turn")


@case(LIAR)
def a_far_side_that_echoes_twice(at):
    liar(at, (0, start_message(2, READY) + start_message(4) + start_message(4)))
    at.expect(PROTOCOL_ERROR, at.source(), "127.0.0.1:", says="out of turn")


@case(LIAR)
def a_far_side_that_breaks_the_framing(at):
    liar(at, (0, start_message(2, READY)), (150, start_message(6)), (100, b"\x00\x03abc"))
    at.expect(PROTOCOL_ERROR, at.source(), "127.0.0.1:", options=["--via", "pipe"], says="framing")


@case(LIAR)
def a_far_side_that_sends_rubbish_in_frames(at):
    liar(at, (0, start_message(2, READY)), (150, start_message(6)), (100, (b"\x00\x40" + bytes(64)) * 100))
    at.expect(6, at.source(), "127.0.0.1:", options=["--via", "pipe", "--idle-timeout", "1"])


# ---- in the middle ----

def begin(at, *operands, rate="8", options=()):
    """A transfer that takes long, when the first bytes have come."""
    process = at.start(*operands, options=["--rate", rate, *options])
    wait_until(lambda: any(os.stat(path).st_blocks for path in at.leftovers()), "nothing arrives")
    return process


@case()
def the_far_side_dies(at):
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:")
    os.kill(at.remote_pid(), signal.SIGKILL)
    assert at.end(process) == REMOTE_LOST, at.text
    assert "run it again" in at.text, at.text
    assert not (at.home / "a.bin").exists()


# The far side gets the end of its input when the process that stands for ssh ends, as sshd has it.
@case(f"exec 3<&0; mkfifo \"$top/in\"; cat <&3 > \"$top/in\" & cat=$!; {shlex.quote(FTX)} remote < \"$top/in\" 3<&- & "
      "echo $! > \"$top/far\"; trap 'kill $cat; exit 1' TERM; wait $!")
def ssh_dies(at):
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:")
    far = int((at.top / "far").read_text())
    os.kill(at.remote_pid(), signal.SIGTERM)
    assert at.end(process) == REMOTE_LOST, at.text
    wait_until(lambda: not pathlib.Path(f"/proc/{far}").exists(), "the far side outlives its pipe")
    assert not at.leftovers() and not (at.home / "a.bin").exists()


@case()
def interrupted(at):
    process = begin(at, at.source(size=50_000_000), "127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert at.end(process) == INTERRUPTED, at.text
    at.expect_nothing_runs()
    assert not at.leftovers() and not (at.home / "a.bin").exists()


@case("exec sleep 1000")
def interrupted_before_the_answer(at):
    process = at.start(at.source(), "127.0.0.1:")
    at.remote_pid()
    process.send_signal(signal.SIGINT)
    assert at.end(process) == INTERRUPTED, at.text
    at.expect_nothing_runs()


# ---- the far side by itself ----

def remote(bytes_in, environment=None):
    return subprocess.run([FTX, "remote"], input=bytes_in, capture_output=True, timeout=SECONDS_MAX, env=environment)


@case()
def the_far_side_answers_nonsense_with_a_failure(at):
    for bytes_in in (b"", b"GET / HTTP/1.0\r\n\r\n", MAGIC + b"\x02\x01\xff\xff\xff\xff", MAGIC + b"\x02\x02\0\0\0\0", MAGIC[:5]):
        ended = remote(bytes_in)
        assert ended.returncode == PROTOCOL_ERROR, (bytes_in, ended)
        assert ended.stdout.startswith(MAGIC + b"\x02\x03") and not ended.stderr, (bytes_in, ended)
    ended = remote(MAGIC + b"\x03\x01\0\0\0\0")
    assert ended.returncode == REMOTE_VERSION and ended.stdout.startswith(MAGIC + b"\x02\x03"), ended


@case()
def the_far_side_of_another_protocol_says_so(at):
    body = bytes(32) + struct.pack(">BBBIIBBQHHBBHB", 1, 1, 77, 0, 1000, 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"9" + struct.pack(">HH", 1, 0)
    ended = remote(MAGIC + b"\x02\x01" + struct.pack(">I", len(body)) + body)
    assert ended.returncode == REMOTE_VERSION and b"version 77" in ended.stdout, ended


@case()
def the_far_side_ends_with_its_input(at):
    """A request and then the end: nothing stays."""
    body = bytes(32) + struct.pack(">BBBIIBBQHHBBHB", 1, 1, SESSION, 0, 30000, 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"9" + struct.pack(">HH", 1, 0)
    ended = remote(MAGIC + b"\x02\x01" + struct.pack(">I", len(body)) + body, {**os.environ, "HOME": str(at.home)})
    assert ended.stdout.startswith(MAGIC + b"\x02\x02") and ended.returncode == INTERRUPTED, ended
    assert not at.leftovers()


@case()
def the_far_side_answers_one_echo_and_nothing_behind_a_switch(at):
    body = bytes(32) + struct.pack(">BBBIIBBQHHBBHB", 1, 1, SESSION, 0, 30000, 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"9" + struct.pack(">HH", 1, 0)
    environment = {**os.environ, "HOME": str(at.home)}
    for behind, answer, answers in (
            (start_message(4), start_message(4), 1), (start_message(4) + start_message(4), start_message(4), 1),
            (start_message(5, bytes(32)), start_message(6), 1), (start_message(5, bytes(32)) + b"x", start_message(6), 0)):
        ended = remote(start_message(1, body) + behind, environment)
        assert ended.stdout.count(answer) == answers and ended.returncode != OK, (behind, ended)
        assert not at.leftovers()


def main():
    failed = 0
    for function, script in cases:
        if len(sys.argv) > 1 and function.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(Case(folder, script))
                print(f"ok: {function.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"FAILED: {function.__name__}: {error}")
    return 1 if failed else 0


sys.exit(main())
