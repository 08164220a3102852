# SPDX-License-Identifier: Apache-2.0
"""Datagrams at an ftx server from somebody who has no session: docs/formats/ftx.md."""
import ftx
from trial import PEER4, HOST4, Case, Server, Want, datagram

STRANGER = 4242


def case(name, text, sent, *replies):
    return Case(name, text, [datagram(sent, 5001, Server.PORT)], replies)


def refusal():
    return Want("udp", source=HOST4, destination=PEER4, body=ftx.error(STRANGER, 14))


def cases():
    good = {"HELLO": ftx.hello(STRANGER), "OFFER": ftx.offer(STRANGER), "DATA": ftx.data(STRANGER),
            "PROBE": ftx.probe(STRANGER),
            "REPORT": ftx.report(STRANGER, ((3, 1),)), "ERROR": ftx.error(STRANGER, text=b"no"),
            "CLOSE": ftx.close(STRANGER)}
    text = "An endpoint drops and counts a datagram that is too long, too short or out of range, and never answers it"
    for kind, whole in good.items():
        # A DATA is as long as it is: what is cut of it is another place's.
        for size in sorted({*range(min(len(whole), 60)), len(whole) - 1} if kind != "DATA" else range(33)):
            yield case(f"{kind} cut to {size} bytes", text, whole[:size])
        for version in (0, 1, 2, 4, 255):
            yield case(f"{kind} of version {version}", text, bytes([version]) + whole[1:])
        for bit in range(8):
            if not (kind == "DATA" and bit == 0):
                yield case(f"{kind} with flag {bit}", text, whole[:2] + bytes([1 << bit]) + whole[3:])
        if kind not in ("DATA", "HELLO", "PROBE"):  # a PROBE may be padded
            yield case(f"{kind} and a byte more", text, whole + b"\0")
    for kind in (0, *range(12, 256)):
        yield case(f"kind {kind}", text, ftx.envelope(kind, STRANGER) + bytes(100))
    yield case("HELLO of 1201 bytes", "padded: 1200 bytes with the envelope, exactly", good["HELLO"] + b"\0")
    yield case("COOKIE", "2 and 6 to the sender", ftx.envelope(ftx.COOKIE, STRANGER) + bytes(36))
    for adu_bytes in (0, 1, 15, 255, 257, 2**21 + 16, 2**32 - 1):
        yield case(f"HELLO with ADUs of {adu_bytes} bytes", "adu_bytes is a multiple of 16 in 256 .. 2 MiB",
                   ftx.hello(STRANGER, adu_bytes=adu_bytes))
    for size in (2**62, 2**63, 2**64 - 1):
        yield case(f"OFFER of {size} bytes", "Sizes are below 2^62", ftx.offer(STRANGER, total_bytes=size))
    for files, list_bytes in ((2, 30), (2**31, 30), (2**32 - 1, 2**32 - 1), (1, 26), (0, 27)):
        yield case(f"OFFER of {files} files in {list_bytes} bytes",
                   "an OFFER whose manifest_bytes cannot hold files entries is malformed",
                   ftx.offer(STRANGER, files=files, list_bytes=list_bytes))
    for length in (2, 1408, 1409, 65536):
        yield case(f"DATA of 1408 bytes that says {length}", "of any other 0", ftx.data(STRANGER, length_less_1=length - 1))
    for length in (1, 1407, 1408):
        yield case(f"compressed DATA of 1408 bytes for {length}", "shorter than the ADU by one byte at least",
                   ftx.data(STRANGER, length_less_1=length - 1, flags=8))
    for count in (0, 2, 89, 65535):
        yield case(f"REPORT of one range that says {count}", "88 ranges at most", ftx.report(STRANGER, ((3, 1),), count))
    for path in (b"/etc", b"..", b"../x", b"a/../b", b"a\0b", b"a\x1bb", b"x" * 1025):
        yield case(f"OFFER into {path[:10]!r}", "path: relative, 1024 bytes at most", ftx.offer(STRANGER, path=path))
    text = "The answer to an address that is not validated is never larger than what it answers: ERROR 15 bytes for 21 or more of an " \
           "unknown connection"
    for name, sent in (("PROBE", good["PROBE"]), ("PROBE padded", good["PROBE"] + bytes(1400)), ("DATA", good["DATA"]),
                       ("DATA of one byte", ftx.data(STRANGER, payload=b"x"))):
        yield case(f"{name} of an unknown connection", text, sent, refusal())
    for name in ("CLOSE", "ERROR"):
        yield case(f"{name} of an unknown connection", text, good[name])
    yield case("OFFER with a cookie that nobody gave", "keyed hash of address, connection and time", good["OFFER"])


CASES = list(cases())
