#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ftx_test.py [ADDRESS NAMESPACE-OF-CLIENT STACK-FILE NAMESPACE-OF-SERVER STACK-FILE]

ftx over the kernel's UDP, or over the stacks of those files, either end, while its calls to the operating system fail one
by one: what is whole has its final name, nothing else has, and who fails says why."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile

from faults import NAMES, Wrong, rest_of, try_all

FTX = os.path.join(os.environ["SLUICE_BIN"], "ftx")
SECONDS_MAX = 20
INTERNAL, INTERRUPTED = 1, 130


class End:
    """Where one of the two runs: what is put before its command, and behind it."""

    def __init__(self, namespace=None, stack=None):
        self.namespace = namespace
        self.more = ["--stack", stack] if stack else []

    def command(self, arguments, settings):
        chosen = [f"{name}={settings[name]}" for name in NAMES if name in settings]
        inside = ["ip", "netns", "exec", self.namespace, "env", *chosen] if self.namespace else []
        return inside + [FTX, *arguments, *self.more]


class Run:
    def __init__(self, end, arguments, settings):
        # What enters a namespace is not to fail.
        self.process = subprocess.Popen(end.command(arguments, settings), stdin=subprocess.DEVNULL,
                                        env=dict(os.environ) if end.namespace else settings,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.text = ""

    def first_line(self):
        self.text = self.process.stdout.readline()
        return self.text

    def end(self):
        self.text += rest_of(self.process, SECONDS_MAX)
        return self.process.returncode


def judge(name, run, status, fault):
    if status < 0 or status == INTERNAL:
        raise Wrong(f"{name} ended with {status}: {run.text}")
    if status != 0 and fault.must_not_matter():
        raise Wrong(f"{name} did not go on: {status}: {run.text}")
    if status != 0 and "ftx:" not in run.text:
        raise Wrong(f"{name} says nothing: {run.text}")


def transfer(ends, address, settings_of, fault, folder, sources):
    destination = tempfile.mkdtemp(dir=folder)
    serve = ["serve", destination, "--insecure", "--listen", address, "--port", "0", "--idle-timeout", "2", "--xattrs", "--owners"]
    server = Run(ends["server"], serve, settings_of["server"])
    port = re.search(rf"listening on {re.escape(address)}:(\d+)", server.first_line())
    runs = {}
    if port:
        client = Run(ends["client"], [*sources, f"ftx://{address}:{port[1]}/", "--insecure", "--idle-timeout", "2", "-X", "-g"],
                     settings_of["client"])
        try:
            runs["client"] = (client, client.end())
        finally:
            server.process.send_signal(signal.SIGINT)
    status = server.end()
    runs["server"] = (server, 0 if port and status == INTERRUPTED else status)
    for name, (run, status) in runs.items():
        if fault is None and status != 0:
            raise RuntimeError(f"{name} fails without a fault: {run.text}")
        if fault:
            judge(name, run, status, fault)
    final = {name for name in os.listdir(destination) if not name.startswith(".")}
    for source in sources:
        name = os.path.basename(source)
        if name in final:
            with open(source, "rb") as one, open(os.path.join(destination, name), "rb") as other:
                if one.read() != other.read():
                    raise Wrong(f"{name} has its final name and is not what was sent")
        elif port and runs["client"][1] == 0:
            raise Wrong(f"the client was told that all is well, and {name} is missing")


def main():
    failed = 0
    address, ends = "127.0.0.1", {"client": End(), "server": End()}
    if len(sys.argv) > 1:
        address, ends = sys.argv[1], {"client": End(*sys.argv[2:4]), "server": End(*sys.argv[4:6])}
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for number, size in enumerate((300_000, 5, 0)):
            sources.append(os.path.join(folder, f"file{number}"))
            with open(sources[-1], "wb") as file:
                file.write(os.urandom(size))
            with contextlib.suppress(OSError):  # of a file system without attributes
                os.setxattr(sources[-1], "user.k", b"value")
        for role in ("server", "client"):
            def scenario(settings, fault):
                settings_of = {"server": dict(os.environ), "client": dict(os.environ), role: settings}
                transfer(ends, address, settings_of, fault, folder, sources)
            failed += try_all(role, FTX, scenario, os.path.join(folder, role))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
