#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line that --json prints is what docs/formats/ftx-json.md says: of senders, of receivers, of a server, and of
what fails. ssh is a program that starts the far side here."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs"))
from json_tables import tables, violations  # noqa: E402

FTX = pathlib.Path(os.environ["SLUICE_BIN"]) / "ftx"
SECONDS_MAX = 60
schema = tables()
seen = set()
problems = []


def check(what, output, last):
    lines = output.splitlines()
    events = [json.loads(line) for line in lines]
    wrong = [text for event in events for text in violations(event, schema)]
    kinds = [event["event"] for event in events]
    seen.update(kinds)
    if wrong or not kinds or kinds[-1] != last:
        problems.append(what)
        print(f"FAILED: {what}: {wrong}\n{output}")
    else:
        print(f"ok: {what}: {', '.join(kinds)}")
    return events


def run(top, what, *arguments, code=0, last="done"):
    ran = subprocess.run([FTX, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=SECONDS_MAX,
                         env={**os.environ, "XDG_CONFIG_HOME": str(top / "config"), "HOME": str(top / "home")})
    if ran.returncode != code or ran.stderr:
        problems.append(what)
        print(f"FAILED: {what}: exit code {ran.returncode}, said {ran.stderr!r}")
    return check(what, ran.stdout, last)


class Server:
    def __init__(self, top, *arguments):
        self.process = subprocess.Popen([FTX, "serve", "--json", "--listen", "127.0.0.1", "--port", "0", *map(str, arguments)],
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_CONFIG_HOME": str(top / "there")})
        self.first = self.process.stdout.readline()
        listening = json.loads(self.first)
        self.url = "ftx://" + listening["address"]
        self.key = listening["key"]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.first + self.process.communicate(timeout=SECONDS_MAX)[0]


def main():
    with tempfile.TemporaryDirectory() as directory:
        top = pathlib.Path(directory)
        for name in ("served", "home", "tree", "in"):
            (top / name).mkdir()
        big = top / "big.bin"
        big.write_bytes(os.urandom(1_000_000))
        (top / "tree/small \"\\\n".rstrip("\n")).write_text("small")
        (top / "tree/not UTF-8 ".encode().decode()).write_text("x")
        (top / "tree/link").symlink_to("nowhere")
        server = Server(top, "--secret-file", secret(top, "secret"), top / "served")
        with_secret = ["--secret-file", top / "secret", "--accept-key", server.key]
        run(top, "push, slowly", *with_secret, "--rate", 8, big, server.url + "/")
        run(top, "push of a tree, each file", "-v", "-r", *with_secret, top / "tree", server.url + "/")
        run(top, "dry run of a push", "-n", "-r", *with_secret, top / "tree", server.url + "/other")
        run(top, "dry run of a pull", "-n", "-i", *with_secret, server.url + "/big.bin", top / "in")
        run(top, "pull, compressed", "--compress-always", "-v", *with_secret, server.url + "/big.bin", top / "in")
        run(top, "pull of nothing that is there", *with_secret, server.url + "/nothing", top / "in", code=5, last="error")
        run(top, "another secret", "--secret-file", secret(top, "other"), big, server.url + "/", code=25, last="error")
        run(top, "no such source", big.parent / "missing", server.url + "/", code=5, last="error")
        events = check("serve", server.stop(), "rejected")
        if not any(event.get("sent") and event.get("client") for event in events):
            problems.append("serve: nothing is said to have been sent to a client")
        ssh = top / "ssh"
        ssh.write_text(f"#!/bin/sh\ncase \"$*\" in *' -G '*|'-G '*) echo hostname localhost; exit;; esac\nHOME={top}/home exec {FTX} remote\n")
        ssh.chmod(0o755)
        run(top, "push through ssh, by its pipe", "--ssh", ssh, "--via", "pipe", big, "there:")
        run(top, "pull through ssh", "--ssh", ssh, "there:big.bin", top / "in/again.bin")
        run(top, "what the doctor says of this host", "doctor", last="finding")
        run(top, "no ssh", "--ssh", top / "nothing", big, "there:", code=16, last="error")
    # Others take a network that loses and blocks (ftx_lab_test.sh, ftx_ssh_test.sh), or an old kernel
    # (confined_roles_test.py).
    rest = set(schema) - {None, "repair", "fallback", "unconfined"} - seen
    if rest:
        problems.append(f"never seen: {rest}")
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


def secret(top, name):
    path = top / name
    path.touch(mode=0o600)
    path.write_text(os.urandom(32).hex())
    return path


if __name__ == "__main__":
    sys.exit(main())
