# SPDX-License-Identifier: Apache-2.0
"""A trial: the cases of a table are thrown, one by one, at a program in the other namespace.

No case waits for silence. Behind its frames goes a fence: something that the program must answer, or write, and does so
in the order of arrival. What it sent before the fence's answer is its reply to the case. So each case also shows that
the program is still there, and that it still knows its peer's true link address.
"""
import json
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass

import frames as f
import ftx

HOST_MAC, HOST4, HOST6 = f.mac("02:00:00:00:00:12"), f.address("10.77.0.12"), f.address("fd00:77::12")
PEER_MAC, PEER4, PEER6 = f.mac("02:00:00:00:00:01"), f.address("10.77.0.1"), f.address("fd00:77::1")
# RFC 4291 appendix A; peers answer for their link-local address, too.
HOST_LOCAL, PEER_LOCAL = f.address("fe80::ff:fe00:12"), f.address("fe80::ff:fe00:1")

ALL_NODES = f.address("ff02::1")
ANNOUNCED_AFTER = 2.5  # a host announces its addresses when its link comes up, and again two seconds later
SECONDS_MAX = 10  # for whatever is waited for


@dataclass
class Case:
    """What is sent, what must come back (in that order, nothing else), and under which counters the frames must end.

    `ends` maps MODULE.COUNTER to a number; a text stands for all frames. `link` is whatever driver is below. `text` is
    the sentence that asks for it."""
    name: str
    text: str
    frames: list
    replies: tuple = ()
    ends: object = None


@dataclass
class Want:
    """A reply: each field that is not None must be the same. `word` is the first after the ICMP checksum: a pointer, an
    MTU, or nothing."""
    kind: str
    type: int = None
    code: int = None
    source: bytes = None
    destination: bytes = None
    to: bytes = None
    hops: int = None
    word: int = None
    body: bytes = None

    def differs(self, reply):
        for name in ("kind", "type", "code", "source", "destination", "to", "hops", "body"):
            wanted = getattr(self, name)
            if wanted is not None and wanted != getattr(reply, name):
                return f"{name} is {getattr(reply, name)!r}, not {wanted!r}"
        if self.word is not None and self.word != struct.unpack_from("!I", reply.body)[0]:
            return f"the pointer, or MTU, is {struct.unpack_from('!I', reply.body)[0]}, not {self.word}"
        return None

    def is_icmp_error(self):
        return (self.kind == "icmp4" and self.type in (3, 11, 12)) or (self.kind == "icmp6" and self.type < 128)


class Wire:
    """The peer's end of the link: frames as they are. It answers whoever asks for the peer's link address."""

    # packet(7), Documentation/networking/packet_mmap.rst: a ring, since a burst of answers does not fit a socket's buffer.
    SOL_PACKET, PACKET_RX_RING, PACKET_VNET_HDR = 263, 5, 15
    SLOT_BYTES, SLOTS, BLOCK_BYTES = 2048, 8192, 1 << 16
    HEADER = struct.Struct("@LIIHH")  # struct tpacket_hdr: status, length, captured, where the frame begins
    PACKET_TYPE_AT = 32 + 10  # struct sockaddr_ll behind it

    def __init__(self, device):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        ring_bytes = self.SLOT_BYTES * self.SLOTS
        self.socket.setsockopt(self.SOL_PACKET, self.PACKET_RX_RING, struct.pack(
            "@IIII", self.BLOCK_BYTES, ring_bytes // self.BLOCK_BYTES, self.SLOT_BYTES, self.SLOTS))
        self.ring = mmap.mmap(self.socket.fileno(), ring_bytes)
        self.slot = 0
        self.socket.bind((device, 0))
        self.arp_answers = self.ndp_answers = 0
        self.offloading = None  # a socket for frames with an offload header

    def send(self, frame):
        if not isinstance(frame, f.Offloaded):
            self.socket.send(frame)
            return
        if self.offloading is None:
            self.offloading = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.offloading.bind(self.socket.getsockname()[:2])
            self.offloading.setsockopt(self.SOL_PACKET, self.PACKET_VNET_HDR, 1)
        self.offloading.send(frame.header + frame)

    def next_frame(self):
        """The next one in the ring and whether the link brought it, or None."""
        at = self.slot * self.SLOT_BYTES
        status, _, captured, start, _ = self.HEADER.unpack_from(self.ring, at)
        if not status & 1:
            return None
        frame = self.ring[at + start:at + start + captured]
        from_link = self.ring[at + self.PACKET_TYPE_AT] != socket.PACKET_OUTGOING
        struct.pack_into("@L", self.ring, at, 0)
        self.slot = (self.slot + 1) % self.SLOTS
        return frame, from_link

    def receive(self, seconds):
        """The host's next frame that is a reply to somebody, or None."""
        until = time.monotonic() + seconds
        while True:
            found = self.next_frame()
            if found is None:
                ready, _, _ = select.select([self.socket], [], [], max(0.0, until - time.monotonic()))
                if not ready:
                    return None
                continue
            frame, from_link = found
            if not from_link or frame[6:12] != HOST_MAC:
                continue
            reply = f.parse(frame)
            if not self.of_its_own(reply):
                return reply

    def of_its_own(self, reply):
        """Whether the host sent that for itself: it looks for somebody, announces itself, or tells of its groups."""
        if reply.kind == "arp" and reply.type == 1:
            if reply.destination == PEER4:
                self.arp_answers += 1
                self.send(f.ethernet(HOST_MAC, PEER_MAC, f.ARP, f.arp(PEER_MAC, PEER4, HOST_MAC, HOST4, operation=2)))
            return True
        if reply.kind == "icmp6" and reply.type == 135:
            target = reply.body[4:20]
            if target in (PEER6, PEER_LOCAL):
                self.ndp_answers += 1
                self.send(advertisement(target, reply.source))
            return True
        return reply.kind == str(f.IGMP) or (reply.kind == "icmp6" and reply.type in (131, 132, 133, 143))


def is_announcement(reply):
    return reply.kind == "icmp6" and reply.type == 136 and reply.destination == ALL_NODES


def advertisement(target, destination):
    body = struct.pack("!I", 0x6000_0000) + target + f.link_address(2, PEER_MAC)  # solicited, override
    message = f.icmp6(target, destination, 136, 0, body)
    return f.ethernet(HOST_MAC, PEER_MAC, f.IPV6, f.ipv6(target, destination, f.ICMP6, message))


class Program:
    """What is tried. The trial ends it."""

    def __init__(self, arguments, namespace):
        self.process = subprocess.Popen(["ip", "netns", "exec", namespace] + arguments, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.text = b""

    def read_until(self, wanted):
        """Reads on until wanted(all that is new) answers something; that."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            found = wanted(self.text)
            if found is not None:
                return found
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                what = "is silent" if ready == [] else "ended"
                raise RuntimeError(f"the program {what}:\n" + self.text.decode(errors="replace")[-2000:])
            self.text += more

    def wait_for(self, text):
        def found(printed):
            at = printed.find(text)
            return None if at < 0 else at + len(text)
        self.text = self.text[self.read_until(found):]

    def end(self):
        """Interrupts it, if it still runs; its exit code. What it wrote meanwhile is in `text`."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.text += self.process.communicate(timeout=SECONDS_MAX)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.process.returncode


class Target:
    """A program under trial. Subclasses say how a fence is asked for and recognised."""
    FENCES_MAX = 6
    INTERRUPTED = 0  # the exit code

    def __init__(self, wire, arguments, namespace, ready):
        self.wire = wire
        self.program = Program(arguments, namespace)
        self.program.wait_for(ready)
        self.sequence = 0
        self.said = b""  # of its own, before the fences
        self.sent = 0  # fences since the counters were last looked at

    def ask(self, collect):
        """Sends a fence and hands all frames that come before its answer to `collect`."""
        wire_answer = self.question()
        while True:
            reply = self.wire.receive(SECONDS_MAX)
            if reply is None:
                raise RuntimeError("the program does not answer any more")
            if wire_answer(reply):
                break
            collect(reply)
        if reply.to != PEER_MAC:
            raise RuntimeError(f"the program takes its peer for {reply.to.hex(':')}")

    def fence(self, collect):
        """One fence is not enough: within a burst, an echo is answered before UDP has seen what came earlier."""
        for count in range(self.FENCES_MAX):
            answers = (self.wire.arp_answers, self.wire.ndp_answers)
            self.sequence += 1
            self.sent += 1
            self.ask(collect)
            if count > 0 and answers == (self.wire.arp_answers, self.wire.ndp_answers):
                return  # else what the wire answered comes behind the fence
        raise RuntimeError("the program asks for its peer again and again")

    def begin(self):
        for frame in (f.ethernet(f.BROADCAST_MAC, PEER_MAC, f.ARP, f.arp(PEER_MAC, PEER4, b"\0" * 6, HOST4)),
                      advertisement(PEER6, HOST6)):
            self.wire.send(frame)
        self.fence(lambda reply: None)

    def gives(self, want):
        """Whether that reply is this program's to give: it is not the host, and answers for its addresses only."""
        return want.kind == "arp" or (want.kind == "icmp6" and want.type == 136)

    def differs(self, case):
        """What is wrong besides the replies."""
        return None


def datagram(payload, source_port, port):
    packet = f.ipv4(PEER4, HOST4, f.UDP, f.udp(PEER4, HOST4, payload, source_port, port))
    return f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, packet)


class Listener(Target):
    """`sluice nc -l`: writes what it receives."""
    PORT = 4000

    def __init__(self, wire, arguments, namespace):
        super().__init__(wire, arguments, namespace, b"listening")

    def ask(self, collect):
        text = b"fence %d;" % self.sequence
        self.wire.send(datagram(text, 5000, self.PORT))

        def datagrams(seen):  # what it says of its own, on standard error, is none
            rest = re.sub(rb"sluice: [^\n]*\n", b"", seen)
            return rest.strip() if rest.endswith(text) else None
        printed = self.program.read_until(datagrams)
        self.said += b"".join(re.findall(rb"sluice: [^\n]*\n", self.program.text))
        self.program.text = b""
        if printed != text:
            raise RuntimeError(f"it wrote {printed!r}, not {text!r}")
        while (reply := self.wire.receive(0)) is not None:
            collect(reply)


class Server(Target):
    """`ftx serve`: answers each HELLO with a COOKIE."""
    PORT, FENCE_PORT = 7070, 5999
    INTERRUPTED = 130

    def __init__(self, wire, arguments, namespace):
        super().__init__(wire, arguments, namespace, b"listening")

    def question(self):
        self.wire.send(datagram(ftx.hello(self.sequence), self.FENCE_PORT, self.PORT))
        return lambda reply: reply.kind == "udp" and ftx.is_cookie(reply.body, self.sequence)

    def gives(self, want):
        return super().gives(want) or want.kind == "udp"


class Host(Target):
    """`sluice run`: answers echo requests, and counts."""
    LEFT_TO_THE_KERNEL = frozenset()  # counters of frames that the link's filter may not take

    def __init__(self, wire, arguments, namespace):
        super().__init__(wire, arguments, namespace, b"running")
        self.before = {}

    def question(self):
        body = struct.pack("!HHI", 0xFE2C, self.sequence & 0xFFFF, self.sequence)
        packet = f.ipv4(PEER4, HOST4, f.ICMP4, f.icmp4(8, 0, body))
        self.wire.send(f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, packet))
        return lambda reply: reply.kind == "icmp4" and reply.type == 0 and reply.body == body

    def gives(self, want):
        return want.kind != "udp"

    def begin(self):
        super().begin()
        self.counters()
        self.sent = self.wire.arp_answers = self.wire.ndp_answers = 0

    def counters(self):
        """MODULE.COUNTER to what was added since the last call."""
        self.program.text = b""
        self.program.process.send_signal(signal.SIGUSR1)
        line = self.program.read_until(lambda text: text if text.endswith(b"]}\n") else None)
        modules = json.loads(line.splitlines()[-1])["modules"]
        now = {}
        for module in modules:
            name = "link" if module is modules[-1] else module["name"]
            now.update({f"{name}.{counter}": value for counter, value in module["counters"].items()})
        added = {name: value - self.before.get(name, 0) for name, value in now.items()}
        self.before = now
        return {name: value for name, value in added.items() if value}

    def differs(self, case):
        added = self.counters()
        expected = {case.ends: len(case.frames)} if isinstance(case.ends, str) else dict(case.ends)
        for name in self.LEFT_TO_THE_KERNEL & expected.keys() - added.keys():
            del expected[name]
        own = {"ip.echo_answered": self.sent, "ip.arp_noted": self.wire.arp_answers,
               "ip.ndp_noted": self.wire.ndp_answers}
        self.sent = self.wire.arp_answers = self.wire.ndp_answers = 0
        for name, value in own.items():
            expected[name] = expected.get(name, 0) + value
        return "; ".join(f"{name} rose by {added.get(name, 0)}, not {expected.get(name, 0)}"
                         for name in sorted(ENDS | expected.keys()) if added.get(name, 0) != expected.get(name, 0))


class Bridge(Target):
    """`sluice bridge`: what is sent on either link comes out on the other."""

    def __init__(self, wires, arguments, namespace):
        super().__init__(wires[0], arguments, namespace, b"bridging")
        self.wires = wires

    def begin(self):
        self.fence(None)

    def fence(self, collect):
        for one, other in (self.wires, self.wires[::-1]):
            self.sequence += 1
            frame = datagram(b"fence %d" % self.sequence, 5000, 9)
            one.send(frame)
            if frame not in self.come(other, lambda came: frame in came):
                raise RuntimeError("the bridge lets nothing through")

    @staticmethod
    def come(wire, enough):
        """What the link brings, until that is enough or nothing more comes."""
        came = []
        until = time.monotonic() + SECONDS_MAX
        while not enough(came):
            found = wire.next_frame()
            if found and found[1]:
                came.append(found[0])
            if found is None and not select.select([wire.socket], [], [], max(0.0, until - time.monotonic()))[0]:
                break
        return came


class SharingHost(Host):
    """`sluice run` over packet, at the station of the interface: what is to one host, which is not ours, is the kernel's."""
    LEFT_TO_THE_KERNEL = frozenset({"ip.not_ours"})


class FilteredHost(Host):
    """`sluice run` over xdp."""
    LEFT_TO_THE_KERNEL = frozenset({"link.unclaimed", "link.not_ours", "link.llc_frame", "link.vlan_frame"})


def ends():
    """Counters under which frames end: a case names each one that rises."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "stack", "modules", "ip_counters.h")) as header:
        listed = re.search(r"auto ends\(\) const \{(.*?)\}", header.read(), re.DOTALL)[1]
    more = {"ip": "reassembled icmp_errors_limited icmp_errors_unquotable path_mtu_lowered",
            "udp": "received malformed short_header bad_length bad_checksum zero_checksum not_my_port port_unreachable "
                   "errors foreign_error unexpected no_memory",
            "link": "unclaimed not_ours short_frame llc_frame vlan_frame oversize_frame flow_dropped no_memory "
                    "kernel_dropped checksum_unknown super_frame_dropped super_frame_malformed"}
    return {f"ip.{name}" for name in re.findall(r"&(\w+)", listed)} | {
        f"{module}.{name}" for module, names in more.items() for name in names.split()}


ENDS = ends()


def quotes(reply, case):
    """Whether an ICMP error holds the start of what was sent. RFC 1122 section 3.2.2: "at least the first 8 data octets of
    the datagram"; "this header (and data) MUST be unchanged". RFC 4443 section 3.1: "As much of invoking packet as possible
    without the ICMPv6 packet exceeding the minimum IPv6 MTU"."""
    quoted = reply.body[4:]
    for frame in case.frames:
        packet = frame[14:]
        if packet.startswith(quoted):
            rest = len(packet) if reply.kind == "icmp4" else min(len(packet), 1280 - 48)
            return len(quoted) >= min(rest, 28 if reply.kind == "icmp4" else rest)
    return False


def differs(case, replies):
    """What is wrong with the replies."""
    problems = [f"{reply}: {wrong} is wrong" for reply in replies for wrong in reply.wrong]
    for want, reply in zip(case.replies, replies):
        problem = want.differs(reply)
        if problem is None and want.is_icmp_error() and not quotes(reply, case):
            problem = "it does not quote what was sent"
        if problem:
            problems.append(f"{reply}: {problem}")
    problems += [f"not expected: {reply}" for reply in replies[len(case.replies):]]
    problems += [f"missing: {want}" for want in case.replies[len(replies):]]
    return problems


def run(target, cases):
    """Throws all cases, prints what fails, and answers how many did."""
    target.begin()
    time.sleep(ANNOUNCED_AFTER)
    target.begin()
    failed = 0
    for number, case in enumerate(cases):
        replies = []
        try:
            for frame in case.frames:
                target.wire.send(frame)
            target.fence(replies.append)
        except (RuntimeError, OSError) as error:
            print(f"FAILED: {case.name}: {error}", flush=True)
            return failed + 1
        if not any(want.destination == ALL_NODES for want in case.replies):
            replies = [reply for reply in replies if not is_announcement(reply)]  # somebody had claimed the address
        wanted = Case(case.name, case.text, case.frames, tuple(filter(target.gives, case.replies)), case.ends)
        problems = differs(wanted, replies) + list(filter(None, [target.differs(wanted)]))
        if problems:
            failed += 1
            print(f"FAILED: {number}: {case.name}\n  {case.text}\n  " + "\n  ".join(problems), flush=True)
        # A host limits its errors to 100 a second (RFC 4443 section 2.4 (f)).
        time.sleep(0.011 * sum(want.is_icmp_error() for want in wanted.replies))
    return failed
