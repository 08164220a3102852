# SPDX-License-Identifier: Apache-2.0
"""Frames and ARP."""
import struct

import frames as f
from trial import HOST4, HOST_MAC, PEER4, PEER_MAC, Case, Want

ELSEWHERE = f.mac("02:00:00:00:00:99")


def request(sender_mac=PEER_MAC, sender=PEER4, target=HOST4, to=f.BROADCAST_MAC, **fields):
    return f.ethernet(to, PEER_MAC, f.ARP, f.arp(sender_mac, sender, b"\0" * 6, target, **fields))


def answer(target=PEER4):
    return Want("arp", type=2, to=PEER_MAC, body=HOST_MAC + HOST4 + PEER_MAC + target)


SERVICE_TAG = 0x88A8


def tagged(tag, kind, payload, protocol=f.VLAN):
    return f.ethernet(HOST_MAC, PEER_MAC, protocol, struct.pack("!HH", tag, kind) + payload)


def link_cases():
    echo = f.ipv4(PEER4, HOST4, f.ICMP4, f.icmp4(8, 0, b"\0\1\0\1"))
    reply = Want("icmp4", 0, 0, source=HOST4, destination=PEER4, body=b"\0\1\0\1")
    yield Case("a frame for another station", "IEEE 802.3: a station takes its own address, its groups and the broadcast",
               [f.ethernet(ELSEWHERE, PEER_MAC, f.IPV4, echo)], ends="link.not_ours")
    for size in (1, 18, 46, 200):
        yield Case(f"{size} bytes of padding behind the packet",
                   'RFC 894: "This padding is not part of the IP packet and is not included in the total length field"',
                   [f.ethernet(HOST_MAC, PEER_MAC, f.IPV4, echo + b"\xff" * size)], (reply,), "ip.echo_answered")
    for name, to in (("broadcast", f.BROADCAST_MAC), ("group", f.group_mac(f.address("224.0.0.1")))):
        yield Case(f"a unicast packet in a {name} frame",
                   'RFC 1122 3.3.6: "A host SHOULD silently discard a datagram that is received via a link-layer broadcast '
                   '[...] but does not specify an IP multicast or broadcast destination address"',
                   [f.ethernet(to, PEER_MAC, f.IPV4, echo)], ends="ip.link_broadcast")
    text = 'IEEE 802.1Q 6.9: a priority tag, whose VLAN identifier is 0, "carries only priority information"'
    for priority in (0, 1, 7):
        yield Case(f"a priority tag, {priority}", text, [tagged(priority << 13, f.IPV4, echo)], (reply,),
                   "ip.echo_answered")
    for identifier in (1, 5, 4094, 4095):
        yield Case(f"VLAN {identifier}", "IEEE 802.1Q: another network than ours", [tagged(identifier, f.IPV4, echo)],
                   ends="link.vlan_frame")
    yield Case("a tag in a tag", "IEEE 802.1ad: none of ours",
               [tagged(0, f.VLAN, struct.pack("!HH", 0, f.IPV4) + echo),
                tagged(5, f.IPV4, echo, SERVICE_TAG), tagged(0, f.VLAN, struct.pack("!HH", 5, f.IPV4) + echo, SERVICE_TAG)],
               ends="link.vlan_frame")
    for length in (0, 3, 46, 1500):
        yield Case(f"an 802.3 frame, length {length}", "RFC 1042: LLC is not spoken here; a length is no EtherType",
                   [f.ethernet(HOST_MAC, PEER_MAC, length, b"\xaa\xaa\3\0\0\0\x08\0" + echo)], ends="link.llc_frame")
    for kind in (0x0600, 0x0801, 0x8035, 0x8863, 0x88CC, 0xFFFF):
        yield Case(f"EtherType {kind:04x}", "nobody is bound to it", [f.ethernet(HOST_MAC, PEER_MAC, kind, echo)],
                   ends="link.unclaimed")
    for kind in (f.IPV4, f.IPV6, f.ARP):
        yield Case(f"nothing behind EtherType {kind:04x}", "there is no header",
                   [f.ethernet(HOST_MAC, PEER_MAC, kind, b"")], ends="ip.bad_arp" if kind == f.ARP else "ip.short_packet")


def arp_cases():
    text = 'RFC 826: "Am I the target protocol address? Yes: [...] set the ar$op field to ares_op$REPLY"'
    for name, to in (("broadcast", f.BROADCAST_MAC), ("unicast", HOST_MAC)):
        yield Case(f"a {name} request", text, [request(to=to)], (answer(),), "ip.arp_answered")
    yield Case("a request with padding", text, [request() + b"\xaa" * 18], (answer(),), "ip.arp_answered")
    yield Case("a probe for our address", 'RFC 5227 2.1.1: "A host probes to see if an address is already in use"',
               [request(sender=b"\0" * 4)], (answer(b"\0" * 4),), "ip.arp_answered")
    yield Case("a request for somebody else", 'RFC 826: "Am I the target protocol address?"',
               [request(target=f.address("10.77.0.13"))], ends="ip.arp_noted")
    whole = request()
    for size in range(14, 14 + 28):
        yield Case(f"ARP cut to {size - 14} bytes", "RFC 826: 28 bytes, with Ethernet and IPv4 addresses", [whole[:size]],
                   ends="ip.bad_arp")
    text = 'RFC 826: "Do I have the hardware type in ar$hrd? [...] Do I speak the protocol in ar$pro?"'
    for fields in ([{"hardware": n} for n in (0, 2, 6, 7, 256, 65535)] + [{"protocol": n} for n in (0, 1, 0x86DD, 65535)] +
                   [{"hardware_size": n} for n in (0, 5, 7, 8, 255)] + [{"protocol_size": n} for n in (0, 3, 5, 16, 255)]):
        yield Case(f"ARP with {fields}", text, [request(**fields)], ends="ip.bad_arp")
    for operation in (0, 3, 4, 8, 9, 10, 23, 25, 256, 65535):
        yield Case(f"ARP operation {operation}", 'RFC 826: "Is the opcode ares_op$REQUEST?"',
                   [request(operation=operation)],
                   ends="ip.bad_arp")
    text = "RFC 1812 3.3.2, for hosts as well: not believe any ARP reply if the link address is a broadcast or a multicast one"
    for station in ("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01", "03:00:00:00:00:01",
                    "00:00:00:00:00:00"):
        for operation in (1, 2):
            yield Case(f"ARP operation {operation} from {station}", text,
                       [request(sender_mac=f.mac(station), operation=operation)], ends="ip.bad_arp")
    text = "RFC 1122 3.2.1.3: addresses that no host can have are no senders"
    for sender in ("127.0.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "10.77.0.0", "10.77.0.255",
                   "0.0.0.5"):
        for operation in (1, 2):
            yield Case(f"ARP operation {operation} of {sender}", text,
                       [request(sender=f.address(sender), operation=operation)], ends="ip.bad_arp")
    yield Case("a reply of 0.0.0.0", text, [request(sender=b"\0" * 4, operation=2)], ends="ip.bad_arp")
    for operation in (1, 2):
        yield Case(f"ARP operation {operation} that claims our address",
                   'RFC 5227 2.4: "a conflicting ARP packet" has our address and a link address that is not ours',
                   [request(sender_mac=ELSEWHERE, sender=HOST4, operation=operation)], ends="ip.address_conflict")
    text = "the peer's entry is not displaced by a reply that nobody asked for (the fence's answer must go to the peer)"
    for target, to in ((HOST4, HOST_MAC), (PEER4, f.BROADCAST_MAC), (HOST4, f.BROADCAST_MAC)):
        yield Case("a reply that was not asked for, with another station's address", text,
                   [request(sender_mac=ELSEWHERE, target=target, operation=2, to=to)] * 3, ends="ip.arp_noted")
    yield Case("200 claims for hosts we never spoke to", "RFC 826: a pair is added only if we are the target",
               [request(sender_mac=ELSEWHERE, sender=struct.pack("!BBH", 10, 77, 1 + n % 250), target=PEER4, operation=2)
                for n in range(30, 230)], ends="ip.arp_noted")


CASES = [*link_cases(), *arp_cases()]
