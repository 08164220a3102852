# SPDX-License-Identifier: Apache-2.0
"""Datagrams of the ftx protocol (docs/formats/ftx.md), built from their fields."""
import struct

HELLO, COOKIE, OFFER, DATA, PROBE, REPORT, ERROR, CLOSE = range(1, 9)
MANIFEST, DIGESTS = 0xFFFFFF, 0xFFFFFE


def envelope(kind, connection, version=3, flags=0):
    return struct.pack("!BBBQ", version, kind, flags, connection)


def hello(connection, nonce=1, adu_bytes=1408, **fields):
    return (envelope(HELLO, connection, **fields) + struct.pack("!QI", nonce, adu_bytes)).ljust(1200, b"\0")


def is_cookie(datagram, connection):
    return len(datagram) == 47 and datagram[1] == COOKIE and datagram[3:11] == struct.pack("!Q", connection)


def offer(connection, cookie=bytes(24), files=1, list_bytes=30, total_bytes=1000, adu_bytes=1408, update=0, path=b"",
          path_bytes=None, **fields):
    return envelope(OFFER, connection, **fields) + cookie + struct.pack(
        "!QIII16sBH", total_bytes, adu_bytes, files, list_bytes, bytes(16), update,
        len(path) if path_bytes is None else path_bytes) + path


def stamp(sequence):
    return sequence.to_bytes(6, "big") + bytes(3) + b"\x01"


def data(connection, sequence=1, offset=0, file=MANIFEST, payload=bytes(1408), length_less_1=0, **fields):
    return (envelope(DATA, connection, **fields) + stamp(sequence) + (offset // 16).to_bytes(6, "big") +
            file.to_bytes(3, "big") + struct.pack("!H", length_less_1) + payload)


def probe(connection, sequence=1, **fields):
    return envelope(PROBE, connection, **fields) + stamp(sequence)


def report(connection, ranges=(), count=None, phase=1, **fields):
    return envelope(REPORT, connection, **fields) + struct.pack(
        "!BBHI8Q", phase, 0, len(ranges) if count is None else count, 131072, 1 << 20, 9, 1, 9, 0, 0, 0, 0) + \
        b"".join(struct.pack("!QI", *one) for one in ranges)


def error(connection, code=5, text=b"", text_bytes=None, **fields):
    return envelope(ERROR, connection, **fields) + struct.pack("!HH", code,
                                                               len(text) if text_bytes is None else text_bytes) + text


def close(connection, **fields):
    return envelope(CLOSE, connection, **fields)
