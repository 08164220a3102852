# SPDX-License-Identifier: Apache-2.0
"""Frames built from their fields, and replies taken apart again.

Every function builds what is right; whoever wants it wrong names the field. A length or checksum that is None is
computed. Addresses are packed bytes, all numbers in host order.
"""
import ipaddress
import struct
from dataclasses import dataclass, field

ARP, IPV4, IPV6, VLAN = 0x0806, 0x0800, 0x86DD, 0x8100
HOP_BY_HOP, ICMP4, IGMP, TCP, UDP, ROUTING, FRAGMENT, ICMP6, NO_NEXT, DESTINATION = 0, 1, 2, 6, 17, 43, 44, 58, 59, 60
BROADCAST_MAC = b"\xff" * 6


def address(text):
    return ipaddress.ip_address(text).packed


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def group_mac(group):
    """RFC 1112 section 6.4, RFC 2464 section 7."""
    if len(group) == 4:
        return b"\x01\x00\x5e" + bytes([group[1] & 0x7F]) + group[2:]
    return b"\x33\x33" + group[12:]


def solicited_node(target):
    """RFC 4291 section 2.7.1."""
    return address("ff02::1:ff00:0")[:13] + target[13:]


def checksum(data):
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def put_checksum(data, at, value=None, pseudo=b""):
    value = checksum(pseudo + data) if value is None else value
    return data[:at] + struct.pack("!H", value) + data[at + 2:]


def pseudo_header(source, destination, protocol, length):
    """RFC 768, RFC 8200 section 8.1."""
    form = "!BBH" if len(source) == 4 else "!I3xB"
    fields = (0, protocol, length) if len(source) == 4 else (length, protocol)
    return source + destination + struct.pack(form, *fields)


def ethernet(destination, source, kind, payload):
    return destination + source + struct.pack("!H", kind) + payload


def arp(sender_mac, sender, target_mac, target, operation=1, hardware=1, protocol=IPV4, hardware_size=6, protocol_size=4):
    return struct.pack("!HHBBH", hardware, protocol, hardware_size, protocol_size, operation) + \
        sender_mac + sender + target_mac + target


def ipv4(source, destination, protocol, payload, ttl=64, identification=1, offset=0, more=False, dont=False, reserved=False,
         options=b"", version=4, header_length=None, total_length=None, header_checksum=None, tos=0):
    """`offset` in bytes."""
    options += b"\0" * (-len(options) % 4)
    header_length = 20 + len(options) if header_length is None else header_length
    total_length = 20 + len(options) + len(payload) if total_length is None else total_length
    flags = offset // 8 | more << 13 | dont << 14 | reserved << 15
    header = struct.pack("!BBHHHBBH4s4s", version << 4 | header_length // 4, tos, total_length, identification, flags, ttl,
                         protocol, 0, source, destination) + options
    return put_checksum(header, 10, header_checksum) + payload


def ipv6(source, destination, next_header, payload, hops=255, flow=0, traffic_class=0, length=None, version=6):
    length = len(payload) if length is None else length
    return struct.pack("!IHBB", version << 28 | traffic_class << 20 | flow, length, next_header, hops) + \
        source + destination + payload


def options6(next_header, options, size=None):
    """A hop-by-hop or destination options header; RFC 8200 section 4.2 says how to fill it up: Pad1, PadN."""
    missing = -(len(options) + 2) % 8
    options += b"\0" if missing == 1 else struct.pack("!BB", 1, missing - 2) + b"\0" * (missing - 2) if missing else b""
    return struct.pack("!BB", next_header, (len(options) + 2) // 8 - 1 if size is None else size) + options


def option6(kind, data=b"\0\0"):
    return struct.pack("!BB", kind, len(data)) + data


def routing6(next_header, kind=0, left=1, addresses=(), size=None):
    return struct.pack("!BBBBI", next_header, 2 * len(addresses) if size is None else size, kind, left, 0) + \
        b"".join(addresses)


def fragment6(next_header, offset, more, identification=1):
    return struct.pack("!BBHI", next_header, 0, offset & ~7 | more, identification)


def udp(source, destination, payload, source_port=4000, port=9, length=None, value=None):
    length = 8 + len(payload) if length is None else length
    datagram = struct.pack("!HHHH", source_port, port, length, 0) + payload
    return put_checksum(datagram, 6, value, pseudo_header(source, destination, UDP, len(datagram)))


def icmp4(kind, code, body, value=None):
    return put_checksum(struct.pack("!BBH", kind, code, 0) + body, 2, value)


def icmp6(source, destination, kind, code, body, value=None):
    message = struct.pack("!BBH", kind, code, 0) + body
    return put_checksum(message, 2, value, pseudo_header(source, destination, ICMP6, len(message)))


def link_address(kind, value):
    """RFC 4861 section 4.6.1: a source (1) or target (2) link-layer address option."""
    return struct.pack("!BB", kind, 1) + value


class Offloaded(bytes):
    """A frame, and in `header` what a sender on this host says of it: struct virtio_net_hdr."""


def offloaded(frame, flags=1, kind=5, header_length=42, size=1000, start=34, offset=6):
    """By default a UDP super-frame over IPv4 (VIRTIO_NET_HDR_GSO_UDP_L4) whose checksum is left to the device."""
    result = Offloaded(frame)
    result.header = struct.pack("=BBHHHH", flags, kind, header_length, size, start, offset)
    return result


def unfinished_tcp(source, destination, payload, offset=5, flags=0x10):
    """A segment from port 9 to port 9 as one left to a device is, whose header has `offset` words."""
    pseudo = pseudo_header(source, destination, TCP, 20 + len(payload))
    header = struct.pack("!HHIIBBHHH", 9, 9, 1000, 0, offset << 4, flags, 500, 0xFFFF & ~checksum(pseudo), 0)
    return header + payload


def unfinished_udp(source, destination, payload, port=9, length=None):
    """Its checksum field holds the sum of the pseudo-header, as one left to a device does."""
    pseudo = pseudo_header(source, destination, UDP, 8 + len(payload))
    return udp(source, destination, payload, port=port, length=length, value=0xFFFF & ~checksum(pseudo))


@dataclass
class Reply:
    """What the host sent. `kind` is arp, icmp4, icmp6, udp, or the protocol's number."""
    kind: str
    frame: bytes
    to: bytes = b""
    source: bytes = b""
    destination: bytes = b""
    type: int = -1
    code: int = -1
    hops: int = -1
    body: bytes = b""  # after the ICMP checksum, or the UDP payload
    wrong: list = field(default_factory=list)

    def __str__(self):
        def text(packed):
            return str(ipaddress.ip_address(packed)) if len(packed) in (4, 16) else packed.hex()
        numbers = "" if self.type < 0 else f" type {self.type} code {self.code}"
        return f"{self.kind}{numbers} from {text(self.source)} to {text(self.destination)}, {self.body[:16].hex()}..."


def parse(frame):
    """Takes a frame apart and sums up what has sums; what does not hold is named in `wrong`."""
    kind = struct.unpack_from("!H", frame, 12)[0]
    packet = frame[14:]
    reply = Reply("0x%04x" % kind, frame, to=frame[:6])
    if kind == ARP:
        reply.kind = "arp"
        reply.type = struct.unpack_from("!H", packet, 6)[0]
        reply.source, reply.destination, reply.body = packet[14:18], packet[24:28], packet[8:28]
        return reply
    if kind == IPV4:
        size = (packet[0] & 15) * 4
        protocol, total = packet[9], struct.unpack_from("!H", packet, 2)[0]
        reply.source, reply.destination, reply.hops = packet[12:16], packet[16:20], packet[8]
        if checksum(packet[:size]) != 0:
            reply.wrong.append("IPv4 header checksum")
        payload = packet[size:total]
    elif kind == IPV6:
        length, protocol, reply.hops = struct.unpack_from("!HBB", packet, 4)
        reply.source, reply.destination = packet[8:24], packet[24:40]
        payload = packet[40:40 + length]
        if protocol == HOP_BY_HOP:
            size = (payload[1] + 1) * 8
            protocol, payload = payload[0], payload[size:]
    else:
        return reply
    pseudo = pseudo_header(reply.source, reply.destination, protocol, len(payload))
    if protocol in (ICMP4, ICMP6):
        reply.kind, reply.type, reply.code, reply.body = f"icmp{4 if protocol == ICMP4 else 6}", payload[0], payload[1], payload[4:]
        if checksum((pseudo if protocol == ICMP6 else b"") + payload) != 0:
            reply.wrong.append("ICMP checksum")
    elif protocol == UDP:
        reply.kind, reply.body = "udp", payload[8:]
        if payload[6:8] != b"\0\0" and checksum(pseudo + payload) != 0:
            reply.wrong.append("UDP checksum")
    else:
        reply.kind, reply.body = str(protocol), payload
    return reply
