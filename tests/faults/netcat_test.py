#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice nc` over the kernel's UDP while its calls to the operating system fail one by one: what comes is written, what is
typed leaves, and who ends says why."""
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

from faults import Wrong, rest_of, try_all

SLUICE = os.path.join(os.environ["SLUICE_BIN"], "sluice")
SECONDS_MAX = 10
TRIES = 3
STACK = """[stack.main]
driver = { kind = "kernel_udp" }
push   = ["timod"]
"""


class Netcat:
    def __init__(self, stack, settings):
        self.process = subprocess.Popen([SLUICE, "nc", "--stack", stack, "-l", "-v", "-p", "0"], env=settings,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.text = b""

    def read_until(self, wanted, seconds):
        """What `wanted` finds in all that it has written; None when that does not come, or it has ended."""
        until = time.monotonic() + seconds
        while not (found := wanted(self.text)):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not more:
                return None
            self.text += more
        return found

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.text += rest_of(self.process, SECONDS_MAX)
        return self.process.returncode


def talk(netcat, friend, to, number):
    """One datagram each way. Whether both came."""
    question, answer = b"question %d;" % number, b"answer %d;" % number
    friend.sendto(question, to)
    if not netcat.read_until(lambda text: question in text, 1):
        return False
    try:
        netcat.process.stdin.write(answer)
        netcat.process.stdin.flush()
    except BrokenPipeError:
        return False
    ready, _, _ = select.select([friend], [], [], 1)
    return bool(ready) and friend.recv(2000) == answer


def scenario(stack, settings, fault):
    netcat = Netcat(stack, settings)
    at = netcat.read_until(lambda text: re.search(rb"listening on (\S*):(\d+)\n", text), SECONDS_MAX)
    # Where the system says that it has no IPv6, nc listens on IPv4.
    family, host = (socket.AF_INET, "127.0.0.1") if at and at[1] == b"0.0.0.0" else (socket.AF_INET6, "::1")
    came = []
    with socket.socket(family, socket.SOCK_DGRAM) as friend:
        friend.bind((host, 0))
        for number in range(TRIES if at else 0):
            came.append(talk(netcat, friend, (host, int(at[2])), number))
            while select.select([friend], [], [], 0)[0]:
                friend.recv(2000)
    status = netcat.end()
    text = netcat.text.decode(errors="replace")
    if status < 0:
        raise Wrong(f"it ended with {status}: {text}")
    if fault is None and (status != 0 or came != [True] * TRIES):
        raise RuntimeError(f"it fails without a fault: {status}: {came}: {text}")
    said = re.search(r"sluice: (?!nc: listening)", text)
    if status == 0 and not (came and came[-1]) and not said:
        raise Wrong(f"it goes on, does not work and does not say so: {came}: {text}")
    if fault and fault.must_not_matter() and (status != 0 or came != [True] * TRIES):
        raise Wrong(f"it lost something: {status}: {came}: {text}")
    if status != 0 and not said:
        raise Wrong(f"it ended with {status} and says nothing: {text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        stack = os.path.join(folder, "kernel.toml")
        with open(stack, "w") as file:
            file.write(STACK)
        return try_all("nc, kernel UDP", SLUICE, lambda settings, fault: scenario(stack, settings, fault),
                       os.path.join(folder, "log")) != 0


if __name__ == "__main__":
    sys.exit(main())
