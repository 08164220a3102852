#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The configuration file: what it sets, what wins over it, what is refused, and that the far side reads none. What it
did is seen in the events of transfers on loopback."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from ftx_terminal_test import FTX, SECONDS_MAX, Server

problems = []
os.environ.pop("FTX_CONFIG", None)  # of the tests, which read none


def expect(what, good, detail=""):
    print(("ok: " if good else "FAILED: ") + what)
    if not good:
        problems.append(what)
        print(f"  {detail}")


class Case:
    def __init__(self, top, server):
        self.top, self.server = top, server
        self.home = top / "config home"
        (self.home / "ftx").mkdir(parents=True)
        self.file = self.home / "ftx/config.toml"
        (top / "a.bin").write_bytes(b"x" * 1000)

    def run(self, text, *flags, environment=None, destination=None, sources=True):
        if text is not None:
            self.file.write_text(text)
            self.file.chmod(0o600)
        where = destination or f"ftx://127.0.0.1:{self.server.port}/"
        return subprocess.run([FTX, *flags, *([self.top / "a.bin"] if sources else []), where], capture_output=True, text=True,
                              timeout=SECONDS_MAX, env={**os.environ, **(environment or self.found())})

    def found(self):
        return {"XDG_CONFIG_HOME": str(self.home)}

    def congestion(self, text, *flags, **others):
        ran = self.run(text, "--insecure", "--json", *flags, **others)
        events = [json.loads(line) for line in ran.stdout.splitlines()]
        return [event["congestion"] for event in events if event["event"] == "offer"] or ran

    def refused(self, what, text, says, *flags, **others):
        ran = self.run(text, "--insecure", *flags, **others)
        expect(what, ran.returncode == 2 and ran.stderr.startswith("ftx: ") and says in ran.stderr and ran.stderr.count("\n") == 1, ran)


def check_what_it_sets(at):
    cubic = 'congestion = "cubic"\n'
    expect("without a file", at.congestion("") == ["bbr"], "")
    expect("a default", at.congestion(cubic) == ["cubic"])
    expect("a flag wins", at.congestion(cubic, "--congestion", "bbr") == ["bbr"])
    expect("a flag that excludes it wins", at.congestion(cubic, "--rate", "100") == ["fixed rate"])
    expect("a host's section wins", at.congestion(cubic + '[host."127.0.0.1"]\nrate = 100\n') == ["fixed rate"])
    expect("a host's section turns off what is on", at.congestion('background = true\n[host."127.0.0.1"]\nbackground = false\n') == ["bbr"])
    expect("another host's does not", at.congestion(cubic + "[host.other]\nrate = 100\n") == ["cubic"])
    expect("a switch that is off", at.congestion("background = false\n") == ["bbr"])
    expect("a switch that is on", at.congestion("background = true\n") == ["background"])
    expect("a switch whose name says no", at.congestion("no-partial = true\nsize-only = true\n") == ["bbr"])
    expect("quiet", at.run("quiet = true\n", "--insecure").stdout == "")
    other = at.top / "other.toml"
    other.write_text("background = true\n")
    other.chmod(0o600)
    expect("FTX_CONFIG names another file", at.congestion(cubic, environment={**at.found(), "FTX_CONFIG": str(other)}) == ["background"])
    expect("FTX_CONFIG is empty: none", at.congestion(cubic, environment={**at.found(), "FTX_CONFIG": ""}) == ["bbr"])


def check_what_is_refused(at):
    at.refused("an unknown key", "\nsqueeze = 1\n", f"{at.file}:2: there is no key 'squeeze'; expected one of")
    at.refused("protection is no default", "insecure = true\n", "there is no key 'insecure'")
    at.refused("a value that the flag refuses", 'congestion = "reno"\n', f"{at.file}:1: --congestion: reno not in {{")
    at.refused("a number for a switch", "background = 1\n", "config.toml:1: background: expected true or false")
    at.refused("a switch for a number", "rate = true\n", "config.toml:1: rate: expected a value")
    at.refused("keys that exclude each other", 'congestion = "cubic"\nrate = 100\n', "config.toml:2: rate: the same section has congestion")
    at.refused("no TOML", "rate = \n", f"{at.file}:1: ")
    at.refused("a file that is not there", "", "nothing.toml", environment={**at.found(), "FTX_CONFIG": str(at.top / "nothing.toml")})
    at.file.write_text("")
    at.file.chmod(0o666)
    at.refused("a file that others may write", None, str(at.file))


def check_the_doctor(at):
    """It takes those keys that it has flags for, and no offence at others."""
    def doctor(text):
        return at.run(text, "doctor", destination="ftx://127.0.0.1:1", sources=False)
    ran = doctor('congestion = "cubic"\nquiet = true\n')
    expect("the doctor keeps to it", ran.returncode == 27 and "fault   server: " in ran.stdout and not re.search("^ok", ran.stdout, re.M), ran)
    ran = doctor("squeeze = 1\n")
    expect("nor does the doctor know other keys", ran.returncode == 2 and "config.toml:1: there is no key 'squeeze'" in ran.stderr, ran)


def check_the_far_side(at):
    """ssh is a program that starts the far side with a configuration that would end it."""
    ssh = at.top / "ssh"
    broken = at.top / "broken.toml"
    broken.write_text("what = \n")
    ssh.write_text(f"#!/bin/sh\ncase \"$*\" in *'-G '*) echo hostname 127.0.0.1; exit;; esac\nHOME={at.top}/in FTX_CONFIG={broken} exec {FTX} remote\n")
    ssh.chmod(0o755)
    ran = at.run(f'ssh = "{ssh}"\nvia = "pipe"\n[host.there]\nverbose = true\n', destination="there:far.bin")
    expect("the far side reads none, and this one does", ran.returncode == 0 and (at.top / "in/far.bin").exists() and "session: ssh," in ran.stdout, ran)


def main():
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "in").mkdir()
        server = Server(top / "in")
        try:
            at = Case(top, server)
            check_what_it_sets(at)
            check_what_is_refused(at)
            check_the_doctor(at)
            check_the_far_side(at)
        finally:
            server.stop()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
