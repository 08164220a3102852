#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crowd.py PORT SECONDS: nine hostile clients of an ftx server on 127.0.0.1, from 127.0.0.2 to 127.0.0.10.

Three hold sessions with PROBEs, two announce huge lists, two make a thousand connections each, two send garbage. Prints
"ready" when the server has opened sessions for them, and at the end what was sent."""
import random
import select
import socket
import struct
import sys
import time

HELLO, COOKIE, OFFER, DATA, PROBE, REPORT, ERROR, CLOSE = range(1, 9)
MANIFEST = 0xFFFFFFFF


def envelope(kind, connection):
    return struct.pack("!BBHIQ", 1, kind, 0, 1, connection)


def hello(connection):
    return (envelope(HELLO, connection) + struct.pack("!QI", 1, 1408)).ljust(1200, b"\0")


def offer(connection, cookie, files, list_bytes):
    return envelope(OFFER, connection) + cookie + struct.pack("!QIII16sH", 1000, 1408, files, list_bytes, bytes(16), 0)


def data(connection, sequence, offset):
    return envelope(DATA, connection) + struct.pack("!QQIIQII", sequence, 1, 1, 0, offset, MANIFEST, 1408) + bytes(1408)


class Client:
    def __init__(self, number, server):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((f"127.0.0.{2 + number}", 0))
        self.socket.connect(server)
        self.socket.setblocking(False)
        self.kind = ("probes", "probes", "probes", "lists", "lists", "connections", "connections", "garbage", "garbage")[number]
        self.rng = random.Random(number)
        self.sequence = self.sent = self.reports = self.errors = 0

    def send(self, datagram):
        try:
            self.socket.send(datagram)
            self.sent += 1
        except OSError:
            pass

    def receive(self):
        while True:
            try:
                answer = self.socket.recv(2000)
            except OSError:
                return
            kind, connection = answer[1], struct.unpack_from("!Q", answer, 8)[0]
            self.reports += kind == REPORT
            self.errors += kind == ERROR
            if kind == COOKIE:
                files = 100000 if self.kind == "lists" else 1
                self.send(offer(connection, answer[28:52], files, files * 270))

    def act(self):
        self.receive()
        self.sequence += 1
        number = self.sequence % 64
        if self.kind == "garbage":
            for _ in range(5):
                self.send(self.rng.randbytes(self.rng.randrange(1500)))
                cut = hello(number)
                self.send(cut[:self.rng.randrange(1200)])
            return
        connections = 1000 if self.kind == "connections" else 64
        self.send(hello(self.sequence % connections))
        if self.kind == "probes":
            self.send(envelope(PROBE, number) + struct.pack("!QQII", self.sequence, 1, 1, 0))
        if self.kind == "lists":
            for i in range(4):
                self.send(data(self.sequence // 64 % 64, self.sequence * 4 + i + 1, (self.sequence * 4 + i) % 5000 * 1408))


clients = [Client(number, ("127.0.0.1", int(sys.argv[1]))) for number in range(9)]
end = time.monotonic() + float(sys.argv[2])
ready = False
while time.monotonic() < end:
    for client in clients:
        client.act()
    select.select([client.socket for client in clients], [], [], 0.001)
    if not ready and sum(client.reports for client in clients) > 300:
        ready = True
        print("ready", flush=True)
for client in clients:
    print(f"{client.kind}: {client.sent} sent, {client.reports} reports, {client.errors} errors", flush=True)
sys.exit(0 if ready else 1)
