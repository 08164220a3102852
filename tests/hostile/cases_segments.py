# SPDX-License-Identifier: Apache-2.0
"""Offload headers that lie, and super-frames whose headers lie: what a sender on this host can hand to a device.

Linux refuses to send what contradicts the offload header alone (unknown types, a segment size of nothing, more segments than
UDP_MAX_SEGMENTS, a checksum that is not UDP's, a TCP header of under 20 bytes): those lies are told in tests/dlpi/offload_test.cc."""

import frames as f
from trial import HOST4, HOST6, HOST_MAC, PEER4, PEER6, PEER_MAC, Case

TEXT = "dlpi/super_frame.h: what a device says is not believed before it has been compared with the headers"
ELSEWHERE4, ELSEWHERE6 = f.address("10.77.0.99"), f.address("fd00:77::99")
HEADERS4 = {"header_length": 42, "start": 34}
HEADERS6 = {"header_length": 62, "start": 54}


def whole4(data=3000, to=HOST4, protocol=f.UDP, length=None, said=HEADERS4, size=1000, **fields):
    datagram = f.unfinished_udp(PEER4, to, bytes(data), length=length)
    frame = f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, to, protocol, datagram, **fields))
    return f.offloaded(frame, size=size, **said)


def whole6(data=3000, to=HOST6, length=None, payload_length=None, size=1000):
    datagram = f.unfinished_udp(PEER6, to, bytes(data), length=length)
    frame = f.ethernet(HOST_MAC, PEER_MAC, f.IPV6, f.ipv6(PEER6, to, f.UDP, datagram, length=payload_length))
    return f.offloaded(frame, size=size, **HEADERS6)


def super_frame_cases():
    for name, whole, to in (("IPv4", whole4, ELSEWHERE4), ("IPv6", whole6, ELSEWHERE6)):
        yield Case(f"{name}, three datagrams for another host", "each is dealt with for itself", [whole(to=to)],
                   ends={"ip.not_ours": 3})
        yield Case(f"{name}, 100 datagrams of one byte for another host", "each is dealt with for itself",
                   [whole(data=100, size=1, to=to)], ends={"ip.not_ours": 100})
        yield Case(f"{name}, segments above the MTU", "a frame above the link's MTU is none of this link's",
                   [whole(data=4000, size=2000)], ends={"link.oversize_frame": 2})
        for length in (0, 7, 8, 1008, 3007, 3009, 65535):
            yield Case(f"{name}, a UDP length of {length} for 3008", TEXT, [whole(length=length)],
                       ends="link.super_frame_malformed")
    for length in (0, 19, 28, 1028, 3027, 3029, 65535):
        yield Case(f"an IPv4 length of {length} for 3028", TEXT, [whole4(total_length=length)],
                   ends="link.super_frame_malformed")
    for length in (0, 8, 1008, 3007, 3009, 65535):
        yield Case(f"an IPv6 length of {length} for 3008", TEXT, [whole6(payload_length=length)], ends="link.super_frame_malformed")
    yield Case("IPv4 options", "segments get headers without options", [whole4(
        options=b"\1\1\1\1", said={"header_length": 46, "start": 38})], ends="link.super_frame_malformed")
    for fields in ({"more": True}, {"offset": 8}, {"offset": 65528}):
        yield Case(f"a fragment, {fields}", "a fragment has no datagrams of its own", [whole4(**fields)],
                   ends="link.super_frame_malformed")


def tcp4(data=3000, to=HOST4, size=1000, kind=1, **fields):
    segment = f.unfinished_tcp(PEER4, to, bytes(data), **fields)
    frame = f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, to, f.TCP, segment))
    return f.offloaded(frame, kind=kind, header_length=54, size=size, start=34, offset=16)


def tcp6(data=3000, to=HOST6, size=1000, kind=4, **fields):
    segment = f.unfinished_tcp(PEER6, to, bytes(data), **fields)
    frame = f.ethernet(HOST_MAC, PEER_MAC, f.IPV6, f.ipv6(PEER6, to, f.TCP, segment))
    return f.offloaded(frame, kind=kind, header_length=74, size=size, start=54, offset=16)


def tcp_cases():
    for name, whole, to in (("IPv4", tcp4, ELSEWHERE4), ("IPv6", tcp6, ELSEWHERE6)):
        yield Case(f"{name}, three segments of TCP for another host", "each is dealt with for itself", [whole(to=to)],
                   ends={"ip.not_ours": 3})
        yield Case(f"{name}, 1000 segments of one byte for another host", "each is dealt with for itself",
                   [whole(data=1000, size=1, to=to)], ends={"ip.not_ours": 1000})
        yield Case(f"{name}, segments of TCP above the MTU", "a frame above the link's MTU is none of this link's",
                   [whole(data=4000, size=2000)], ends={"link.oversize_frame": 2})
        for flags in (0x02, 0x12, 0x04, 0x14):
            yield Case(f"{name}, segments of TCP with the flags {flags:#x}", "RFC 9293 section 3.5: a SYN or a reset is one",
                       [whole(flags=flags)], ends="link.super_frame_malformed")


def partial_checksum_cases():
    datagram = f.unfinished_udp(PEER4, ELSEWHERE4, bytes(300))
    frame = f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, ELSEWHERE4, f.UDP, datagram))
    yield Case("a partial checksum, for another host", "virtio 1.2 section 5.1.6: the driver completes it",
               [f.offloaded(frame, kind=0, size=0, header_length=0)], ends="ip.not_ours")
    datagram = f.unfinished_udp(PEER4, HOST4, bytes(300))
    frame = f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, f.ipv4(PEER4, HOST4, f.UDP, datagram))
    for start, offset in ((300, 6), (34, 8), (335, 1)):
        yield Case(f"a partial checksum that is said to lie at {start} + {offset}", "what is summed is not the datagram",
                   [f.offloaded(frame, kind=0, size=0, header_length=0, start=start, offset=offset)],
                   ends={"ip.delivered": 1, "udp.bad_checksum": 1})


CASES = [*super_frame_cases(), *tcp_cases(), *partial_checksum_cases()]
