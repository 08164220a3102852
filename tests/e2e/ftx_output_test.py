#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The destination "-": one file goes to standard output, whole and alone, whatever reads it; from a server, and from a
host behind a program that stands for ssh."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from programs import FTX, SECONDS_MAX, environment, expect, failed, fake_ssh, ftx, prepare, serve, stop

LARGE = 20_000_000


def slow_reader(top, contents, *arguments):
    """More than the window holds comes to somebody who sleeps first."""
    process = subprocess.Popen([FTX, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(top))
    time.sleep(2)
    output, errors = process.communicate(timeout=SECONDS_MAX)
    expect("a reader that is slow gets all of it", process.returncode == 0 and output == contents, errors)


def gone_reader(top, *arguments):
    process = subprocess.Popen([FTX, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(top))
    process.stdout.read(1000)
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.wait(SECONDS_MAX)
    process.stderr.close()
    expect("a reader that goes away is an error", process.returncode == 10 and "standard output: Broken pipe" in errors,
           f"{process.returncode}: {errors}")


def interrupted(top, *arguments):
    process = subprocess.Popen([FTX, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(top))
    process.stdout.read(1000)
    process.send_signal(signal.SIGINT)
    process.wait(SECONDS_MAX)  # nobody reads what is left
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    expect("an interrupt ends it although nobody reads", process.returncode == 130, f"{process.returncode}: {errors}")


def main(top):
    prepare(top)
    contents = {"large": os.urandom(LARGE), "small": b"small\n", "empty": b"", "huge": os.urandom(120_000_000)}
    for name, content in contents.items():
        (top / "served" / name).write_bytes(content)
    with open(top / "served/sparse", "wb") as file:
        file.seek(3_000_000)
        file.write(b"data")
        file.truncate(9_000_000)
    contents["sparse"] = (top / "served/sparse").read_bytes()
    server, url = serve(top)
    ways = {"server": lambda name: ("--secret-file", top / "secret", url + name),
            "ssh": lambda name: ("--ssh", fake_ssh(top), f"127.0.0.1:{name}"),
            "pipe": lambda name: ("--via", "pipe", "--ssh", fake_ssh(top), f"127.0.0.1:{name}")}
    try:
        for way, source in ways.items():
            for name in ("large", "small", "empty", "sparse"):
                ran = ftx(top, *source(name), "-")
                expect(f"{way}: {name}", ran.returncode == 0 and ran.stdout == contents[name], ran.stderr)
                expect(f"{way}: {name}: what is said goes to standard error", b"standard output  1 file" in ran.stderr or
                       b"-  1 file" in ran.stderr, ran.stderr)
            ran = ftx(top, "--json", *source("small"), "-")
            expect(f"{way}: events, too", ran.stdout == contents["small"] and b'"event":"done"' in ran.stderr, ran.stderr)
        with open(top / "here/log", "ab") as log:
            log.write(b"before\n")
            log.flush()
            ran = subprocess.run([FTX, *map(str, ways["server"]("small")), "-"], stdout=log, stderr=subprocess.PIPE,
                                 timeout=SECONDS_MAX, env=environment(top))
        expect("a file that is appended to", ran.returncode == 0 and (top / "here/log").read_bytes() == b"before\nsmall\n")
        slow_reader(top, contents["huge"], *ways["server"]("huge"), "-")
        gone_reader(top, *ways["server"]("huge"), "-")
        interrupted(top, *ways["server"]("huge"), "-")
        for what, arguments in (("two files", [*ways["server"]("small"), url + "large", "-"]),
                                ("a directory", ["-r", *ways["server"](""), "-"])):
            ran = ftx(top, *arguments)
            expect(f"{what}: refused", ran.returncode == 2 and b"one file goes to standard output" in ran.stderr, ran.stderr)
        ran = ftx(top, *ways["server"]("small"), "./-", cwd=top / "here")
        expect("./- is a file", ran.returncode == 0 and (top / "here/-").read_bytes() == b"small\n", ran.stderr)
    finally:
        stop(server)


with tempfile.TemporaryDirectory() as folder:
    main(pathlib.Path(folder))
raise SystemExit(1 if failed else 0)
