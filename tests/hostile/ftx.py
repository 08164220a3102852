# SPDX-License-Identifier: Apache-2.0
"""Datagrams of the ftx protocol (docs/formats/ftx.md), built from their fields."""
import struct

HELLO, COOKIE, OFFER, DATA, PROBE, REPORT, ERROR, CLOSE = range(1, 9)
MANIFEST, DIGESTS = 0xFFFFFFFF, 0xFFFFFFFE


def envelope(kind, connection, version=2, flags=0, transfer=1):
    return struct.pack("!BBHIQ", version, kind, flags, transfer, connection)


def hello(connection, nonce=1, adu_bytes=1408, **fields):
    return (envelope(HELLO, connection, **fields) + struct.pack("!QI", nonce, adu_bytes)).ljust(1200, b"\0")


def is_cookie(datagram, connection):
    return len(datagram) == 52 and datagram[1] == COOKIE and datagram[8:16] == struct.pack("!Q", connection)


def offer(connection, cookie=bytes(24), files=1, list_bytes=30, total_bytes=1000, adu_bytes=1408, update=0, path=b"",
          path_bytes=None, **fields):
    return envelope(OFFER, connection, **fields) + cookie + struct.pack(
        "!QIII16sBH", total_bytes, adu_bytes, files, list_bytes, bytes(16), update,
        len(path) if path_bytes is None else path_bytes) + path


def stamp(sequence):
    return struct.pack("!QQII", sequence, 1, 1, 0)


def data(connection, sequence=1, offset=0, file=MANIFEST, payload=bytes(1408), length=None, **fields):
    length = len(payload) if length is None else length
    return envelope(DATA, connection, **fields) + stamp(sequence) + struct.pack("!QII", offset, file, length) + payload


def probe(connection, sequence=1, **fields):
    return envelope(PROBE, connection, **fields) + stamp(sequence)


def report(connection, ranges=(), count=None, phase=1, **fields):
    return envelope(REPORT, connection, **fields) + struct.pack(
        "!BBHI9Q", phase, 0, len(ranges) if count is None else count, 131072, 1 << 20, 9, 1, 9, 0, 0, 0, 0, 0) + \
        b"".join(struct.pack("!QI", *one) for one in ranges)


def error(connection, code=5, text=b"", text_bytes=None, **fields):
    return envelope(ERROR, connection, **fields) + struct.pack("!HH", code,
                                                               len(text) if text_bytes is None else text_bytes) + text


def close(connection, **fields):
    return envelope(CLOSE, connection, **fields)
