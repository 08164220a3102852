#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""burst.py host|server DEVICE NAMESPACE SEED PROGRAM ARGUMENT...
burst.py bridge DEVICE,OTHER-DEVICE NAMESPACE SEED PROGRAM ARGUMENT...

Bursts of 1 to 5,000 frames at a program that is stopped while they come; each brings what it must, once, with no later
frame to help: of `sluice run` an echo reply, of `ftx serve` a COOKIE, also behind so many ICMP errors about what it sent, of
`sluice bridge` the frame on the other link. Errors about closed ports are as many as their rate allows."""
import random
import signal
import struct
import sys
import time

import frames as f
import ftx
import trial
from trial import HOST4, HOST6, HOST_MAC, PEER4, PEER6, PEER_MAC

SIZES = [1, 63, 64, 65, 66, 200, 1000, 5000]
RANDOM_SIZES = 12


def throw(target, frames):
    process = target.program.process
    process.send_signal(signal.SIGSTOP)
    for number, frame in enumerate(frames):
        target.wire.send(frame)
        if number % 250 == 249:
            time.sleep(0.002)  # the kernel's backlog of a thousand frames is not what is tried here
    process.send_signal(signal.SIGCONT)


class Echo:
    """Of `sluice run`, over either family."""
    make = trial.Host

    @staticmethod
    def request(number):
        body = struct.pack("!HHI", 0xB0, number & 0xFFFF, number)
        if number % 2:
            packet = f.ipv6(PEER6, HOST6, f.ICMP6, f.icmp6(PEER6, HOST6, 128, 0, body))
            return f.ethernet(HOST_MAC, PEER_MAC, f.IPV6, packet)
        return f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, HOST4, f.ICMP4, f.icmp4(8, 0, body)))

    @staticmethod
    def number(reply):
        if reply.type in (0, 129) and reply.body[:2] == b"\0\xb0":
            return struct.unpack_from("!I", reply.body, 4)[0]
        return None


class Cookie:
    """Of `ftx serve`."""
    make = trial.Server

    @staticmethod
    def request(number):
        return trial.datagram(ftx.hello(number), trial.Server.FENCE_PORT, trial.Server.PORT)

    @staticmethod
    def number(reply):
        if reply.kind == "udp" and len(reply.body) > 16 and reply.body[1] == ftx.COOKIE:
            return struct.unpack_from("!Q", reply.body, 3)[0]
        return None

    @staticmethod
    def error():
        """That nobody takes what it answered."""
        sent = f.ipv4(HOST4, PEER4, f.UDP, f.udp(HOST4, PEER4, bytes(40), trial.Server.PORT, trial.Server.FENCE_PORT))
        return f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, HOST4, f.ICMP4, f.icmp4(3, 3, bytes(4) + sent)))


class Frame:
    """Of `sluice bridge`."""
    make = trial.Bridge

    @staticmethod
    def request(number):
        return trial.datagram(b"burst %d" % number, 5000, 9)


def answered(kind, target, first, size):
    """The numbers of `size` answers, in any order, or of fewer."""
    if kind is Frame:
        came = target.come(target.wires[1], lambda came: len(came) >= size)
        number_of = {Frame.request(number): number for number in range(first, first + size)}
        return [number_of.get(frame, -1) for frame in came]
    numbers = []
    while len(numbers) < size:
        reply = target.wire.receive(trial.SECONDS_MAX)
        if reply is None:
            break
        if (number := kind.number(reply)) is not None:
            numbers.append(number)
    return numbers


def main():
    what, device, namespace, seed, *arguments = sys.argv[1:]
    kind = {"host": Echo, "server": Cookie, "bridge": Frame}[what]
    rng = random.Random(int(seed))
    print(f"seed {seed}")
    wires = [trial.Wire(name) for name in device.split(",")]
    target = kind.make(wires if len(wires) > 1 else wires[0], arguments, namespace)
    target.begin()
    first = 1_000_000  # none of the fences' numbers
    for size in SIZES + [rng.randint(1, 1 << rng.randint(1, 12)) for _ in range(RANDOM_SIZES)]:
        throw(target, [kind.request(first + n) for n in range(size)])
        numbers = answered(kind, target, first, size)
        if sorted(numbers) != list(range(first, first + size)):
            print(f"FAILED: of {size} in one burst {len(set(numbers))} brought what they must")
            return 1
        first += size
    if kind is Cookie:  # what stands behind errors comes when they have all been taken
        for size in SIZES:
            throw(target, [kind.error()] * size + [kind.request(first)])
            if answered(kind, target, first, 1) != [first]:
                print(f"FAILED: behind {size} errors a greeting brought nothing")
                return 1
            first += 1
    if kind is Echo:
        throw(target, [trial.datagram(b"x", 5000, 9)] * 1000)
        errors = []
        target.fence(errors.append)
        if not 20 <= len(errors) <= 120 or any((reply.type, reply.code) != (3, 3) for reply in errors):
            print(f"FAILED: 1000 datagrams to a closed port brought {len(errors)} errors of these types and codes: "
                  f"{sorted({(reply.type, reply.code) for reply in errors})}")
            return 1
        print(f"of 1000 datagrams to a closed port {len(errors)} brought an error")
    status = target.program.end()
    print(f"{first - 1_000_000} in bursts brought what they must")
    return status != target.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
