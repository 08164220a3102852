# SPDX-License-Identifier: Apache-2.0
"""tcp_end.py: one end of a TCP connection, of whichever stack its sockets are. Does what each line of standard input says,
and answers it with one line of JSON: the value, or {"error": ERRNO'S NAME}.

    listen PORT BACKLOG       then accept: the next caller is the connection
    connect ADDRESS PORT FROM [NUMBER]   begins to connect, from that port, and with that first sequence number
    connected                 waits for the end of that
    insist ADDRESS PORT N     connects again and again, N times at most, until it is not refused
    exchange SEED SEND TAKE   sends so many bytes of that seed, and takes so many at the same time; the digest of these
    singly SEED SEND          sends so many bytes, each by itself and without delay
    take N                    takes so many; their digest
    state                     of the connection, as TCP_INFO numbers them
    failure_now               what the connection has failed with (SO_ERROR); null where it has not
    shut, reset, close        ends sending; closes with a reset (SO_LINGER 0); closes
    set_buffers SEND RECEIVE  of sockets made from now on

The first sequence number is chosen by TCP_REPAIR, which the kernel's sockets alone have."""
import errno
import hashlib
import json
import random
import select
import socket
import struct
import sys
import time

SECONDS_MAX = 70
CHUNK_BYTES = 1 << 16
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, SEND_QUEUE, REPAIR_OFF_WITHOUT_PROBE = 19, 20, 21, 2, -1


def bytes_of(seed, size):
    return random.Random(seed).randbytes(size)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class End:
    def __init__(self):
        self.listener = None
        self.connection = None
        self.buffers = None

    def made(self, address):
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.buffers:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.buffers[0])
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffers[1])
        one.settimeout(SECONDS_MAX)
        return one

    def listen(self, address, port, backlog):
        if self.listener:
            self.listener.close()
        self.listener = self.made(address)
        self.listener.bind((address, int(port)))
        self.listener.listen(int(backlog))

    def accept(self):
        self.connection, peer = self.listener.accept()
        self.connection.settimeout(SECONDS_MAX)
        return peer[1]

    def connect(self, address, port, local_port, first_number=None):
        self.connection = self.made(address)
        self.connection.bind(("", int(local_port)))
        if first_number is not None:
            self.connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            self.connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, SEND_QUEUE)
            self.connection.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("I", int(first_number)))
            self.connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF_WITHOUT_PROBE)
        self.connection.setblocking(False)
        status = self.connection.connect_ex((address, int(port)))
        if status not in (0, errno.EINPROGRESS):
            raise OSError(status, "connect")

    def connected(self):
        select.select([], [self.connection], [], SECONDS_MAX)
        status = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, "connect")
        self.connection.settimeout(SECONDS_MAX)

    def insist(self, address, port, times):
        for count in range(1, int(times) + 1):
            self.connection = self.made(address)
            try:
                self.connection.connect((address, int(port)))
                return count
            except ConnectionRefusedError:
                self.connection.close()
        raise OSError(errno.ETIMEDOUT, "always refused")

    def exchange(self, seed, send, take):
        rest = memoryview(bytes_of(seed, int(send)))
        taken = bytearray()
        self.connection.setblocking(False)
        while rest or len(taken) < int(take):
            reads = [self.connection] if len(taken) < int(take) else []
            readable, writable, _ = select.select(reads, [self.connection] if rest else [], [], SECONDS_MAX)
            if not readable and not writable:
                raise OSError(errno.ETIMEDOUT, "exchange")
            if readable:
                part = self.connection.recv(min(CHUNK_BYTES, int(take) - len(taken)))
                if not part:
                    raise OSError(errno.ENODATA, "exchange")
                taken += part
            if writable:
                rest = rest[self.connection.send(rest[:CHUNK_BYTES]):]
        self.connection.settimeout(SECONDS_MAX)
        return digest(taken)

    def take(self, size):
        return self.exchange("", 0, size)

    def singly(self, seed, send):
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in bytes_of(seed, int(send)):
            self.connection.sendall(bytes([byte]))
            time.sleep(0.001)

    def state(self):
        return self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0]

    def failure_now(self):
        status = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return errno.errorcode[status] if status else None

    def shut(self):
        self.connection.shutdown(socket.SHUT_WR)

    def reset(self):
        if self.connection:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def close(self):
        self.connection.close()

    def set_buffers(self, send, receive):
        self.buffers = int(send), int(receive)


def main():
    end = End()
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            answer = getattr(end, name)(*arguments)
        except socket.timeout:
            answer = {"error": "ETIMEDOUT"}
        except OSError as error:  # one that was closed says EBADF
            answer = {"error": errno.errorcode.get(error.errno, str(error))}
        print(json.dumps(answer), flush=True)


main()
