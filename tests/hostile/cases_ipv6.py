# SPDX-License-Identifier: Apache-2.0
"""IPv6, its extension headers and fragments, ICMPv6, neighbour discovery, and UDP over it."""
import struct

import frames as f
from trial import ALL_NODES, HOST6, HOST_LOCAL, HOST_MAC, PEER6, PEER_LOCAL, PEER_MAC, Case, Want

ABC = bytes(range(256)) * 8
ECHO = b"\0\7\0\1abcdefgh"
OTHER = f.address("fd00:77::13")
SOURCE_LINK = f.link_address(1, PEER_MAC)


def link_of(destination):
    return f.group_mac(destination) if destination[0] == 0xFF else HOST_MAC


def packet(next_header, payload, source=PEER6, destination=HOST6, to=None, **fields):
    return f.ethernet(to or link_of(destination), PEER_MAC, f.IPV6,
                      f.ipv6(source, destination, next_header, payload, **fields))


def icmp(kind, code, body, source=PEER6, destination=HOST6, value=None, **fields):
    return packet(f.ICMP6, f.icmp6(source, destination, kind, code, body, value), source, destination, **fields)


def echo(body=ECHO, source=PEER6, destination=HOST6, **fields):
    return icmp(128, 0, body, source, destination, **fields)


def reply(body=ECHO, source=HOST6, destination=PEER6):
    return Want("icmp6", 129, 0, source=source, destination=destination, to=PEER_MAC, body=body)


def error(kind, code, word=0, source=HOST6):
    return Want("icmp6", kind, code, source=source, destination=PEER6, to=PEER_MAC, word=word)


def header_cases():
    whole = echo()
    for size in range(40):
        yield Case(f"an IPv6 packet of {size} bytes", "RFC 8200 3: the header has 40 bytes", [whole[:14 + size]],
                   ends="ip.short_packet")
    for version in [*range(6), *range(7, 16)]:
        yield Case(f"version {version}", "RFC 8200 3: version = 6", [echo(version=version)], ends="ip.bad_version")
    for more in (1, 2, 100, 65515):
        yield Case(f"a payload length {more} beyond the frame", "RFC 8200 3: the length of the payload",
                   [echo(length=20 + more - 4)], ends="ip.bad_total_length")
    for fields in ({"hops": 0}, {"hops": 1}, {"hops": 64}, {"flow": 1}, {"flow": 0xFFFFF}, {"traffic_class": 255}):
        yield Case(f"a request with {fields}", "RFC 8200 3, 6, 7: for the destination no reason to discard it",
                   [echo(**fields)],
                   (reply(),), "ip.echo_answered")
    for size in (1, 24, 200):
        yield Case(f"{size} bytes of padding", "RFC 8200 3: the payload length says where it ends",
                   [echo() + b"\xff" * size],
                   (reply(),), "ip.echo_answered")


def address_cases():
    for source in ("ff02::1", "ff0e::99", "::1", "fd00:77::12"):
        for next_header in (f.ICMP6, f.UDP, 99):
            where = f.address(source)
            payload = {f.ICMP6: f.icmp6(where, HOST6, 128, 0, ECHO), f.UDP: f.udp(where, HOST6, b"x"),
                       99: b"x"}[next_header]
            yield Case(f"next header {next_header} from {source}",
                       'RFC 4291 2.7: "Multicast addresses must not be used as source addresses"; 2.5.3: the loopback address '
                       '"must not be used as the source address in IPv6 packets that are sent outside of a single node"',
                       [packet(next_header, payload, source=where)], ends="ip.bad_source")
    unspecified = b"\0" * 16
    for next_header, payload, end in ((f.UDP, f.udp(unspecified, HOST6, b"x"), "ip.bad_source"),
                                      (99, b"x", "ip.bad_source"),
                                      (f.ICMP6, f.icmp6(unspecified, HOST6, 128, 0, ECHO), "ip.icmp_malformed")):
        yield Case(f"next header {next_header} from ::", "RFC 4291 2.5.2: the unspecified address is nobody to answer to",
                   [packet(next_header, payload, source=unspecified)], ends=end)
    for destination in ("fd00:77::13", "::1", "2001:db8::1", "fe80::1", "ff02::2", "ff02::fb", "ff02::1:ff00:99",
                        "ff05::2"):
        where = f.address(destination)
        yield Case(f"to {destination}", "RFC 8200 3: a host drops what is not addressed to it", [echo(destination=where)],
                   ends="link.not_ours" if destination.startswith("ff") else "ip.not_ours")
    text = 'RFC 4443 4.2: "An Echo Reply SHOULD be sent in response to an Echo Request message sent to an IPv6 multicast or ' \
           'anycast address. In this case, the source address of the reply MUST be a unicast address"'
    for group in (ALL_NODES, f.solicited_node(HOST6)):
        yield Case("an echo request to a group", text, [echo(destination=group)], (reply(),), "ip.echo_answered")
    yield Case("an echo request to the link-local address", "RFC 4443 4.2: the source is the request's destination",
               [echo(source=PEER_LOCAL, destination=HOST_LOCAL)], (reply(source=HOST_LOCAL, destination=PEER_LOCAL),),
               "ip.echo_answered")


def next_header_cases():
    text = 'RFC 8200 4: "it should discard the packet and send an ICMP Parameter Problem message to the source of the packet, ' \
           'with an ICMP Code value of 1 [...] and the ICMP Pointer field containing the offset of the unrecognized value"'
    known = (f.HOP_BY_HOP, f.UDP, f.ROUTING, f.FRAGMENT, f.ICMP6, f.NO_NEXT, f.DESTINATION)
    for number in range(256):
        if number not in known:
            yield Case(f"next header {number}", text, [packet(number, ABC[:40])], (error(4, 1, 6),), "ip.unknown_protocol")
    for name, chain, pointer in (("options", f.options6(99, b""), 40), ("a finished route", f.routing6(99, left=0), 40),
                                 ("two headers", f.options6(f.ROUTING, b"") + f.routing6(99, left=0), 48)):
        first = f.ROUTING if "route" in name else f.DESTINATION
        yield Case(f"next header 99 behind {name}", text, [packet(first, chain + b"x" * 8)], (error(4, 1, pointer),),
                   "ip.unknown_protocol")
    yield Case("no next header", 'RFC 8200 4.7: nothing follows, and what does "must be ignored"',
               [packet(f.NO_NEXT, b"rubbish")],
               ends="ip.unknown_protocol")
    for group in (ALL_NODES, f.solicited_node(HOST6)):
        yield Case("an unknown next header to a group", "RFC 4443 2.4 (e.3): never about a packet to a multicast address",
                   [packet(99, b"x" * 8, destination=group)], ends="ip.unknown_protocol")


def option_cases():
    """RFC 8200 4.2: the two highest bits of an option's type say what who does not know it is to do."""
    text = 'RFC 8200 4.2: "00 - skip over this option"; "01 - discard the packet"; "10 - [...] regardless of whether or not the ' \
           'packet\'s Destination Address was a multicast address, send an ICMP Parameter Problem, Code 2"; "11 - [...] only if ' \
           '[it] was not a multicast address"'
    behind = {"an echo request": lambda to: (f.ICMP6, f.icmp6(PEER6, to, 128, 0, ECHO)),
              "an ICMPv6 error": lambda to: (f.ICMP6, f.icmp6(PEER6, to, 1, 4, b"\0" * 56))}
    for header in (f.HOP_BY_HOP, f.DESTINATION):
        for kind in (0x1E, 0x3F, 0x5E, 0x7F, 0x9E, 0xBF, 0xDE, 0xFF):
            for destination in (HOST6, ALL_NODES):
                for name, make in behind.items():
                    next_header, message = make(destination)
                    action, quiet = kind >> 6, name == "an ICMPv6 error"
                    reports = action == 2 or (action == 3 and destination == HOST6)
                    if action == 0:
                        replies, end = ((), "ip.icmp_unmatched") if quiet else ((reply(),), "ip.echo_answered")
                    else:
                        replies, end = ((error(4, 2, 42),) if reports and not quiet else ()), "ip.bad_extension"
                    yield Case(f"option {kind:02x} of header {header} in front of {name}, to a "
                               f"{'group' if destination == ALL_NODES else 'host'}",
                               text + '; RFC 4443 2.4 (e.1): never about "an ICMPv6 error message"' * quiet,
                               [packet(header, f.options6(next_header, f.option6(kind)) + message,
                                       destination=destination)],
                               replies, end)
    message = f.icmp6(PEER6, HOST6, 128, 0, ECHO)
    for name, options in (("Pad1", b"\0" * 6), ("PadN of 0", b"\1\0"), ("PadN of 4", b"\1\4\0\0\0\0"),
                          ("router alert", b"\5\2\0\0"),
                          ("jumbo payload 0", b"\x1e\4\0\0\0\0")):
        yield Case(f"hop-by-hop options: {name}", "RFC 8200 4.2: skipped over",
                   [packet(f.HOP_BY_HOP, f.options6(f.ICMP6, options) + message)], (reply(),), "ip.echo_answered")
    text = "RFC 8200 4.2: an option, and a header, ends within what holds it"
    for header in (f.HOP_BY_HOP, f.DESTINATION):
        for length in (5, 200, 255):
            yield Case(f"an option of {length} bytes in 6", text,
                       [packet(header, struct.pack("!BBBB", f.ICMP6, 0, 0x1E, length) + b"\0" * 4 + message)],
                       ends="ip.bad_extension")
        for size in (20, 100, 255):
            yield Case(f"a header of {(size + 1) * 8} bytes in fewer", text,
                       [packet(header, f.options6(f.ICMP6, b"", size) + message)], ends="ip.bad_extension")
        for size in range(8):
            yield Case(f"header {header} cut to {size} bytes", text, [packet(header, f.options6(f.ICMP6, b"")[:size])],
                       ends="ip.bad_extension")
    yield Case("hop-by-hop options not in front",
               'RFC 8200 4: "Parameter Problem [...] Code value of 1", as for any header that is '
               'not expected there', [packet(f.DESTINATION,
                                             f.options6(f.HOP_BY_HOP, b"") + f.options6(f.ICMP6, b"") + message)],
               (error(4, 1, 40),), "ip.bad_extension")
    for count in (8, 60, 150):
        yield Case(f"{count} headers in a chain", "RFC 8504 5.3: a host may limit the number of extension headers",
                   [packet(f.DESTINATION, f.options6(f.DESTINATION, b"") * (count - 1) + f.options6(f.ICMP6,
                                                                                                    b"") + message)],
                   *(((reply(),), "ip.echo_answered") if count <= 8 else ((), "ip.bad_extension")))


def routing_cases():
    message = f.icmp6(PEER6, HOST6, 128, 0, ECHO)
    for kind in (0, 1, 2, 3, 4, 5, 253, 255):
        yield Case(f"a finished route of type {kind}",
                   'RFC 8200 4.4: "If Segments Left is zero, the node must ignore the Routing '
                   'header and proceed to process the next header"',
                   [packet(f.ROUTING, f.routing6(f.ICMP6, kind, 0, (OTHER,)) + message)], (reply(),), "ip.echo_answered")
        for left in (1, 2, 255):
            yield Case(f"a route of type {kind} with {left} to go",
                       'RFC 8200 4.4, RFC 5095 3: "the node must discard the packet '
                       'and send an ICMP Parameter Problem, Code 0, message [...] pointing to the unrecognized Routing Type"',
                       [packet(f.ROUTING, f.routing6(f.ICMP6, kind, left, (OTHER,)) + message)], (error(4, 0, 42),),
                       "ip.bad_extension")
    yield Case("a route in front of an ICMPv6 error", 'RFC 4443 2.4 (e.1): never about "an ICMPv6 error message"',
               [packet(f.ROUTING, f.routing6(f.ICMP6, 0, 1, (OTHER,)) + f.icmp6(PEER6, HOST6, 1, 4, b"\0" * 56))],
               ends="ip.bad_extension")
    yield Case("a route to a group", "RFC 4443 2.4 (e.3)",
               [packet(f.ROUTING, f.routing6(f.NO_NEXT, 0, 1, (OTHER,)), destination=ALL_NODES)],
               ends="ip.bad_extension")


def icmp_cases():
    for size in (0, 1, 7, 500, 1447, 1448):
        body = b"\0\7\0\2" + ABC[:size]
        yield Case(f"an echo of {len(body)} bytes", "RFC 4443 4.2: the data is returned entirely and unmodified",
                   [echo(body)],
                   (reply(body),), "ip.echo_answered")
    message = f.icmp6(PEER6, HOST6, 128, 0, ECHO)
    for bit in range(16):
        yield Case(f"bit {bit} of the ICMPv6 checksum", "RFC 4443 2.3: the sum includes the pseudo-header",
                   [icmp(128, 0, ECHO, value=struct.unpack_from("!H", message, 2)[0] ^ 1 << bit)],
                   ends="ip.icmp_bad_checksum")
    yield Case("an ICMPv6 checksum without the pseudo-header", "RFC 4443 2.3",
               [packet(f.ICMP6, f.icmp4(128, 0, ECHO))], ends="ip.icmp_bad_checksum")
    for kind in [*range(5, 128), 129, *range(138, 143), *range(144, 151), *range(155, 256)]:
        yield Case(f"ICMPv6 type {kind}",
                   'RFC 4443 2.4 (b): "If an ICMPv6 informational message of unknown type is received, it MUST '
                   'be silently discarded"; an error of unknown type is passed to the user, if there is one',
                   [icmp(kind, 0, b"\0" * 24)], ends="ip.icmp_ignored")
    flow = f.ipv6(HOST6, PEER6, f.UDP, f.udp(HOST6, PEER6, b"12345678"))
    quoted = {"a datagram that we never sent": flow, "our own echo reply": f.ipv6(HOST6, PEER6, f.ICMP6,
                                                                                  f.icmp6(HOST6, PEER6, 129, 0, ECHO)),
              "somebody else's": f.ipv6(PEER6, HOST6, f.UDP, f.udp(PEER6, HOST6, b"12345678")),
              "a later fragment": f.ipv6(HOST6, PEER6, f.FRAGMENT, f.fragment6(f.UDP, 8, 0) + b"12345678"),
              "TCP": f.ipv6(HOST6, PEER6, f.TCP, b"\0" * 20), "IPv4": f.ipv4(b"\1" * 4, b"\2" * 4, f.UDP, b"x" * 40),
              "options": f.ipv6(HOST6, PEER6, f.DESTINATION, f.options6(f.UDP, b"") + b"12345678")}
    for name, body in quoted.items():
        for kind, code in [(1, code) for code in range(7)] + [(2, 0), (3, 0), (3, 1)] + [(4, code) for code in range(4)]:
            word = struct.pack("!I", 1280 if kind == 2 else 0)
            yield Case(f"ICMPv6 {kind}, {code} quotes {name}",
                       "RFC 5927 4.1, RFC 8201 6: errors that quote nothing in flight",
                       [icmp(kind, code, word + body)], ends="ip.icmp_unmatched")
    for size in range(48):
        yield Case(f"ICMPv6 quotes {size} bytes", "RFC 5927 4.1", [icmp(1, 4, b"\0" * 4 + flow[:size])],
                   ends="ip.icmp_unmatched")
    for mtu in (0, 1, 68, 1279, 1280, 1499, 1500, 65535, 2**32 - 1):
        yield Case(f"an MTU of {mtu} for a flow that is none", "RFC 8201 4, 6", [icmp(2, 0, struct.pack("!I", mtu) + flow)],
                   ends="ip.icmp_unmatched")


def solicitation(target=HOST6, options=SOURCE_LINK, source=PEER6, destination=None, code=0, hops=255,
                 **fields):
    destination = f.solicited_node(target) if destination is None else destination
    return icmp(135, code, b"\0" * 4 + target + options, source, destination, hops=hops, **fields)


def advertisement_of(target, flags=0x20000000, options=b"", source=PEER6, destination=HOST6, code=0, hops=255, **fields):
    return icmp(136, code, struct.pack("!I", flags) + target + options, source, destination, hops=hops, **fields)


def ndp_cases():
    answer = Want("icmp6", 136, 0, source=HOST6, destination=PEER6, to=PEER_MAC, hops=255,
                  body=struct.pack("!I", 0x60000000) + HOST6 + f.link_address(2, HOST_MAC))
    text = 'RFC 4861 7.2.3, 7.2.4: a node answers a valid solicitation for one of its addresses'
    for name, frame in (("multicast", solicitation()), ("unicast", solicitation(destination=HOST6)),
                        ("without the option", solicitation(options=b"", destination=HOST6)),
                        ("with an unknown option", solicitation(options=b"\x63\1" + b"\0" * 6 + SOURCE_LINK)),
                        ("with padding", solicitation() + b"\0" * 9)):
        yield Case(f"a solicitation: {name}", text, [frame], (answer,), "ip.ndp_answered")
    yield Case("a solicitation from ::",
               'RFC 4861 7.2.4: "the node MUST set the Solicited flag to zero and multicast the '
               'advertisement to the all-nodes address"', [solicitation(options=b"", source=b"\0" * 16)],
               (Want("icmp6", 136, 0, source=HOST6, destination=ALL_NODES, to=f.group_mac(ALL_NODES), hops=255,
                     body=struct.pack("!I", 0x20000000) + HOST6 + f.link_address(2, HOST_MAC)),), "ip.ndp_answered")
    text = 'RFC 4861 7.1.1: "A node MUST silently discard any received Neighbor Solicitation messages that do not satisfy all of ' \
           'the following validity checks"'
    for hops in (0, 1, 64, 128, 254):
        yield Case(f"a solicitation, hop limit {hops}", text, [solicitation(hops=hops)], ends="ip.bad_ndp")
        yield Case(f"an advertisement, hop limit {hops}", text.replace("7.1.1", "7.1.2"),
                   [advertisement_of(PEER6, hops=hops)],
                   ends="ip.bad_ndp")
    for code in (1, 2, 255):
        yield Case(f"a solicitation, code {code}", text, [solicitation(code=code)], ends="ip.bad_ndp")
        yield Case(f"an advertisement, code {code}", text, [advertisement_of(PEER6, code=code)], ends="ip.bad_ndp")
    for size in range(4, 20):
        yield Case(f"a solicitation of {4 + size} bytes", text, [icmp(135, 0, (b"\0" * 4 + HOST6)[:size])],
                   ends="ip.bad_ndp")
        yield Case(f"an advertisement of {4 + size} bytes", text, [icmp(136, 0, (b"\x60\0\0\0" + PEER6)[:size])],
                   ends="ip.bad_ndp")
    for group in (ALL_NODES, f.solicited_node(HOST6), f.address("ff0e::1")):
        yield Case("a solicitation for a group", text, [icmp(135, 0, b"\0" * 4 + group)], ends="ip.bad_ndp")
        yield Case("an advertisement of a group", text, [advertisement_of(group)], ends="ip.bad_ndp")
    for name, options in (("of length 0", b"\1\0" + PEER_MAC),
                          ("of length 0, last", SOURCE_LINK + b"\x63\0" + b"\0" * 6),
                          ("beyond the message", b"\1\2" + PEER_MAC), ("cut short", SOURCE_LINK[:7]),
                          ("of one byte", b"\1")):
        yield Case(f"a solicitation with an option {name}", text, [solicitation(options=options)], ends="ip.bad_ndp")
        yield Case(f"an advertisement with an option {name}", text, [advertisement_of(PEER6, options=b"\2" + options[1:])],
                   ends="ip.bad_ndp")
    unspecified = b"\0" * 16
    yield Case("a solicitation from :: to one host", text,
               [solicitation(options=b"", source=unspecified, destination=HOST6)],
               ends="ip.bad_ndp")
    yield Case("a solicitation from :: with a link address", text, [solicitation(source=unspecified)], ends="ip.bad_ndp")
    yield Case("a solicited advertisement to a group", text, [advertisement_of(PEER6, 0x60000000, destination=ALL_NODES)],
               ends="ip.bad_ndp")
    for station in ("ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01", "01:00:5e:00:00:01", "00:00:00:00:00:00"):
        text = "RFC 826, RFC 4861 4.6.1: a neighbour's link address is one station's"
        yield Case(f"a solicitation from {station}", text, [solicitation(options=f.link_address(1, f.mac(station)))],
                   ends="ip.bad_ndp")
        yield Case(f"an advertisement of {station}", text,
                   [advertisement_of(PEER6, options=f.link_address(2, f.mac(station)))],
                   ends="ip.bad_ndp")
    yield Case("a solicitation for somebody else", 'RFC 4861 7.2.3: it "MUST silently discard" it',
               [solicitation(OTHER, destination=HOST6)], ends="ip.icmp_ignored")
    yield Case("an advertisement of our address", "RFC 4862 5.4.4: another host has it", [advertisement_of(HOST6)],
               ends="ip.address_conflict")
    yield Case("200 advertisements of hosts we never asked for",
               'RFC 4861 7.2.5: "there is no need to create an entry if none exists"',
               [advertisement_of(OTHER[:15] + bytes([n]), source=OTHER[:15] + bytes([n])) for n in range(30, 230)],
               ends="ip.ndp_noted")
    for kind, name in ((133, "router solicitation"), (134, "router advertisement"), (137, "redirect")):
        yield Case(f"a {name}", "RFC 4861 6.2.6: hosts discard solicitations; others are ignored unless asked for",
                   [icmp(kind, 0, b"\0" * 36, PEER_LOCAL, ALL_NODES)], ends="ip.icmp_ignored")
    text = 'RFC 6980 5: "Nodes MUST silently ignore [...] if the packets carrying them include an IPv6 Fragmentation Header"'
    for kind in (133, 134, 135, 136, 137):
        message = f.icmp6(PEER6, HOST6, kind, 0, b"\x60\0\0\0" + (HOST6 if kind == 135 else PEER6) * 2)
        yield Case(f"ICMPv6 {kind} in a fragment that is whole", text,
                   [packet(f.FRAGMENT, f.fragment6(f.ICMP6, 0, 0) + message)], ends="ip.bad_ndp")


def mld(kind=130, source=PEER_LOCAL, hops=1, alert=b"\5\2\0\0", size=28):
    """A query about all groups by default, to be answered within half a minute."""
    body = (struct.pack("!HH", 0x7FFF, 0) + b"\0" * 20)[:size - 4]
    message = f.icmp6(source, ALL_NODES, kind, 0, body)
    return packet(f.HOP_BY_HOP, f.options6(f.ICMP6, alert) + message, source, ALL_NODES, hops=hops)


def group_cases():
    text = 'RFC 3810 6.2: "if the source address of the message is a valid link-local address, if the Hop Limit is set to 1, ' \
           'and if the Router Alert option is present [...]. If any of these checks fails, the packet is dropped"'
    yield Case("a query about groups", "RFC 3810 6.2", [mld()], ends="ip.group_queries")
    for fields in ([{"hops": hops} for hops in (0, 2, 64, 255)] + [{"source": PEER6}] +
                   [{"alert": alert} for alert in (b"", b"\x1e\2\0\0", b"\5\0\0\0")] +
                   [{"size": size} for size in (*range(5, 24), 25, 27)]):
        for kind in (130, 131, 132):
            if kind == 130 or fields.get("size", 0) < 24:
                yield Case(f"MLD type {kind} with {fields}", text, [mld(kind, **fields)], ends="ip.bad_group_message")


identifications = iter(range(5000, 1_000_000))


def pieces(spans, payload, next_header=f.ICMP6, **fields):
    """Fragments: (from, to, more) each, in that order, of one datagram."""
    identification = next(identifications)
    return [packet(f.FRAGMENT, f.fragment6(next_header, start, more, identification) + payload[start:end], **fields)
            for start, end, more in spans]


def fragment_cases():
    body = b"\0\7\0\3" + ABC[:112]
    message = f.icmp6(PEER6, HOST6, 128, 0, body)  # 120 bytes
    whole = (reply(body),)
    text = "RFC 8200 4.5: reassembly"
    eights = [(n, n + 8, int(n + 8 < 120)) for n in range(0, 120, 8)]
    for name, spans in (("in order", [(0, 64, 1), (64, 120, 0)]), ("reversed", [(64, 120, 0), (0, 64, 1)]),
                        ("in pieces of 8", eights), ("in pieces of 8, reversed", eights[::-1])):
        yield Case(f"fragments {name}", text, pieces(spans, message), whole,
                   {"ip.fragments_held": len(spans), "ip.reassembled": 1, "ip.echo_answered": 1})
    yield Case("a fragment that is whole", "RFC 6946 4: processed in isolation from any other",
               pieces([(0, 120, 0)], message), whole,
               "ip.echo_answered")
    first, last = pieces([(0, 64, 1), (64, 120, 0)], message)
    identification = struct.unpack_from("!I", first, 14 + 40 + 4)[0]
    lone = packet(f.FRAGMENT, f.fragment6(f.ICMP6, 0, 0, identification) + message)
    yield Case("a fragment that is whole, amid another datagram's", "RFC 6946 4: processed in isolation from any other",
               [first, lone, last], whole * 2, {"ip.fragments_held": 2, "ip.reassembled": 1, "ip.echo_answered": 2})
    yield Case("the same fragment again", "RFC 8200 4.5: a duplicate may be dropped alone",
               pieces([(0, 64, 1), (0, 64, 1), (64, 120, 0)], message), whole,
               {"ip.fragments_held": 2, "ip.fragment_duplicate": 1, "ip.reassembled": 1, "ip.echo_answered": 1})
    text = 'RFC 8200 4.5: "reassembly of that packet must be abandoned and all the fragments that have been received for that ' \
           'packet must be discarded, and no ICMP error messages should be sent"'
    for name, spans, refused in (("in the middle", [(0, 64, 1), (56, 120, 0)], 0),
                                 ("at the start", [(0, 64, 1), (0, 72, 1)], 0),
                                 ("with what follows it", [(0, 64, 1), (56, 120, 0), (64, 120, 0)], 1)):
        yield Case(f"fragments overlap {name}", text, pieces(spans, message),
                   ends={"ip.fragments_held": 1, "ip.fragment_overlap": 1, "ip.fragment_refused": refused})
    for size in (1, 7, 9, 65):
        yield Case(f"{size} bytes, and more to come",
                   'RFC 8200 4.5: "an ICMP Parameter Problem, Code 0, message should be sent [...] '
                   'pointing to the Payload Length field of the fragment packet"',
                   [packet(f.FRAGMENT, f.fragment6(99, 64, 1, next(identifications)) + ABC[:size])], (error(4, 0, 4),),
                   "ip.bad_fragment")
    for offset in (65480, 65520, 65528):
        yield Case(f"64 bytes at {offset}",
                   'RFC 8200 4.5: "Parameter Problem, Code 0, [...] pointing to the Fragment Offset field"',
                   [packet(f.FRAGMENT, f.fragment6(99, offset, 0, next(identifications)) + ABC[:64])], (error(4, 0, 42),),
                   "ip.bad_fragment")
    for name, payload in (("options", f.options6(f.UDP, b"")),
                          ("a part of options", f.options6(f.UDP, b"\1\6" + b"\0" * 6)[:8])):
        yield Case(f"a first fragment with {name} only",
                   'RFC 8200 4.5: "If the first fragment does not include all headers through '
                   'an Upper-Layer header, then that fragment should be discarded and an ICMP Parameter Problem, Code 3"',
                   [packet(f.FRAGMENT, f.fragment6(f.DESTINATION, 0, 1, next(identifications)) + payload)],
                   (error(4, 3, 0),),
                   "ip.fragment_tiny")
    for offset, more in ((0, 1), (64, 1), (64, 0)):
        yield Case(f"a fragment of nothing at {offset}{', and more to come' * more}",
                   "RFC 8200 4.5: it can have no multiple of 8 bytes",
                   [packet(f.FRAGMENT, f.fragment6(99, offset, more, next(identifications)))],
                   *(((error(4, 0, 4),), "ip.bad_fragment") if more else ((), "ip.fragment_tiny")))
    yield Case("a fragment header in a fragment", "RFC 8200 4.1: each header once, but for options",
               [packet(f.FRAGMENT, f.fragment6(f.FRAGMENT, 0, 0) + f.fragment6(f.ICMP6, 0, 0) + message)],
               ends="ip.bad_extension")
    for size in range(8):
        yield Case(f"a fragment header of {size} bytes", "RFC 8200 4.5: it has 8 bytes",
                   [packet(f.FRAGMENT, f.fragment6(99, 0, 0)[:size])],
                   ends="ip.bad_extension")


def udp_cases():
    def datagram(**fields):
        return packet(f.UDP, f.udp(PEER6, HOST6, b"abcdefgh", **fields))
    closed = {"ip.delivered": 1, "udp.port_unreachable": 1}
    for port in (0, 1, 9, 65535):
        yield Case(f"a closed port: {port}",
                   'RFC 4443 3.1: "a destination node SHOULD originate a Destination Unreachable message with '
                   'Code 4"', [datagram(port=port)], (error(1, 4),), closed)
    yield Case("without a checksum", 'RFC 8200 8.1: "IPv6 receivers must discard UDP packets containing a zero checksum"',
               [datagram(value=0)], ends={"ip.delivered": 1, "udp.zero_checksum": 1})
    right = struct.unpack_from("!H", datagram(), 14 + 40 + 6)[0]
    for bit in range(16):
        yield Case(f"bit {bit} of the UDP checksum", "RFC 8200 8.1: the sum is mandatory",
                   [datagram(value=right ^ 1 << bit)],
                   ends={"ip.delivered": 1, "udp.bad_checksum": 1})
    for size in range(8):
        yield Case(f"{size} bytes of UDP", "RFC 768: the header has 8 bytes",
                   [packet(f.UDP, f.udp(PEER6, HOST6, b"")[:size])],
                   ends={"ip.delivered": 1, "udp.short_header": 1})
    for length in (*range(1, 8), 17, 100, 65535):
        yield Case(f"a UDP length of {length} of 16",
                   "RFC 768: the length in octets of this user datagram, header included",
                   [datagram(length=length)], ends={"ip.delivered": 1, "udp.bad_length": 1})
    for group in (ALL_NODES, f.solicited_node(HOST6)):
        yield Case("a closed port, to a group", "RFC 4443 2.4 (e.3): never about a packet to a multicast address",
                   [packet(f.UDP, f.udp(PEER6, group, b"x"), destination=group)],
                   ends={"ip.delivered": 1, "udp.not_my_port": 1})
    long = ABC[:1400]
    yield Case("a closed port, 1400 bytes",
               'RFC 4443 3.1: "As much of invoking packet as possible without the ICMPv6 packet exceeding the '
               'minimum IPv6 MTU"', [packet(f.UDP, f.udp(PEER6, HOST6, long))], (error(1, 4),), closed)


CASES = [*header_cases(), *address_cases(), *next_header_cases(), *option_cases(), *routing_cases(), *icmp_cases(),
         *ndp_cases(), *group_cases(),
         *fragment_cases(), *udp_cases()]
