#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""garbage.py frames DEVICE MAC SEED | garbage.py datagrams ADDRESS PORT SEED

Throws 25000 bad, random, mutated and flooding frames at the host with that MAC address, who has 10.77.0.12 and fd00:77::12,
or 20000 datagrams that are not quite ftx at a port. The same seed throws the same."""
import ipaddress
import random
import socket
import struct
import sys
import time

V4, V6 = ipaddress.ip_address("10.77.0.12").packed, ipaddress.ip_address("fd00:77::12").packed
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
ICMP, UDP, FRAGMENT, ICMPV6 = 1, 17, 44, 58


def internet_checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol, payload, source=b"\x0a\x4d\x00\x01", identification=0, fragment=0, options=b""):
    header = struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(payload), identification,
                         fragment, 64, protocol, 0, source, V4) + options
    return header[:10] + struct.pack("!H", internet_checksum(header)) + header[12:] + payload


def ipv6(protocol, payload, source, hops=255):
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, hops) + source + V6 + payload


def icmpv6(kind, body, source):
    message = struct.pack("!BBH", kind, 0, 0) + body
    pseudo = source + V6 + struct.pack("!II", len(message), ICMPV6)
    message = message[:2] + struct.pack("!H", internet_checksum(pseudo + message)) + message[4:]
    return ipv6(ICMPV6, message, source)


class Frames:
    """Each method answers (EtherType, packet)."""

    def __init__(self, rng):
        self.rng = rng

    def bytes(self, least, most):
        return self.rng.randbytes(self.rng.randint(least, most))

    def source6(self):
        return V6[:8] + self.rng.randbytes(8)

    def noise(self):
        return self.rng.choice((ARP, IPV4, IPV6, 0x88CC)), self.bytes(0, 1500)

    def arp(self):
        """A host that asks for us: it wants an entry in the neighbour cache."""
        sender = bytes((10, 77, 0, self.rng.randint(100, 250)))
        return ARP, struct.pack("!HHBBH6s4s6s4s", 1, IPV4, 6, 4, self.rng.choice((1, 2)),
                                b"\x02" + self.bytes(5, 5), sender, bytes(6), V4)

    def solicitation(self):
        """The same by neighbour discovery, from any of 2^64 addresses."""
        source, mac = self.source6(), b"\x02" + self.bytes(5, 5)
        return IPV6, icmpv6(135, bytes(4) + V6 + b"\1\1" + mac, source)

    def advertisement(self):
        source, mac = self.source6(), b"\x02" + self.bytes(5, 5)
        return IPV6, icmpv6(136, b"\x60\0\0\0" + self.source6() + b"\2\1" + mac, source)

    def fragment4(self):
        """Of a datagram that never becomes whole."""
        offset = self.rng.randint(0, 8191) | self.rng.choice((0, 0x2000))
        return IPV4, ipv4(UDP, self.bytes(8, 1480), identification=self.rng.randint(0, 65535), fragment=offset)

    def fragment6(self):
        place = self.rng.randint(0, 8191) << 3 | self.rng.choice((0, 1))
        header = struct.pack("!BBHI", UDP, 0, place, self.rng.getrandbits(32))
        return IPV6, ipv6(FRAGMENT, header + self.bytes(8, 1440), self.source6())

    def overlap4(self):
        """Few identifications and places: overlaps and duplicates."""
        return IPV4, ipv4(ICMP, self.bytes(8, 800), identification=self.rng.randint(0, 3),
                          fragment=self.rng.randint(0, 100) | 0x2000)

    def extensions(self):
        chain = b"".join(struct.pack("!BB6s", self.rng.choice((0, 43, 44, 50, 51, 60)), self.rng.randint(0, 3),
                                     self.bytes(6, 6)) for _ in range(self.rng.randint(1, 40)))
        return IPV6, ipv6(self.rng.choice((0, 43, 60)), chain, self.source6())

    def udp(self):
        datagram = struct.pack("!HHHH", 9, self.rng.randint(1, 65535), self.rng.randint(0, 80), self.rng.getrandbits(16))
        return IPV4, ipv4(UDP, datagram + self.bytes(0, 64), options=b"\x01" * 4 * self.rng.randint(0, 10))

    def icmp_error(self):
        quoted = ipv4(UDP, self.bytes(0, 40))
        message = struct.pack("!BBHI", self.rng.choice((3, 4, 5, 11, 12)), self.rng.randint(0, 15), 0,
                              self.rng.getrandbits(16)) + quoted
        message = message[:2] + struct.pack("!H", internet_checksum(message)) + message[4:]
        return IPV4, ipv4(ICMP, message)

    def runt_icmp(self):
        """An error message that sums up and is too short to quote anything."""
        message = bytes((self.rng.choice((3, 8, 11, 12)), 0, 0, 0)) + bytes(self.rng.randint(0, 3))
        return IPV4, ipv4(ICMP, message[:2] + struct.pack("!H", internet_checksum(message)) + message[4:])

    def mutated(self):
        """A good packet with a few wrong bytes, or cut off."""
        kind, packet = self.rng.choice((self.arp, self.solicitation, self.advertisement, self.fragment4, self.fragment6,
                                        self.udp, self.icmp_error, self.echo))()
        packet = bytearray(packet)
        for _ in range(self.rng.randint(1, 4)):
            packet[self.rng.randrange(min(len(packet), 64))] = self.rng.randrange(256)
        return kind, bytes(packet[:self.rng.choice((len(packet), len(packet), self.rng.randint(0, len(packet))))])

    def echo(self):
        message = struct.pack("!BBHI", 8, 0, 0, self.rng.getrandbits(32)) + b"ping" * 8
        return IPV4, ipv4(ICMP, message[:2] + struct.pack("!H", internet_checksum(message)) + message[4:])


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
    header = bytes.fromhex(mac.replace(":", "")) + bytes.fromhex("020000000099")
    plan = [make.noise] * 3000 + [make.mutated] * 8000 + [make.arp] * 2000 + [make.solicitation] * 3000 + \
        [make.advertisement] * 1000 + [make.fragment4] * 3000 + [make.fragment6] * 2000 + [make.overlap4] * 1000 + \
        [make.extensions] * 500 + [make.udp] * 1000 + [make.icmp_error] * 400 + \
        [make.runt_icmp] * 100
    make.rng.shuffle(plan)
    kinds = iter(plan)

    def throw():
        kind, packet = next(kinds)()
        link.send((header + struct.pack("!H", kind) + packet)[:1514].ljust(14, b"\0"))

    paced(throw, len(plan))
    return len(plan)


def throw_datagrams(address, port, seed):
    rng = random.Random(seed)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    endpoint = socket.socket(family, socket.SOCK_DGRAM)
    endpoint.setblocking(False)

    def datagram():
        kind = rng.randint(0, 9)
        envelope = struct.pack("!BBHIQ", rng.choice((1, 1, 1, 1, 0, 2)), kind, rng.choice((0, 0, 1, 7)), rng.getrandbits(32),
                               rng.getrandbits(64))
        if kind == 1 and rng.random() < 0.5:  # a HELLO as it should be: it asks for a cookie, and no more comes of it
            return struct.pack("!BBHIQQI", 1, 1, 0, 1, rng.getrandbits(64), rng.getrandbits(64), 1408).ljust(1200, b"\0")
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
