# SPDX-License-Identifier: Apache-2.0
"""kernel_peer.py listen|connect ADDRESS PORT STEP...: a program over the kernel's TCP that does one step after the other,
and writes what it receives to standard output. Exits with 1, and says why, where the connection fails.

    times=N             so many connections one after the other, each with the steps below (listen)
    from=PORT           connects from that port
    after=FILE          says that it is ready, and connects when something stands in FILE
    receive_buffer=N    SO_RCVBUF; before the connection, as the window's scale is settled then
    sending=FILE        begins to send it, and shuts down behind it; the steps go on meanwhile
    send=FILE           sends it
    single=FILE         sends it byte by byte, without delay (TCP_NODELAY)
    shut                shuts down sending
    receive[=N]         until the peer's end, or so many bytes
    pause=SECONDS
    reset               closes with a reset (SO_LINGER 0)

A listener says "accepted" on standard error for each connection. At the end it closes, and so its process ends."""
import os
import socket
import struct
import sys
import threading
import time

CHUNK_BYTES = 1 << 16


def sends_and_shuts(connection, path):
    with open(path, "rb") as file:
        connection.sendall(file.read())
    connection.shutdown(socket.SHUT_WR)


def sends_singly(connection, path):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with open(path, "rb") as file:
        for byte in file.read():
            connection.sendall(bytes([byte]))


def receives(connection, left):
    while left > 0 and (data := connection.recv(min(left, CHUNK_BYTES))):
        sys.stdout.buffer.write(data)
        left -= len(data)
    sys.stdout.buffer.flush()


def does(connection, steps):
    sender = None
    for name, value in steps:
        if name == "sending":
            sender = threading.Thread(target=sends_and_shuts, args=(connection, value))
            sender.start()
        elif name == "send":
            with open(value, "rb") as file:
                connection.sendall(file.read())
        elif name == "single":
            sends_singly(connection, value)
        elif name == "shut":
            connection.shutdown(socket.SHUT_WR)
        elif name == "receive":
            receives(connection, int(value) if value else sys.maxsize)
        elif name == "pause":
            time.sleep(float(value))
        elif name == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            sys.exit(f"kernel_peer.py: {name} is no step")
    if sender:
        sender.join()
    connection.close()


def made(address, options):
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if "receive_buffer" in options:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(options["receive_buffer"]))
    return one


def waits_for(path):
    print("ready", file=sys.stderr, flush=True)
    while not os.path.exists(path) or os.path.getsize(path) == 0:
        time.sleep(0.001)


def main():
    role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    steps = [(name, value) for name, _, value in (word.partition("=") for word in sys.argv[4:])]
    options = {name: value for name, value in steps if name in ("times", "from", "after", "receive_buffer")}
    steps = [step for step in steps if step[0] not in options]
    if role == "connect":
        connection = made(address, options)
        if "from" in options:
            connection.bind(("", int(options["from"])))
        if "after" in options:
            waits_for(options["after"])
        connection.connect((address, port))
        return does(connection, steps)
    listener = made(address, options)
    listener.bind((address, port))
    listener.listen(64)
    for _ in range(int(options.get("times", 1))):
        connection = listener.accept()[0]
        print("accepted", file=sys.stderr, flush=True)
        does(connection, steps)


try:
    main()
except OSError as error:
    sys.exit(f"kernel_peer.py: {error}")
