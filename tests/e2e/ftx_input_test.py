#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The source "-": what comes on standard input is one file at the other end, whole or not at all; to a server, and to a
host behind a program that stands for ssh, by UDP and by the pipe. SLUICE_MEMORY=any leaves the memory that it takes
unbounded, as programs need that are instrumented."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from programs import FTX, SECONDS_MAX, environment, expect, failed, fake_ssh, ftx, prepare, serve, stop

HUGE = 300_000_000
RING = 64 << 20


def start(top, *arguments, **more):
    return subprocess.Popen([FTX, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment(top), **more)


def end(process):
    """Its errors; nothing more comes on its standard input."""
    if not process.stdin.closed:
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
    errors = process.stderr.read().decode()
    process.stdout.read()
    process.wait(SECONDS_MAX)
    process.stdout.close()
    process.stderr.close()
    return errors


def until(what, holds):
    deadline = time.monotonic() + SECONDS_MAX
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(what, holds())


def nothing_left(top, what):
    """Neither a name nor a temporary file, soon."""
    until(what, lambda: not list((top / "served").iterdir()))


def every_way(top, way, to):
    contents = {"large": os.urandom(20_000_000), "block": os.urandom(1 << 20), "small": b"small\n", "empty": b""}
    for name, content in contents.items():
        for options in ((), ("-z",)) if name == "large" else ((),):
            ran = ftx(top, *options, *to(name), input=content, umask=0o027)
            path = top / "served" / name
            arrived = ran.returncode == 0 and path.read_bytes() == content
            expect(f"{way}: {name} {' '.join(options)}", arrived, ran.stderr)
            expect(f"{way}: {name} has the mode of a redirection", arrived and path.stat().st_mode & 0o7777 == 0o640)
            expect(f"{way}: {name} has the time of its last write", arrived and abs(path.stat().st_mtime - time.time()) < 30)
            path.unlink(missing_ok=True)


def slow_input(top, to):
    """Its pauses are longer than what an end without a word may take."""
    process = start(top, "--idle-timeout", "2", *to("slow"))
    parts = [os.urandom(5_000) for _ in range(3)]
    for part in parts:
        process.stdin.write(part)
        process.stdin.flush()
        time.sleep(3.5)
    errors = end(process)
    path = top / "served/slow"
    expect("slow input ends nothing", process.returncode == 0 and path.read_bytes() == b"".join(parts), errors)
    path.unlink(missing_ok=True)


def cut_short(top, way, to, number, code):
    process = start(top, *to("cut"))
    process.stdin.write(os.urandom(3_000_000))
    process.stdin.flush()
    until(f"{way}: it arrives", lambda: any(one.stat().st_size > 1_000_000 for one in (top / "served").iterdir()))
    expect(f"{way}: under no name yet", not (top / "served/cut").exists())
    process.send_signal(number)
    errors = end(process)
    expect(f"{way}: {signal.Signals(number).name} ends it", process.returncode == code, f"{process.returncode}: {errors}")
    nothing_left(top, f"{way}: and leaves nothing")


def killed_client(top):
    """Nobody says that it has gone but its host: the server does not wait as long as it would for one that is cut off."""
    server, url = serve(top, "--idle-timeout", "600")
    try:
        cut_short(top, "server", lambda name: ("--secret-file", top / "secret", "-", url + name), signal.SIGKILL, -signal.SIGKILL)
    finally:
        stop(server)


def huge_to_a_stopped_server(top, server, to):
    """What nobody takes waits with who writes it."""
    content = os.urandom(1_000_000)
    process = start(top, *to("huge"))
    sent = 0
    stopped = False
    while sent < HUGE:
        if sent > HUGE // 3 and not stopped:
            server.send_signal(signal.SIGSTOP)
            stopped = True
            os.set_blocking(process.stdin.fileno(), False)
            quiet = 0
            while quiet < 100:
                try:
                    put = os.write(process.stdin.fileno(), content[sent % len(content):])
                    sent += put
                    quiet = 0
                except BlockingIOError:
                    quiet += 1
                    time.sleep(0.01)
            expect("while nobody takes it, no more is read than the ring holds", sent < HUGE // 3 + RING + (16 << 20), sent)
            os.set_blocking(process.stdin.fileno(), True)
            server.send_signal(signal.SIGCONT)
        sent += os.write(process.stdin.fileno(), content[sent % len(content):])
    process.stdin.close()
    with open(f"/proc/{process.pid}/status") as status:
        peak = next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), 0)
    errors = end(process)
    path = top / "served/huge"
    whole = process.returncode == 0 and path.stat().st_size == sent
    expect("300 MB arrive", whole, errors)
    if whole:
        with open(path, "rb") as file:
            expect("equal", all(file.read(len(content)) == content for _ in range(sent // len(content))))
    print(f"peak memory: {peak} KiB")
    bounded = 0 < peak * 1024 < RING + (96 << 20)
    expect("memory is bounded", bounded or os.environ.get("SLUICE_MEMORY") == "any", peak)
    path.unlink(missing_ok=True)


def limits(top):
    server, url = serve(top, "--transfer-max", "1M")
    try:
        for size, code in ((1 << 20, 0), ((1 << 20) + 1, 8)):
            ran = ftx(top, "--secret-file", top / "secret", "-", url + "bounded", input=os.urandom(size))
            expect(f"--transfer-max 1M, {size} bytes: {code}", ran.returncode == code, f"{ran.returncode}: {ran.stderr}")
            (top / "served/bounded").unlink(missing_ok=True)
        nothing_left(top, "what is over the limit leaves nothing")
    finally:
        stop(server)


def refused(top, to, url):
    (top / "served/folder").mkdir()
    for what, arguments, code, text in (
            ("a directory that exists", to("folder"), 8, b"needs the name of a file"),
            ("a directory by its name", to("folder/"), 2, b"needs the name of a file"),
            ("no name", ("--secret-file", top / "secret", "-", url), 2, b"needs the name of a file"),
            ("no name of a host's", ("-", "127.0.0.1:"), 2, b"needs the name of a file"),
            ("another source", ("--secret-file", top / "secret", "-", top / "secret", url + "x"), 2, b"is sent alone"),
            ("twice", ("--secret-file", top / "secret", "-", "-", url + "x"), 2, b"is sent alone"),
            ("a dry run", ("-n", *to("x")), 2, b"not compared"),
            ("changes", ("-i", *to("x")), 2, b"not compared"),
            ("by content", ("-c", *to("x")), 2, b"not compared"),
            ("what exists", ("--existing", *to("x")), 2, b"not compared"),
            ("removals", ("-r", "--delete", *to("x")), 2, b"no directory"),
            ("to this host", ("-", "here"), 2, b"is on this host")):
        ran = ftx(top, *arguments, input=b"x")
        expect(f"{what}: {code}", ran.returncode == code and text in ran.stderr, f"{ran.returncode}: {ran.stderr}")
    (top / "served/folder").rmdir()
    directory = os.open(top, os.O_RDONLY)
    ran = ftx(top, *to("x"), stdin=directory)
    os.close(directory)
    expect("a directory on standard input", ran.returncode == 5 and b"standard input: Is a directory" in ran.stderr, ran.stderr)
    nothing_left(top, "what is refused leaves nothing")


def events(top, to):
    process = start(top, "--json", *to("seen"))
    process.stdin.write(os.urandom(100_000))
    process.stdin.flush()
    time.sleep(1.5)
    process.stdin.close()
    lines = [json.loads(line) for line in process.stdout]
    errors = end(process)
    progress = [line for line in lines if line["event"] == "progress"]
    expect("events: it has no end", any(line.get("open_ended") and line["total_bytes"] == 0 for line in progress), errors)
    expect("events: and then one", lines[-1]["event"] == "done" and lines[-1]["bytes"] == 100_000, lines[-1:])
    (top / "served/seen").unlink(missing_ok=True)


def main(top):
    prepare(top)
    server, url = serve(top)
    ways = {"server": lambda name: ("--secret-file", top / "secret", "-", url + name),
            "ssh": lambda name: ("--ssh", fake_ssh(top), "-", f"127.0.0.1:{name}"),
            "pipe": lambda name: ("--via", "pipe", "--ssh", fake_ssh(top), "-", f"127.0.0.1:{name}")}
    try:
        for way, to in ways.items():
            every_way(top, way, to)
            cut_short(top, way, to, signal.SIGINT, 130)
        cut_short(top, "ssh", ways["ssh"], signal.SIGKILL, -signal.SIGKILL)
        cut_short(top, "pipe", ways["pipe"], signal.SIGKILL, -signal.SIGKILL)
        slow_input(top, ways["server"])
        slow_input(top, ways["pipe"])
        huge_to_a_stopped_server(top, server, ways["server"])
        refused(top, ways["server"], url)
        events(top, ways["server"])
        with open(top / "secret", "rb") as file:
            ran = ftx(top, *ways["server"]("file"), stdin=file)
        expect("a file on standard input", ran.returncode == 0 and
               (top / "served/file").read_bytes() == (top / "secret").read_bytes(), ran.stderr)
    finally:
        stop(server)
    (top / "served/file").unlink(missing_ok=True)
    killed_client(top)
    limits(top)


with tempfile.TemporaryDirectory() as folder:
    main(pathlib.Path(folder))
raise SystemExit(1 if failed else 0)
