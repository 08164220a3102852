#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice serve` while its calls to the operating system fail one by one: a program on its sockets gets an answer or an
error, whatever happens, and waits for nothing; the server goes on, or ends and says why."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from faults import HALF, Wrong, rest_of, try_all

SLUICE = os.path.join(os.environ["SLUICE_BIN"], "sluice")
OF_SOCKETS = re.compile(r"sockets/server/|apps/sluice/serve")
SECONDS_MAX = 20
STACK = """
[stack.tcp]
driver = { kind = "kernel_tcp" }
push   = ["timod"]
[stack.udp]
driver = { kind = "kernel_udp" }
push   = ["timod"]
"""
# A connection each way: one that it makes, and one that it accepts; what it got is said at the end.
PROGRAM = """
import socket, sys
data = bytes(range(256)) * 400
def exchange(one):
    one.settimeout(10)
    one.sendall(data)
    one.shutdown(socket.SHUT_WR)
    got = b""
    while piece := one.recv(65536):
        got += piece
    one.close()
    assert got == data, len(got)
exchange(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10))
listener = socket.create_server(("127.0.0.1", 0))
listener.settimeout(3)
caller = socket.create_connection(listener.getsockname(), 10)
accepted = None
try:
    accepted = listener.accept()[0]
except TimeoutError:
    pass
if accepted is None:
    assert not caller.recv(1)
    sys.exit("who could not be handed over has been told")
caller.sendall(b"question")
assert accepted.recv(8, socket.MSG_WAITALL) == b"question"
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
print("whole")
"""


def echo(listener):
    """For a peer of the kernel's, until the listener is closed."""
    try:
        while True:
            one = listener.accept()[0]
            with one:
                one.settimeout(SECONDS_MAX)
                try:
                    got = b""
                    while piece := one.recv(65536):
                        got += piece
                    one.sendall(got)
                except OSError:
                    pass
    except OSError:
        pass


def start(folder, settings):
    server = subprocess.Popen([SLUICE, "serve", os.path.join(folder, "kernel.toml"), "--socket", os.path.join(folder, "server")],
                              env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return server, server.stdout.readline()


def scenario(folder, port, settings, fault):
    # What waits is told once (EPOLLET): a call that says it is not there, or takes less of it than there is room for, is one
    # that the kernel does not make.
    if fault and (fault.name == "EAGAIN" or (fault.name == HALF and fault.function == "recv")):
        return
    server, said = start(folder, settings)
    if "serving" not in said:
        text = said + rest_of(server, SECONDS_MAX)
        if server.returncode <= 0 or "sluice: " not in text or (fault and fault.must_not_matter()):
            raise Wrong(f"it does not start: {server.returncode}: {text}")
        return
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FAULT_")}
    try:
        program = subprocess.run([SLUICE, "exec", "--socket", os.path.join(folder, "server"), "python3", "-c", PROGRAM, str(port)],
                                 env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
        outcome = program.stdout
    except subprocess.TimeoutExpired:
        outcome = None
    server.send_signal(signal.SIGINT)
    text = rest_of(server, SECONDS_MAX)
    if outcome is None:
        raise Wrong(f"its program waits for ever: {text}")
    if "TimeoutError" in outcome:
        raise Wrong(f"its program is told nothing: {outcome}")
    # An answer that there is no memory for is an error of the program's call.
    excused = fault is not None and fault.function == "sendmsg" and fault.name == "ENOBUFS"
    if (fault is None or fault.must_not_matter()) and not excused and "whole" not in outcome:
        raise Wrong(f"its program fails: {outcome}")
    if server.returncode != 0 and (server.returncode < 0 or "sluice: " not in text):
        raise Wrong(f"it ended with {server.returncode}: {text}")


def main():
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        with open(os.path.join(folder, "kernel.toml"), "w") as file:
            file.write(STACK)
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        return try_all("serve", SLUICE, lambda settings, fault: scenario(folder, port, settings, fault),
                       os.path.join(folder, "log"), OF_SOCKETS) != 0


if __name__ == "__main__":
    sys.exit(main())
