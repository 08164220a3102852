#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crowd.py PORT SECONDS TURNS: nine hostile clients of an ftx server on 127.0.0.1, from 127.0.0.2 to 127.0.0.10.

Each has so many turns a second; a turn of all nine is 38 datagrams. Three hold sessions with PROBEs, two announce huge
lists, two make a thousand connections each, two send garbage. Prints "ready" when the server has opened sessions for
them, and at the end what was sent."""
import random
import select
import socket
import struct
import sys
import time

import ftx


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

    def fileno(self):
        return self.socket.fileno()

    def receive(self):
        while True:
            try:
                answer = self.socket.recv(2000)
            except OSError:
                return
            kind, connection = answer[1], struct.unpack_from("!Q", answer, 3)[0]
            self.reports += kind == ftx.REPORT
            self.errors += kind == ftx.ERROR
            if kind == ftx.COOKIE:
                files = 100000 if self.kind == "lists" else 1
                self.send(ftx.offer(connection, answer[23:47], files, files * 270))

    def act(self):
        self.receive()
        self.sequence += 1
        number = self.sequence % 64
        if self.kind == "garbage":
            for _ in range(5):
                self.send(self.rng.randbytes(self.rng.randrange(1500)))
                cut = ftx.hello(number)
                self.send(cut[:self.rng.randrange(1200)])
            return
        connections = 1000 if self.kind == "connections" else 64
        self.send(ftx.hello(self.sequence % connections))
        if self.kind == "probes":
            self.send(ftx.probe(number, self.sequence))
        if self.kind == "lists":
            for i in range(4):
                self.send(ftx.data(self.sequence // 64 % 64, self.sequence * 4 + i + 1, (self.sequence * 4 + i) % 5000 * 1408))


clients = [Client(number, ("127.0.0.1", int(sys.argv[1]))) for number in range(9)]
turn = 1 / float(sys.argv[3])
end = time.monotonic() + float(sys.argv[2])
ready = False
while (began := time.monotonic()) < end:
    for client in clients:
        client.act()
    while (left := began + turn - time.monotonic()) > 0:
        for client in select.select(clients, [], [], left)[0]:
            client.receive()
    if not ready and sum(client.reports for client in clients) > 300:
        ready = True
        print("ready", flush=True)
for client in clients:
    print(f"{client.kind}: {client.sent} sent, {client.reports} reports, {client.errors} errors", flush=True)
sys.exit(0 if ready else 1)
