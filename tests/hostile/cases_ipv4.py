# SPDX-License-Identifier: Apache-2.0
"""IPv4 and its fragments, ICMP, and UDP over it."""
import struct

import frames as f
from trial import HOST4, HOST_MAC, PEER4, PEER_MAC, Case, Want

ABC = bytes(range(256)) * 8


def packet(protocol=f.ICMP4, payload=None, source=PEER4, destination=HOST4, to=HOST_MAC, **fields):
    payload = f.icmp4(8, 0, b"\0\7\0\1abcdefgh") if payload is None else payload
    return f.ethernet(to, PEER_MAC, f.IPV4, f.ipv4(source, destination, protocol, payload, **fields))


def reply(body=b"\0\7\0\1abcdefgh"):
    return Want("icmp4", 0, 0, source=HOST4, destination=PEER4, to=PEER_MAC, body=body)


def error(kind, code, word=0):
    return Want("icmp4", kind, code, source=HOST4, destination=PEER4, to=PEER_MAC, word=word)


def header_cases():
    whole = packet()
    for size in range(20):
        yield Case(f"an IPv4 packet of {size} bytes", 'RFC 791 3.1: "the minimum value for a correct header is 5"',
                   [whole[:14 + size]], ends="ip.short_packet")
    for version in [*range(4), *range(5, 16)]:
        yield Case(f"version {version}",
                   'RFC 1122 3.2.1.1: "A datagram whose version number is not 4 MUST be silently discarded"',
                   [packet(version=version)], ends="ip.bad_version")
    for length in range(0, 20, 4):
        yield Case(f"a header length of {length}", 'RFC 791 3.1: "the minimum value for a correct header is 5"',
                   [packet(header_length=length)], ends="ip.bad_header_length")
    for length in (36, 40, 60):
        yield Case(f"a header length of {length}, beyond the packet", "RFC 791 3.1: the header is part of the total length",
                   [packet(payload=b"12345678", header_length=length)], ends="ip.short_packet")
    for length in (0, 1, 19):
        yield Case(f"a total length of {length}",
                   'RFC 791 3.1: "the length of the datagram [...] including internet header and data"',
                   [packet(total_length=length)], ends="ip.bad_total_length")
    for more in (1, 2, 100, 65499):
        yield Case(f"a total length {more} beyond the frame", "RFC 791 3.1: the length of the datagram",
                   [packet(total_length=36 + more)], ends="ip.bad_total_length")
    right = struct.unpack_from("!H", whole, 14 + 10)[0]
    for bit in range(16):
        yield Case(f"bit {bit} of the header checksum",
                   'RFC 1122 3.2.1.2: "A host MUST verify the IP header checksum on every '
                   'received datagram and silently discard every datagram that has a bad checksum"',
                   [packet(header_checksum=right ^ 1 << bit)], ends="ip.bad_checksum")
    for ttl in (0, 1, 2, 255):
        yield Case(f"a TTL of {ttl}",
                   'RFC 1122 3.2.1.7: "A host MUST NOT discard a datagram just because it was received with '
                   'TTL less than 2"', [packet(ttl=ttl)], (reply(),), "ip.echo_answered")
    for fields in ({"dont": True}, {"reserved": True}, {"identification": 0}, {"identification": 65535}, {"tos": 255}):
        yield Case(f"a request with {fields}", "RFC 791 3.1: no reason to discard it", [packet(**fields)], (reply(),),
                   "ip.echo_answered")


def address_cases():
    for source in ("0.0.0.0", "0.0.0.5", "127.0.0.1", "127.255.255.254", "224.0.0.1", "239.255.255.250", "240.0.0.1",
                   "254.1.2.3",
                   "255.255.255.255", "10.77.0.255", "10.77.0.0", "10.77.0.12"):
        for protocol, payload in ((f.ICMP4, None), (f.UDP, f.udp(f.address(source), HOST4, b"x")), (99, b"x")):
            yield Case(f"protocol {protocol} from {source}",
                       'RFC 1122 3.2.1.3, 3.2.2: "A host MUST silently discard an incoming datagram containing an IP source address '
                       'that is invalid by the rules of this section"',
                       [packet(protocol, payload, source=f.address(source))], ends="ip.bad_source")
    for destination in ("10.77.0.13", "127.0.0.1", "8.8.8.8", "10.77.1.255", "224.0.0.5", "239.1.1.1", "240.0.0.1"):
        yield Case(f"to {destination}",
                   'RFC 1122 3.2.1.3: "A host MUST silently discard an incoming datagram that is not destined '
                   'for the host"', [packet(destination=f.address(destination))], ends="ip.not_ours")


def option_cases():
    text = 'RFC 1122 3.2.1.8: "The IP and transport layers MUST each interpret those IP options that they understand and ' \
           'silently ignore the others"'
    for name, options in (("no operations", b"\1\1\1\1"), ("an end", b"\0\0\0\0"),
                          ("rubbish behind the end", b"\0\xde\xad\xbe"),
                          ("an unknown option", b"\x5e\4\0\0"), ("a security label", b"\x82\x0b" + b"\0" * 9),
                          ("a stream identifier", b"\x88\4\0\1"), ("router alert", b"\x94\4\0\0"), ("40 bytes", b"\1" * 40),
                          ("a length of 0", b"\x5e\0\0\0"), ("a length of 1", b"\x5e\1\0\0"),
                          ("a length beyond", b"\x5e\x28\0\0"),
                          ("a kind and no length", b"\1\1\1\x5e")):
        yield Case(f"options: {name}", text, [packet(options=options)], (reply(),), "ip.echo_answered")
    other = f.address("10.77.0.13")
    for kind, name in ((131, "loose"), (137, "strict")):
        yield Case(f"a {name} source route that goes on",
                   'RFC 1122 3.2.1.8 (c): a route that is not finished is not for this host',
                   [packet(options=struct.pack("!BBB", kind, 7, 4) + other)], ends="ip.source_routed")


def icmp_cases():
    for size in (0, 1, 7, 8, 63, 64, 500, 1471, 1472):
        body = b"\0\7\0\2" + ABC[:size]
        if len(body) <= 1476:
            yield Case(f"an echo of {size} bytes",
                       'RFC 1122 3.2.2.6: "Data received in an ICMP Echo Request MUST be entirely '
                       'included in the resulting Echo Reply"', [packet(payload=f.icmp4(8, 0, body))], (reply(body),),
                       "ip.echo_answered")
    echo = f.icmp4(8, 0, b"\0\7\0\1abcdefgh")
    for bit in range(16):
        value = struct.unpack_from("!H", echo, 2)[0] ^ 1 << bit
        yield Case(f"bit {bit} of the ICMP checksum", "RFC 792: the checksum is that of the ICMP message",
                   [packet(payload=f.icmp4(8, 0, echo[4:], value))], ends="ip.icmp_bad_checksum")
    for kind in (0, 3, 4, 5, 8, 11, 12, 13):
        for size in range(8):
            message = f.put_checksum(bytes([kind, 0, 0, 0, 0, 0, 0, 0])[:size],
                                     2) if size >= 4 else bytes([kind, 0, 0])[:size]
            yield Case(f"{size} bytes of ICMP type {kind}", "RFC 792: every message has 8 bytes",
                       [packet(payload=message)], ends=short_icmp(size))
    for kind in [*range(1, 3), 6, 7, *range(9, 11), *range(13, 256)]:
        yield Case(f"ICMP type {kind}",
                   'RFC 1122 3.2.2: "If an ICMP message of unknown type is received, it MUST be silently discarded"',
                   [packet(payload=f.icmp4(kind, 0, b"\0" * 24))], ends="ip.icmp_ignored")
    yield Case("an echo reply that nobody waits for", "RFC 1122 3.2.2.6: to the user, if there is one",
               [packet(payload=f.icmp4(0, 0, b"\0\1\0\1"))], ends="ip.icmp_ignored")
    for group in ("10.77.0.255", "255.255.255.255", "224.0.0.1"):
        yield Case(f"an echo request to {group}",
                   'RFC 1122 3.2.2.6: "destined to an IP broadcast or IP multicast address MAY be '
                   'silently discarded"', [packet(destination=f.address(group), to=link_of(group))], ends="ip.icmp_ignored")


def short_icmp(size):
    """Bytes that are too few for a checksum field do not sum up; of 4 to 7 the sum is right, and the message short."""
    return "ip.icmp_bad_checksum" if size < 4 else "ip.icmp_malformed"


def link_of(group):
    return f.group_mac(f.address(group)) if group.startswith("224") else f.BROADCAST_MAC


def quoting_cases():
    """ICMP errors about what was never sent."""
    text = "RFC 5927 4.1: errors that do not quote a datagram in flight are dropped"
    flow = f.ipv4(HOST4, PEER4, f.UDP, f.udp(HOST4, PEER4, b"12345678"))
    quoted = {"a datagram that we never sent": flow,
              "our own echo reply": f.ipv4(HOST4, PEER4, f.ICMP4, f.icmp4(0, 0, b"\0\7\0\1")),
              "an error of ours": f.ipv4(HOST4, PEER4, f.ICMP4, f.icmp4(3, 3, b"\0" * 4 + flow)),
              "somebody else's": f.ipv4(PEER4, HOST4, f.UDP, f.udp(PEER4, HOST4, b"12345678")),
              "a later fragment": f.ipv4(HOST4, PEER4, f.UDP, b"12345678", offset=8),
              "TCP": f.ipv4(HOST4, PEER4, f.TCP, b"\0" * 20), "IPv6": f.ipv6(b"\1" * 16, b"\2" * 16, f.UDP, b"x" * 8),
              "options": f.ipv4(HOST4, PEER4, f.UDP, b"12345678", options=b"\1" * 40)}
    kinds = [(3, code) for code in range(16)] + [(11, 0), (11, 1), (12, 0), (12, 1)]
    for name, body in quoted.items():
        for kind, code in kinds:
            word = b"\0\0\2\0" if (kind, code) == (3, 4) else b"\0" * 4
            yield Case(f"ICMP {kind}, {code} quotes {name}", text, [packet(payload=f.icmp4(kind, code, word + body))],
                       ends="ip.icmp_unmatched")
    for size in range(28):
        yield Case(f"ICMP quotes {size} bytes", text, [packet(payload=f.icmp4(3, 3, b"\0" * 4 + flow[:size]))],
                   ends="ip.icmp_unmatched")
    for mtu in (0, 1, 67, 68, 575, 576, 1499, 1500, 9000, 65535):
        yield Case(f"an MTU of {mtu} for a flow that is none", "RFC 1191 3, with RFC 5927 7.2",
                   [packet(payload=f.icmp4(3, 4, struct.pack("!I", mtu) + flow))], ends="ip.icmp_unmatched")
    for kind in (4, 5):
        for code in range(4):
            yield Case(f"ICMP {kind}, {code}",
                       "RFC 6633 3: source quench is discarded; redirects are ignored unless asked for",
                       [packet(payload=f.icmp4(kind, code, PEER4 + flow))], ends="ip.icmp_ignored")


def protocol_cases():
    for protocol in range(256):
        if protocol not in (f.ICMP4, f.IGMP, f.UDP):
            yield Case(f"protocol {protocol}",
                       'RFC 1122 3.2.2.1: "A host SHOULD generate Destination Unreachable messages with code: '
                       '2 (Protocol Unreachable), when the designated transport protocol is not supported"',
                       [packet(protocol, ABC[:40])], (error(3, 2),), "ip.unknown_protocol")
    for group in ("10.77.0.255", "255.255.255.255", "224.0.0.1"):
        yield Case(f"an unknown protocol to {group}",
                   'RFC 1122 3.2.2: "An ICMP error message MUST NOT be sent as the result of '
                   'receiving [...] a datagram destined to an IP broadcast or IP multicast address"',
                   [packet(99, b"x", destination=f.address(group), to=link_of(group))], ends="ip.unknown_protocol")


def udp_cases():
    def datagram(**fields):
        return packet(f.UDP, f.udp(PEER4, HOST4, b"abcdefgh", **fields))
    closed = {"ip.delivered": 1, "udp.port_unreachable": 1}
    text = 'RFC 1122 4.1.3.1: "UDP SHOULD send an ICMP Port Unreachable message"'
    for port in (0, 1, 9, 65535):
        yield Case(f"a closed port: {port}", text, [datagram(port=port)], (error(3, 3),), closed)
    yield Case("from port 0", 'RFC 768: "if not used, a value of zero is inserted"', [datagram(source_port=0)],
               (error(3, 3),), closed)
    yield Case("without a checksum",
               'RFC 768: "An all zero transmitted checksum value means that the transmitter generated no '
               'checksum"', [datagram(value=0)], (error(3, 3),), closed)
    right = struct.unpack_from("!H", datagram(), 14 + 20 + 6)[0]
    for bit in range(16):
        yield Case(f"bit {bit} of the UDP checksum",
                   'RFC 1122 4.1.3.4: "If a UDP datagram is received with a checksum that is '
                   'non-zero and invalid, UDP MUST silently discard the datagram"', [datagram(value=right ^ 1 << bit)],
                   ends={"ip.delivered": 1, "udp.bad_checksum": 1})
    for size in range(8):
        yield Case(f"{size} bytes of UDP", "RFC 768: the header has 8 bytes",
                   [packet(f.UDP, f.udp(PEER4, HOST4, b"")[:size])], ends={"ip.delivered": 1, "udp.short_header": 1})
    for length in (*range(1, 8), 17, 100, 65535):
        yield Case(f"a UDP length of {length} of 16",
                   "RFC 768: the length in octets of this user datagram, header included",
                   [datagram(length=length)], ends={"ip.delivered": 1, "udp.bad_length": 1})
    for group in ("10.77.0.255", "255.255.255.255", "224.0.0.1"):
        destination = f.address(group)
        yield Case(f"a closed port, to {group}", 'RFC 1122 3.2.2: never "a datagram destined to an IP broadcast"',
                   [packet(f.UDP, f.udp(PEER4, destination, b"x"), destination=destination, to=link_of(group))],
                   ends={"ip.delivered": 1, "udp.not_my_port": 1})


def group_cases():
    def query(size=12, ttl=1):
        message = f.put_checksum((bytes([0x11, 255, 0, 0]) + b"\0" * 8)[:size],
                                 2) if size >= 4 else bytes([0x11, 255, 0])[:size]
        group = f.address("224.0.0.1")
        return packet(f.IGMP, message, destination=group, to=f.group_mac(group), ttl=ttl)
    yield Case("a query about groups", "RFC 3376 5.2", [query()], ends="ip.group_queries")
    for ttl in (0, 2, 64, 255):
        yield Case(f"a query about groups, TTL {ttl}",
                   'RFC 3376 4: "Every IGMP message described in this document is sent with '
                   'an IP Time-to-Live of 1"', [query(ttl=ttl)], ends="ip.bad_group_message")
    for size in (*range(8), 9, 11):
        yield Case(f"a query about groups of {size} bytes", "RFC 3376 7.1: 8 bytes, or 12 and more",
                   [query(size)], ends="ip.icmp_bad_checksum" if size < 4 else "ip.bad_group_message")


identifications = iter(range(1000, 60000))


def pieces(spans, payload, protocol=f.ICMP4, **fields):
    """Fragments: (from, to, more) each, in that order, of one datagram."""
    identification = next(identifications)
    return [packet(protocol, payload[start:end], identification=identification, offset=start, more=more, **fields)
            for start, end, more in spans]


def fragment_cases():
    body = b"\0\7\0\3" + ABC[:116]
    echo = f.icmp4(8, 0, body)  # 124 bytes
    whole = (reply(body),)
    text = 'RFC 1122 3.3.2: "The IP layer MUST implement reassembly of IP datagrams"'
    eights = [(n, min(n + 8, 124), n + 8 < 124) for n in range(0, 124, 8)]
    for name, spans in (("in order", [(0, 64, 1), (64, 124, 0)]), ("reversed", [(64, 124, 0), (0, 64, 1)]),
                        ("in pieces of 8", eights), ("in pieces of 8, reversed", eights[::-1]),
                        ("in pieces of 8, even ones first", eights[::2] + eights[1::2])):
        yield Case(f"fragments {name}", text, pieces(spans, echo), whole,
                   {"ip.fragments_held": len(spans), "ip.reassembled": 1, "ip.echo_answered": 1})
    held = {"ip.fragments_held": 3, "ip.reassembled": 1, "ip.echo_answered": 1, "ip.fragment_duplicate": 1}
    for name, extra in (("the same fragment again", (0, 64, 1)), ("a part of one again", (8, 32, 1))):
        yield Case(name, "RFC 791 3.2: identical parts are no overlap",
                   pieces([(0, 64, 1), extra, (64, 80, 1), (80, 124, 0)], echo), whole, held)
    text = "RFC 8200 4.5, for IPv4 as well: a datagram whose fragments overlap is dropped, and what belongs to it"
    for name, spans, refused in (("in the middle", [(0, 64, 1), (56, 124, 0)], 0),
                                 ("at the start", [(0, 64, 1), (0, 72, 1)], 0),
                                 ("with what follows it", [(0, 64, 1), (56, 124, 0), (64, 124, 0)], 1)):
        yield Case(f"fragments overlap {name}", text, pieces(spans, echo),
                   ends={"ip.fragments_held": 1, "ip.fragment_overlap": 1, "ip.fragment_refused": refused})
    yield Case("an end before what is there", text, pieces([(64, 128, 1), (32, 48, 0)], ABC, protocol=99),
               ends={"ip.fragments_held": 1, "ip.fragment_overlap": 1})
    yield Case("two ends", text, pieces([(64, 124, 0), (128, 140, 0)], ABC, protocol=99),
               ends={"ip.fragments_held": 1, "ip.fragment_overlap": 1})
    text = "RFC 791 3.2: a total length of at most 65535, fragments in multiples of 8 bytes"
    for offset in (65512, 65520, 65528):
        yield Case(f"a fragment of 64 bytes at {offset}", text, [packet(99, ABC[:64], offset=offset)],
                   ends="ip.bad_fragment")
    for size in (1, 7, 9, 63):
        yield Case(f"{size} bytes, and more to come", text, [packet(99, ABC[:size], more=True)], ends="ip.bad_fragment")
    for offset in (0, 8, 64):
        yield Case(f"a fragment of nothing at {offset}", text, [packet(99, b"", offset=offset, more=offset == 0)],
                   ends="ip.bad_fragment" if offset == 0 else "ip.fragment_tiny")
    yield Case("a first fragment only", "nothing is answered before the datagram is whole", pieces([(0, 64, 1)], echo),
               ends="ip.fragments_held")
    yield Case("a last fragment only", 'RFC 1122 3.2.2: never "a non-initial fragment"',
               pieces([(64, 124, 0)], ABC, protocol=99),
               ends="ip.fragments_held")
    mixed = [a for pair in zip(pieces([(0, 64, 1), (64, 124, 0)], echo),
                               pieces([(0, 64, 1), (64, 124, 0)], echo)) for a in pair]
    yield Case("two datagrams, their fragments in turn", "RFC 791 3.2: fragments belong together by identification",
               mixed, whole * 2, {"ip.fragments_held": 4, "ip.reassembled": 2, "ip.echo_answered": 2})
    first, last = pieces([(0, 64, 1), (64, 124, 0)], echo)
    other = f.put_checksum(first[14:23] + b"\x63\0\0" + first[26:34], 10)  # without the old sum
    other = f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, other + first[34:])
    yield Case("fragments of another protocol", "RFC 791 3.2: source, destination, protocol and identification",
               [other, last],
               ends="ip.fragments_held")
    spans = [(n, n + 1480, 1) for n in range(0, 44 * 1480, 1480)] + [(44 * 1480, 65508, 0)]
    long = f.icmp4(8, 0, (b"\0\7\0\4" + ABC * 32)[:65504])
    yield Case("65,508 bytes in 45 fragments, the last one missing", "bounded, and given up in time",
               pieces(spans[:-1], long),
               ends="ip.fragments_held")


CASES = [*header_cases(), *address_cases(), *option_cases(), *icmp_cases(), *quoting_cases(), *protocol_cases(),
         *udp_cases(), *group_cases(),
         *fragment_cases()]
