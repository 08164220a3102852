#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice nc` over the kernel's TCP while the provider's calls to the operating system fail one by one, called and calling:
what is sent arrives whole, with its end, or whoever ends says why; nobody takes a part for the whole."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

from faults import Wrong, try_all

SLUICE = os.path.join(os.environ["SLUICE_BIN"], "sluice")
SECONDS_MAX = 10
PROVIDER = r"/tpi/(kernel_tcp|tcp_|socket_)"
STACK = """[stack.main]
driver = { kind = "kernel_tcp" }
push   = ["timod"]
"""
QUESTION = b"question " * 20000
ANSWER = b"answer " * 20000


class Netcat:
    def __init__(self, stack, settings, arguments):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([SLUICE, "nc", "--stack", stack, "-v", *arguments], env=settings,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def listens_on(self):
        """None: it has ended instead, or says nothing."""
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            ended = self.process.poll() is not None
            if found := re.search(r"listening on \S*:(\d+)\n", self.said()):
                return int(found[1])
            if ended:
                return None
            time.sleep(0.002)
        return None

    def end(self, text):
        """Its input is `text`; answers its exit code and what it has written in all."""
        try:
            output, _ = self.process.communicate(text, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Wrong(f"it hangs: {self.said()}")
        return self.process.returncode, output


class Friend:
    """The other end: sends the answer and its end, and takes what comes until the end, in threads. The kernel tells of a
    reset once, to whichever of them asks first: to the other a reset looks like an end."""

    def __init__(self, connection):
        self.connection, self.came, self.ended, self.reset = connection, b"", False, False
        connection.settimeout(SECONDS_MAX)
        self.threads = [threading.Thread(target=work) for work in (self.send, self.take)]
        for thread in self.threads:
            thread.start()

    def send(self):
        try:
            self.connection.sendall(ANSWER)
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset = True

    def take(self):
        try:
            while not self.ended:
                part = self.connection.recv(65536)
                self.ended = not part
                self.came += part
        except OSError:
            pass

    def join(self):
        for thread in self.threads:
            thread.join()
        self.ended = self.ended and not self.reset
        self.connection.close()


def called(stack, settings):
    netcat = Netcat(stack, settings, ["-l", "-p", "0"])
    port = netcat.listens_on()
    for host in ("127.0.0.1", "::1") if port else ():
        try:
            return netcat, Friend(socket.create_connection((host, port), SECONDS_MAX))
        except OSError:
            pass
    return netcat, None


def calling(stack, settings):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        netcat = Netcat(stack, settings, ["127.0.0.1", str(listener.getsockname()[1])])
        listener.settimeout(0.02)
        for _ in range(SECONDS_MAX * 50):
            ended = netcat.process.poll() is not None
            try:
                return netcat, Friend(listener.accept()[0])
            except TimeoutError:
                if ended:
                    break
    return netcat, None


def scenario(start, stack, settings, fault):
    netcat, friend = start(stack, settings)
    try:
        status, output = netcat.end(QUESTION)
    finally:
        if friend:
            friend.join()
    text = netcat.said()
    came, ended = (friend.came, friend.ended) if friend else (b"", False)
    whole = came == QUESTION and ended and output == ANSWER
    said = re.search(r"sluice: (?!nc: (listening|sending|connection))", text)
    if fault is None and (status != 0 or not whole):
        raise RuntimeError(f"it fails without a fault: {status}, {len(came)}, {ended}, {len(output)}: {text}")
    if status < 0:
        raise Wrong(f"it ended with {status}: {text}")
    # Both sides having released, XTI has no event for what happens then: the other end finds a reset.
    excused = fault is not None and fault.function == "shutdown" and not ended
    if status == 0 and not whole and not excused:
        raise Wrong(f"it says that all is well: {len(came)} bytes, end {ended}, {len(output)} bytes: {text}")
    if ended and came != QUESTION:
        raise Wrong(f"the other end takes {len(came)} bytes for the whole")
    if fault and fault.must_not_matter() and not whole:
        raise Wrong(f"it lost something: {status}: {len(came)} bytes, end {ended}, {len(output)} bytes: {text}")
    if status != 0 and not said:
        raise Wrong(f"it ended with {status} and says nothing: {text}")


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        stack = os.path.join(folder, "kernel.toml")
        with open(stack, "w") as file:
            file.write(STACK)
        for start in (called, calling):
            failed += try_all(f"nc, kernel TCP, {start.__name__}", SLUICE,
                              lambda settings, fault, start=start: scenario(start, stack, settings, fault),
                              os.path.join(folder, f"log-{start.__name__}"), PROVIDER)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
