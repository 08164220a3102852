#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees: transfers to a server on loopback with standard error (and output) on a terminal of its own,
40, 80 and 200 columns wide, resized, interrupted and failed; and in a pipe. Nothing is broken into two rows, nothing is
left over."""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from terminal import Terminal, columns

FTX = pathlib.Path(os.environ["SLUICE_BIN"]) / "ftx"
SECONDS_MAX = 60
BYTES = 2_000_000
RATE_MBIT = 8  # so that it takes about two seconds
problems = []


def expect(what, good, detail=""):
    print(("ok: " if good else "FAILED: ") + what)
    if not good:
        problems.append(what)
        print(f"  {detail}")


def resize(descriptor, width):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))


class Run:
    """One ftx on a terminal. `turn` is called with each output."""

    def __init__(self, width, *arguments, turn=None):
        self.terminal = Terminal(width)
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.execve(FTX, ["ftx", *arguments], {**os.environ, "TERM": "xterm"})
        resize(self.descriptor, width)
        end = time.monotonic() + SECONDS_MAX
        pending = b""
        while time.monotonic() < end:
            if not select.select([self.descriptor], [], [], 1)[0]:
                continue
            try:
                output = os.read(self.descriptor, 65536)
            except OSError:  # closed at the other end
                output = b""
            if not output:
                break
            pending += output
            text = pending.decode(errors="ignore")
            pending = pending[len(text.encode()):]
            self.terminal.feed(text)
            if turn:
                turn(self)
        else:
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        os.close(self.descriptor)
        self.code = os.waitstatus_to_exitcode(status)

    @property
    def drawn(self):
        return [line for line in self.terminal.drawn if "%" in line]


class Server:
    """`ftx serve`, read to its first line."""

    def __init__(self, directory, *arguments):
        self.process = subprocess.Popen([FTX, "serve", "--insecure", "--listen", "127.0.0.1", "--port", "0", *arguments, directory],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r"listening on 127\.0\.0\.1:(\d+)", self.process.stdout.readline()).group(1))

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=SECONDS_MAX)


def sends(server, *sources, rate=RATE_MBIT):
    return ["-I", "--insecure", "--rate", str(rate), *map(str, sources), f"ftx://127.0.0.1:{server.port}/"]


SUMMARY = r"ftx://127\.0\.0\.1:\d+/  {files}, [\d.]+ [KM]iB in \d+\.\d s, [\d.]+ [KM]iB/s(, \d+ of \d+ datagrams repaired)?"
FIGURES = r"[ 0-9]{2}\d% \[=*>? *\]"
LINES = {
    40: FIGURES + r" +[\d.]+ KiB/s +(\d+:\d\d|-:--) left",
    80: FIGURES + r" +[\d.]+/1\.9 MiB +[\d.]+ KiB/s +(\d+:\d\d|-:--) left(  \d/3 files)?(  \d+ repaired)?",
    200: r"ftx://127\.0\.0\.1:\d+/ " + FIGURES + r" +[\d.]+/1\.9 MiB +[\d.]+ KiB/s +(\d+:\d\d|-:--) left  \d/3 files.*",
}


def check_width(server, sources, width):
    run = Run(width, *sends(server, *sources))
    name = f"{width} columns"
    expect(f"{name}: ends well", run.code == 0, run.terminal.screen())
    expect(f"{name}: progress is drawn, calmly", 2 <= len(run.drawn) <= 5 * 30, run.drawn)
    for line in run.drawn:
        if not re.fullmatch(LINES[width], line):
            expect(f"{name}: a line is as it should be", False, repr(line))
    expect(f"{name}: no line takes two rows", all("%" not in line for line in run.terminal.wrapped), run.terminal.wrapped)
    screen = run.terminal.screen()
    expect(f"{name}: the summary is all that is left",
           len(screen) == 1 and re.fullmatch(SUMMARY.format(files="3 files"), screen[0]), screen)


def check_resize(server, sources):
    widths = iter([40, 200, 20, 80])

    def turn(run):
        if len(run.drawn) > turn.seen:
            turn.seen = len(run.drawn)
            width = next(widths, None)
            if width:
                resize(run.descriptor, width)
                run.terminal.resize(width)
    turn.seen = 0
    run = Run(200, *sends(server, *sources), turn=turn)
    expect("resized: ends well", run.code == 0, run.terminal.screen())
    found = sorted({columns_of(line) for line in run.drawn})
    expect("resized: the line follows", any(size < 40 for size in found) and any(size > 80 for size in found), run.drawn)
    expect("resized: no line takes two rows", all("%" not in line for line in run.terminal.wrapped), run.terminal.wrapped)
    expect("resized: nothing is left over", len(run.terminal.screen()) == 1, run.terminal.screen())


def columns_of(line):
    return sum(map(columns, line))


def check_ends(server, sources):
    def interrupt(run):
        # Once: the terminal makes SIGINT of it, and drops the output that waits.
        if len(run.drawn) == 2 and not interrupt.done:
            interrupt.done = True
            os.write(run.descriptor, b"\x03")
    interrupt.done = False
    run = Run(80, *sends(server, *sources), turn=interrupt)
    screen = [line.replace("^C", "") for line in run.terminal.screen()]
    expect("Ctrl-C: its exit code", run.code == 130, run.code)
    expect("Ctrl-C: what is left", [line for line in screen if line] == ["ftx: interrupted"], screen)
    run = Run(80, *sends(server, sources[0].parent / "missing"))
    expect("a failure: its exit code", run.code == 5, run.code)
    expect("a failure: one line", len(run.terminal.screen()) == 1 and "missing" in run.terminal.screen()[0], run.terminal.screen())


def check_names(server, directory):
    name = "資料\u202e\u00ad.bin"  # wide, and format characters, which may turn or hide text
    file = directory / name
    file.write_bytes(b"x" * 1000)
    run = Run(80, "-v", *sends(server, file))
    expect("a name that turns text around: ends well", run.code == 0, run.terminal.screen())
    expect("a name that turns text around: shown without", "資料??.bin" in run.terminal.screen(), run.terminal.screen())
    facts = [line for line in run.terminal.screen() if line.startswith("session: ")]
    expect("-v: what the session is like", len(facts) == 2 and
           re.fullmatch(rf"session: 127\.0\.0\.1 port {server.port}, cipher none, congestion control fixed rate", facts[0]) and
           re.fullmatch(r"session: datagrams of \d+ bytes, path MTU \d+", facts[1]), facts)


def check_unchanged(server, top):
    """The second run names what it sends, and that is one file."""
    tree = top / "tree"
    (tree / "below").mkdir(parents=True)
    for at in range(5):
        (tree / f"below/{at}.txt").write_text(f"file {at}")
    address = f"ftx://127.0.0.1:{server.port}/"

    def names():
        lines = piped("-v", "-r", "--insecure", str(tree), address).stdout.splitlines()
        return sorted(line for line in lines if not line.startswith("session: ")), lines
    (first, _), whole = names(), [f"tree/below/{at}.txt" for at in range(5)]
    expect("-v: each file that is sent", first[1:] == whole and "5 files" in first[0], first)
    (tree / "below/3.txt").write_text("another file 3")
    again, _ = names()
    expect("-v: what was there is not named, but counted",
           again[1:] == ["tree/below/3.txt"] and again[0].endswith("4 of the files unchanged"), again)


def piped(*arguments):
    return subprocess.run([FTX, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)


def check_pipe(server, source):
    run = piped(*sends(server, source))
    expect("piped: the summary alone", run.stderr == "" and re.fullmatch(SUMMARY.format(files="1 file") + "\n", run.stdout), run)
    run = piped("-q", *sends(server, source, rate=100))
    expect("-q: nothing", run.returncode == 0 and run.stdout == run.stderr == "", run)
    run = piped("-q", *sends(server, source.parent / "missing"))
    expect("-q: errors all the same", run.returncode == 5 and run.stdout == "" and run.stderr.count("\n") == 1, run)
    run = piped("--progress", *sends(server, source))
    expect("--progress: drawn into a pipe", run.returncode == 0 and "% [" in run.stderr, run)
    quiet = Run(80, "-q", *sends(server, source))
    expect("-q on a terminal: nothing", quiet.code == 0 and not quiet.terminal.screen() and not quiet.drawn, quiet.terminal.screen())
    quiet = Run(80, "--no-progress", *sends(server, source))
    expect("--no-progress: the summary alone", quiet.code == 0 and len(quiet.terminal.screen()) == 1 and not quiet.drawn,
           quiet.terminal.screen())


def main():
    with tempfile.TemporaryDirectory() as directory:
        top = pathlib.Path(directory)
        (top / "in").mkdir()
        sources = [top / name for name in ("one.bin", "two.bin", "three.bin")]
        for source in sources:
            source.write_bytes(os.urandom(BYTES // len(sources)))
        server = Server(top / "in")
        try:
            for width in LINES:
                check_width(server, sources, width)
            check_resize(server, sources)
            check_ends(server, sources)
            check_names(server, top)
            check_pipe(server, sources[1])
            check_unchanged(server, top)
        finally:
            output, errors = server.stop()
        expect("a server in a pipe: no control characters", not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", output + errors), output + errors)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
