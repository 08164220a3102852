#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""garbage.py frames DEVICE MAC SEED | garbage.py datagrams ADDRESS PORT SEED

Throws 25000 bad, random, mutated and flooding frames at the host with that MAC address, who has 10.77.0.12 and fd00:77::12,
or 20000 datagrams that are not quite ftx at a port. The same seed throws the same."""
import random
import socket
import struct
import sys
import time

import frames as f
import ftx

V4, V6 = f.address("10.77.0.12"), f.address("fd00:77::12")
PEER4 = f.address("10.77.0.1")


def ipv4(protocol, payload, **fields):
    return f.IPV4, f.ipv4(PEER4, V4, protocol, payload, **fields)


def ipv6(next_header, payload, source):
    return f.IPV6, f.ipv6(source, V6, next_header, payload)


def icmp6(kind, body, source):
    return ipv6(f.ICMP6, f.icmp6(source, V6, kind, 0, body), source)


class Frames:
    """Each method answers (EtherType, packet)."""

    def __init__(self, rng):
        self.rng = rng

    def bytes(self, least, most):
        return self.rng.randbytes(self.rng.randint(least, most))

    def source6(self):
        return V6[:8] + self.rng.randbytes(8)

    def station(self):
        return b"\x02" + self.bytes(5, 5)

    def noise(self):
        return self.rng.choice((f.ARP, f.IPV4, f.IPV6, 0x88CC)), self.bytes(0, 1500)

    def arp(self):
        """A host that asks for us: it wants an entry in the neighbour cache."""
        sender = bytes((10, 77, 0, self.rng.randint(100, 250)))
        return f.ARP, f.arp(self.station(), sender, bytes(6), V4, operation=self.rng.choice((1, 2)))

    def solicitation(self):
        """The same by neighbour discovery, from any of 2^64 addresses."""
        return icmp6(135, bytes(4) + V6 + f.link_address(1, self.station()), self.source6())

    def advertisement(self):
        return icmp6(136, b"\x60\0\0\0" + self.source6() + f.link_address(2, self.station()), self.source6())

    def fragment4(self):
        """Of a datagram that never becomes whole."""
        return ipv4(f.UDP, self.bytes(8, 1480), identification=self.rng.randint(0, 65535),
                    offset=self.rng.randint(0, 8191) * 8, more=self.rng.choice((False, True)))

    def fragment6(self):
        header = f.fragment6(f.UDP, self.rng.randint(0, 8191) << 3, self.rng.choice((0, 1)), self.rng.getrandbits(32))
        return ipv6(f.FRAGMENT, header + self.bytes(8, 1440), self.source6())

    def overlap4(self):
        """Few identifications and places: overlaps and duplicates."""
        return ipv4(f.ICMP4, self.bytes(8, 800), identification=self.rng.randint(0, 3),
                    offset=self.rng.randint(0, 100) * 8, more=True)

    def extensions(self):
        chain = b"".join(struct.pack("!BB6s", self.rng.choice((0, 43, 44, 50, 51, 60)), self.rng.randint(0, 3),
                                     self.bytes(6, 6)) for _ in range(self.rng.randint(1, 40)))
        return ipv6(self.rng.choice((0, 43, 60)), chain, self.source6())

    def udp(self):
        datagram = struct.pack("!HHHH", 9, self.rng.randint(1, 65535), self.rng.randint(0, 80), self.rng.getrandbits(16))
        return ipv4(f.UDP, datagram + self.bytes(0, 64), options=b"\x01" * 4 * self.rng.randint(0, 10))

    def icmp_error(self):
        quoted = f.ipv4(PEER4, V4, f.UDP, self.bytes(0, 40))
        word = struct.pack("!I", self.rng.getrandbits(16))
        return ipv4(f.ICMP4, f.icmp4(self.rng.choice((3, 4, 5, 11, 12)), self.rng.randint(0, 15), word + quoted))

    def runt_icmp(self):
        """An error message that sums up and is too short to quote anything."""
        return ipv4(f.ICMP4, f.icmp4(self.rng.choice((3, 8, 11, 12)), 0, bytes(self.rng.randint(0, 3))))

    def mutated(self):
        """A good packet with a few wrong bytes, or cut off."""
        kind, packet = self.rng.choice((self.arp, self.solicitation, self.advertisement, self.fragment4, self.fragment6,
                                        self.udp, self.icmp_error, self.echo))()
        packet = bytearray(packet)
        for _ in range(self.rng.randint(1, 4)):
            packet[self.rng.randrange(min(len(packet), 64))] = self.rng.randrange(256)
        return kind, bytes(packet[:self.rng.choice((len(packet), len(packet), self.rng.randint(0, len(packet))))])

    def echo(self):
        return ipv4(f.ICMP4, f.icmp4(8, 0, self.bytes(4, 4) + b"ping" * 8))


def paced(throw, count):
    """In bursts that a receive ring takes even on a busy machine."""
    for number in range(count):
        throw()
        if number % 50 == 49:
            time.sleep(0.002)


def throw_frames(device, mac, seed):
    make = Frames(random.Random(seed))
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((device, 0))
    destination, source = f.mac(mac), f.mac("02:00:00:00:00:99")
    plan = [make.noise] * 3000 + [make.mutated] * 8000 + [make.arp] * 2000 + [make.solicitation] * 3000 + \
        [make.advertisement] * 1000 + [make.fragment4] * 3000 + [make.fragment6] * 2000 + [make.overlap4] * 1000 + \
        [make.extensions] * 500 + [make.udp] * 1000 + [make.icmp_error] * 400 + \
        [make.runt_icmp] * 100
    make.rng.shuffle(plan)
    kinds = iter(plan)

    def throw():
        kind, packet = next(kinds)()
        link.send(f.ethernet(destination, source, kind, packet)[:1514])

    paced(throw, len(plan))
    return len(plan)


def throw_datagrams(address, port, seed):
    rng = random.Random(seed)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    endpoint = socket.socket(family, socket.SOCK_DGRAM)
    endpoint.setblocking(False)

    def datagram():
        kind = rng.randint(0, 9)
        envelope = ftx.envelope(kind, rng.getrandbits(64), rng.choice((3, 3, 3, 3, 0, 2)), rng.choice((0, 0, 1, 7)))
        if kind == 1 and rng.random() < 0.5:  # a HELLO as it should be: it asks for a cookie, and no more comes of it
            return ftx.hello(rng.getrandbits(64), rng.getrandbits(64))
        return rng.choice((envelope, b"")) + rng.randbytes(rng.choice((0, 8, 40, rng.randint(0, 1400))))

    def throw():
        try:
            endpoint.sendto(datagram(), (address, port))
            endpoint.recv(2048)
        except (BlockingIOError, ConnectionRefusedError):
            pass

    paced(throw, 20000)
    return 20000


def main():
    what, where, place, seed = sys.argv[1:]
    thrown = throw_frames(where, place, int(seed)) if what == "frames" else throw_datagrams(where, int(place), int(seed))
    print(f"{thrown} {what} with seed {seed}")


if __name__ == "__main__":
    main()
