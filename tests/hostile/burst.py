#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""burst.py DEVICE NAMESPACE SEED PROGRAM ARGUMENT...

Bursts of 1 to 5,000 echo requests, and of datagrams to closed ports, at a host that is stopped while they come: each echo
is answered once, with no later frame to help; errors are as many as their rate allows."""
import random
import signal
import struct
import sys
import time

import frames as f
import trial
from trial import HOST4, HOST6, HOST_MAC, PEER4, PEER6, PEER_MAC

SIZES = [1, 63, 64, 65, 66, 200, 1000, 5000]
RANDOM_SIZES = 12


def request(number):
    body = struct.pack("!HHI", 0xB0, number & 0xFFFF, number)
    if number % 2:
        packet = f.ipv6(PEER6, HOST6, f.ICMP6, f.icmp6(PEER6, HOST6, 128, 0, body))
        return f.ethernet(HOST_MAC, PEER_MAC, f.IPV6, packet)
    return f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, HOST4, f.ICMP4, f.icmp4(8, 0, body)))


def throw(host, frames):
    process = host.program.process
    process.send_signal(signal.SIGSTOP)
    for number, frame in enumerate(frames):
        host.wire.send(frame)
        if number % 250 == 249:
            time.sleep(0.002)  # the kernel's backlog of a thousand frames is not what is tried here
    process.send_signal(signal.SIGCONT)


def answered(host, size):
    """The numbers of `size` answers, in any order, or of fewer."""
    numbers = []
    while len(numbers) < size:
        reply = host.wire.receive(trial.SECONDS_MAX)
        if reply is None:
            break
        if reply.type in (0, 129) and reply.body[:2] == b"\0\xb0":
            numbers.append(struct.unpack_from("!I", reply.body, 4)[0])
    return numbers


def main():
    device, namespace, seed, *arguments = sys.argv[1:]
    rng = random.Random(int(seed))
    print(f"seed {seed}")
    host = trial.Host(trial.Wire(device), arguments, namespace)
    host.begin()
    first = 0
    for size in SIZES + [rng.randint(1, 1 << rng.randint(1, 12)) for _ in range(RANDOM_SIZES)]:
        throw(host, [request(first + n) for n in range(size)])
        numbers = answered(host, size)
        if sorted(numbers) != list(range(first, first + size)):
            print(f"FAILED: of {size} echo requests {len(set(numbers))} were answered")
            return 1
        first += size
    closed = trial.datagram(b"x", 5000, 9)
    throw(host, [closed] * 1000)
    errors = []
    host.fence(errors.append)
    if not 20 <= len(errors) <= 120 or any((reply.type, reply.code) != (3, 3) for reply in errors):
        print(f"FAILED: 1000 datagrams to a closed port brought {len(errors)} errors")
        return 1
    status = host.program.end()
    print(f"{first} echo requests were answered; of 1000 datagrams to a closed port {len(errors)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
