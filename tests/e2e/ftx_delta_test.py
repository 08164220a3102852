#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--delta: of changed files only what has changed travels; to and from a server, and through a program that stands for
ssh, by UDP and in the pipe."""
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

import programs
from programs import FTX, SECONDS_MAX, environment, expect, failed, fake_ssh, prepare, serve, stop

SIZE = 20_000_000
CHANGES = 20
BLOCK = 4096  # of a file of that size


def ftx(top, *arguments):
    """What it ends with, and the event that says so."""
    ran = programs.ftx(top, "--json", *arguments, text=True)
    last = json.loads(ran.stdout.splitlines()[-1]) if ran.stdout else {}
    return ran, last


def edited(content):
    """Bytes changed here and there, some inserted, some taken out."""
    rng, new = random.Random(1), bytearray(content)
    for _ in range(CHANGES):
        new[rng.randrange(len(new))] ^= 1
    at = len(new) // 2
    return bytes(new[:at] + b"inserted" + new[at:3 * at // 2] + new[3 * at // 2 + 1000:])


def little(last):
    """Two blocks a change at most, and what is left at the end."""
    return last.get("event") == "done" and 0 < last["bytes"] <= (CHANGES + 3) * 2 * BLOCK


def main(top):
    prepare(top)
    old = os.urandom(SIZE)
    new = edited(old)
    ssh = ("--ssh", fake_ssh(top))
    server, url = serve(top)
    closed, closed_url = serve(top, "--write-only")
    local, there = top / "here/file", top / "served/file"
    ways = {"server": (("--secret-file", top / "secret"), url), "ssh": (ssh, "127.0.0.1:"), "pipe": ((*ssh, "--via", "pipe"), "127.0.0.1:")}
    try:
        for way, (options, far) in ways.items():
            local.write_bytes(new)
            there.write_bytes(old)
            ran, last = ftx(top, "--delta", *options, local, far + "file")
            expect(f"{way}: push", ran.returncode == 0 and there.read_bytes() == new, ran.stderr)
            expect(f"{way}: push: little travels", little(last), last)
            there.write_bytes(new)
            local.write_bytes(old)
            ran, last = ftx(top, "--delta", *options, far + "file", local)
            expect(f"{way}: pull", ran.returncode == 0 and local.read_bytes() == new, ran.stderr)
            expect(f"{way}: pull: little travels", little(last), last)
            local.write_bytes(old)
            os.utime(there)  # no time that has been there before
            ran, last = ftx(top, *options, far + "file", local)
            expect(f"{way}: without --delta all of it", last.get("bytes") == len(new), last)
        local.write_bytes(new)
        there.write_bytes(old)
        ran, last = ftx(top, "--delta", "--secret-file", top / "secret", local, closed_url + "file")
        expect("a server that may not be read tells nothing", ran.returncode == 0 and last["bytes"] == len(new), last)
        expect("it has the file all the same", there.read_bytes() == new)
        # A tree: a file that is as it was, one that has changed, a new one, small ones; twice.
        tree = top / "here/tree"
        (tree / "sub").mkdir(parents=True)
        for name, content in (("same", old[:1_000_000]), ("changed", old), ("sub/new", old[:500_000]), ("small", b"x" * 5000)):
            (tree / name).write_bytes(content)
        ftx(top, "-a", *ssh, tree, "127.0.0.1:")
        (tree / "changed").write_bytes(new)
        (tree / "sub/new").unlink()
        (tree / "small").write_bytes(b"y" * 5000)
        ran, last = ftx(top, "-a", "--delta", "--delete", *ssh, tree, "127.0.0.1:")
        expect("tree", ran.returncode == 0 and subprocess.run(["diff", "-r", tree, top / "served/tree"]).returncode == 0, ran.stderr)
        expect("tree: little travels", little(last), last)
        # One that is killed, and goes on; it needs no more than the first would have.
        local.write_bytes(new)
        there.write_bytes(old)
        process = subprocess.Popen([FTX, "--delta", "--rate", "0.2", *ssh, local, "127.0.0.1:file"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment(top))
        for _ in range(200):
            time.sleep(0.05)
            if any(path.stat().st_size > SIZE // 2 for path in (top / "served").glob(".file.ftx*")):
                break
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS_MAX)
        expect("killed: the old one is there", there.read_bytes() == old)
        ran, last = ftx(top, "--delta", *ssh, local, "127.0.0.1:file")
        expect("it goes on", ran.returncode == 0 and there.read_bytes() == new, ran.stderr)
        expect("it goes on: little travels", last.get("event") == "done" and last["bytes"] <= (CHANGES + 20) * 2 * BLOCK, last)
        ran, _ = ftx(top, "--delta", "-n", *ssh, local, "127.0.0.1:file")
        expect("a dry run ends", ran.returncode == 0, ran.stderr)
    finally:
        for process in (server, closed):
            stop(process)


with tempfile.TemporaryDirectory() as folder:
    main(pathlib.Path(folder))
raise SystemExit(1 if failed else 0)
