# SPDX-License-Identifier: Apache-2.0
"""Somebody in the middle of a link: the kernel's host at one side, ours at the other, and every segment passes through his
hands. He may hold it back and let it go later, drop it, say it twice, change it, or say something in the name of either; so
a test needs no delays, and knows which state either end is in.

    link = open_link(4)       IPv4, or 6
    link.ends["ours"].ask("shut")   has an end (tcp_end.py) do a step, and answers; does(): which must not fail
    link.connect("kernel")    a connection that the kernel's host has called for
    link.policy               what becomes of a segment: a function that answers PASS, HOLD or DROP; None: PASS
    link.until(what, holds)   passes segments on until that holds, SECONDS_MAX at most
    link.release(matches)     lets those go that are held back; link.replay(segment) says one again
    link.seen                 all segments so far, in their order

Segments are what Segment says; sides are "kernel" and "ours"."""
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import random
import select
import socket
import struct
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "hostile"))

import frames  # noqa: E402  (in a folder of its own)

SECONDS_MAX = 60
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
PASS, HOLD, DROP = "pass", "hold", "drop"
OTHER = {"kernel": "ours", "ours": "kernel"}
SEQUENCE_NUMBERS = 1 << 32
ADDRESSES = {4: {"kernel": "10.77.0.1", "ours": "10.77.0.12"}, 6: {"kernel": "fd00:77::1", "ours": "fd00:77::12"}}
ESTABLISHED, SYN_SENT, SYN_RECEIVED, FIN_WAIT_1, FIN_WAIT_2, TIME_WAIT, CLOSED, CLOSE_WAIT, LAST_ACK, LISTEN, CLOSING = \
    range(1, 12)  # as TCP_INFO numbers them


def digest_of(seed, size):
    """Of the bytes that an end makes of that seed."""
    return hashlib.sha256(random.Random(seed).randbytes(size)).hexdigest()


def distance(from_number, to_number):
    """Signed, around the wrap."""
    return (to_number - from_number + SEQUENCE_NUMBERS // 2) % SEQUENCE_NUMBERS - SEQUENCE_NUMBERS // 2


@dataclasses.dataclass
class Segment:
    side: str  # whose it is
    ethernet: bytes
    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    sequence: int
    acknowledgment: int
    flags: int
    window: int
    options: bytes
    data: bytes
    frame: bytes = b""

    @classmethod
    def parse(cls, side, frame):
        """None where it is none."""
        kind = struct.unpack_from("!H", frame, 12)[0]
        if kind == frames.IPV4 and frame[23] == frames.TCP:
            begin = 14 + (frame[14] & 15) * 4
            source, destination = frame[26:30], frame[30:34]
            end = 14 + struct.unpack_from("!H", frame, 16)[0]
        elif kind == frames.IPV6 and frame[20] == frames.TCP:
            begin = 54
            source, destination = frame[22:38], frame[38:54]
            end = 54 + struct.unpack_from("!H", frame, 18)[0]
        else:
            return None
        *numbers, offset, flags, window = struct.unpack_from("!HHIIBBH", frame, begin)
        data = begin + (offset >> 4) * 4
        return cls(side, frame[:12], source, destination, *numbers, flags, window,
                   frame[begin + 20:data], frame[data:end], frame)

    @property
    def end(self):
        return (self.sequence + len(self.data) + bool(self.flags & SYN) + bool(self.flags & FIN)) % SEQUENCE_NUMBERS

    def has(self, *flags):
        return all(self.flags & flag for flag in flags)

    def changed(self, **fields):
        """One that says something else, and sums up."""
        made = dataclasses.replace(self, **fields)
        header = struct.pack("!HHIIBBHHH", made.source_port, made.destination_port, made.sequence % SEQUENCE_NUMBERS,
                             made.acknowledgment % SEQUENCE_NUMBERS, (20 + len(made.options)) << 2, made.flags, made.window, 0, 0)
        tcp = header + made.options + made.data
        tcp = frames.put_checksum(tcp, 16, None, frames.pseudo_header(made.source, made.destination, frames.TCP, len(tcp)))
        if len(made.source) == 4:
            packet = frames.ethernet(made.ethernet[:6], made.ethernet[6:], frames.IPV4,
                                     frames.ipv4(made.source, made.destination, frames.TCP, tcp, dont=True))
        else:
            packet = frames.ethernet(made.ethernet[:6], made.ethernet[6:], frames.IPV6,
                                     frames.ipv6(made.source, made.destination, frames.TCP, tcp))
        made.frame = packet
        return made

    def option(self, kind):
        """The value of an option; None where it is not there."""
        at = 0
        while at < len(self.options) and self.options[at] != 0:
            if self.options[at] == 1:
                at += 1
                continue
            if self.options[at] == kind:
                return self.options[at + 2:at + self.options[at + 1]]
            at += self.options[at + 1]
        return None

    def __str__(self):
        names = ",".join(name for name, flag in (("SYN", SYN), ("FIN", FIN), ("RST", RST), ("ACK", ACK)) if self.flags & flag)
        return f"{self.side}: {self.source_port}>{self.destination_port} {names} {self.sequence}+{len(self.data)} " \
               f"ack {self.acknowledgment} win {self.window}"


class End:
    def __init__(self, link, side, command):
        self.link, self.side = link, side
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answers = []
        self.text = b""

    def begin(self, *words):
        """A step whose answer is not waited for."""
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.process.stdin.flush()

    def answer(self, what="its answer", seconds=SECONDS_MAX):
        self.link.until(f"{self.side}: {what}", lambda: self.answers, seconds)
        return self.answers.pop(0)

    def ask(self, *words):
        self.begin(*words)
        return self.answer(words[0])

    def does(self, *words):
        """A step that must not fail."""
        answer = self.ask(*words)
        if isinstance(answer, dict):
            self.link.fail(f"{self.side}: {' '.join(map(str, words))}: {answer['error']}")
        return answer

    def read(self):
        part = self.process.stdout.read1(1 << 16)
        if not part:
            raise SystemExit(f"FAILED: {self.side}'s end has gone")
        self.text += part
        *lines, self.text = self.text.split(b"\n")
        self.answers += [json.loads(line) for line in lines]


class Link:
    def __init__(self, kernel_command, our_command, addresses):
        self.address = addresses
        self.ports = itertools.count(25000 if ":" in addresses["ours"] else 20000)
        self.first_port = 0
        self.sockets = {}
        for side, device in (("kernel", "to_a"), ("ours", "to_b")):
            one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
            one.bind((device, 0))
            one.setblocking(False)
            self.sockets[side] = one
        self.policy = None
        self.record = None  # a list: frames that have passed, and when
        self.seen = []
        self.held = []
        self.ends = {"kernel": End(self, "kernel", kernel_command), "ours": End(self, "ours", our_command)}

    def fail(self, why):
        print(f"FAILED: {why}; the last segments:")
        for segment in self.seen[-12:]:
            print(f"   {segment}")
        for segment in self.held:
            print(f"   held back: {segment}")
        raise SystemExit(1)

    def expect(self, what, holds):
        if not holds:
            self.fail(what)
        print(f"ok: {what}", flush=True)

    def until(self, what, holds, seconds=SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"{what} has not come within {seconds} s")
            self.turn()

    def passes(self, seconds):
        """Passes segments on for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.turn()

    def turn(self):
        readers = {one: side for side, one in self.sockets.items()}
        outputs = {end.process.stdout: end for end in self.ends.values()}
        for ready in select.select([*readers, *outputs], [], [], 0.01)[0]:
            if ready in outputs:
                outputs[ready].read()
                continue
            for _ in range(64):
                try:
                    frame, where = ready.recvfrom(1 << 16)
                except BlockingIOError:
                    break
                if where[2] != socket.PACKET_OUTGOING:
                    self.came(readers[ready], frame)

    def came(self, side, frame):
        segment = Segment.parse(side, frame)
        if segment is None or max(segment.source_port, segment.destination_port) < self.first_port:
            return self.put(OTHER[side], frame)
        self.seen.append(segment)
        verdict = self.policy(segment) if self.policy else PASS
        if verdict == HOLD:
            self.held.append(segment)
        elif verdict == PASS:
            if self.record is not None:
                self.record.append((time.time(), segment.frame))
            self.put(OTHER[side], segment.frame)

    def put(self, side, frame):
        try:
            self.sockets[side].send(frame)
        except BlockingIOError:
            pass  # lost, as links lose

    def release(self, matches=lambda segment: True):
        going = [segment for segment in self.held if matches(segment)]
        self.held = [segment for segment in self.held if not matches(segment)]
        for segment in going:
            self.replay(segment)

    def replay(self, segment):
        """Says it, as `segment.side`."""
        self.put(OTHER[segment.side], segment.frame)

    def find(self, side, *flags, since=0, **fields):
        """The segments of that side so far that have those flags and fields."""
        return [one for one in self.seen[since:] if one.side == side and one.has(*flags)
                and all(getattr(one, name) == value for name, value in fields.items())]

    # ---- Connections ----

    def port(self):
        """One that nobody has had."""
        return next(self.ports)

    def begin(self):
        """Whatever was before is over; what it has still to say is passed on unseen."""
        self.policy = None
        self.held.clear()
        for end in self.ends.values():
            end.ask("reset")
        self.passes(0.05)
        self.first_port = self.port()
        self.seen.clear()

    def connect(self, caller, local_port=None, **options):
        """The ports of who is called, and of the caller."""
        called = OTHER[caller]
        port, local_port = self.port(), local_port or self.port()
        self.ends[called].does("listen", self.address[called], port, 5)
        self.ends[caller].does("connect", self.address[called], port, local_port, *options.values())
        self.ends[caller].does("connected")
        self.ends[called].does("accept")
        return port, local_port

    def reaches(self, side, state):
        """With both ends released, TCP_INFO calls a socket of ours CLOSED: what its connection still does, segments show."""
        if side == "ours" and state in (CLOSING, LAST_ACK, TIME_WAIT):
            state = CLOSED
        deadline = time.monotonic() + SECONDS_MAX
        while (now := self.ends[side].ask("state")) != state:
            if time.monotonic() > deadline:
                self.fail(f"{side} is in state {now}, and not in {state}")
            self.passes(0.01)

    def exchanges(self, what, to_ours, to_kernel):
        """So many bytes go each way at the same time, and come whole."""
        sizes = {"kernel": (to_ours, to_kernel), "ours": (to_kernel, to_ours)}
        for side, (send, take) in sizes.items():
            self.ends[side].begin("exchange", f"{side}-{send}", send, take)
        for side, (_, take) in sizes.items():
            self.expect(f"{what}: what comes to {side} is what was sent",
                        self.ends[side].answer("the exchange") == digest_of(f"{OTHER[side]}-{take}", take))

    def sockets_of_kernel(self, state, port):
        """Those of that state, as ss(8) prints them, that have the port."""
        return subprocess.run(["ip", "netns", "exec", "host-a", "ss", "-Htan", "state", state, f"sport = :{port}"],
                              stdout=subprocess.PIPE, check=True, text=True).stdout

    def write_record(self, path):
        """As a file that tshark reads: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html"""
        with open(path, "wb") as file:
            file.write(struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 16, 1))
            for at, frame in self.record:
                file.write(struct.pack("=IIII", int(at), int(at % 1 * 1e6), len(frame), len(frame)) + frame)

    def end_all(self):
        for end in self.ends.values():
            end.process.stdin.close()
            end.process.wait(SECONDS_MAX)


def open_link(family):
    """Between the two hosts of tests/e2e/middle.sh."""
    end = str(TOP / "tests" / "e2e" / "tcp_end.py")
    return Link(["ip", "netns", "exec", "host-a", "python3", end],
                ["ip", "netns", "exec", "host-b", os.environ["SLUICE"], "exec", "--socket", os.environ["SOCKETS"],
                 "python3", end],
                ADDRESSES[family])
