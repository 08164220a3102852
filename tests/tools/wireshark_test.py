#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/wireshark/sluice.lua on packets that are made here: the worked examples of docs/formats, and everything that is
malformed, each under the counter's name that the module would drop it by. Whatever comes, no error in Lua: hostile bytes are drawn from
SLUICE_WIRESHARK_SEED, 1 if absent."""
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/wireshark/sluice.lua"
PORT = 40000
RMPP = ["short_header", "bad_version", "bad_checksum", "bad_copy", "bad_type", "bad_flags", "bad_length", "bad_total", "bad_index",
        "bad_grant"]
MSG = ["bad_magic", "bad_version", "bad_type", "bad_field"]
MALFORMED = str(0x07000000)  # PI_MALFORMED (epan/proto.h)
REQUEST, CLEAR, DATA, END, DISCARD, REFUSE = range(1, 7)


def example(name, start=0, size=None):
    """The bytes that a document's "Example" shows."""
    text = (ROOT / f"docs/formats/{name}.md").read_text().partition("## Example")[2].partition("\n## ")[0]
    lines = re.findall(r"^    ((?:[0-9a-f]{2} +)*[0-9a-f]{2})\b", text, re.MULTILINE)
    return bytes.fromhex("".join(lines))[start:None if size is None else start + size]


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return 0xffff - total


def rmpp(type=REQUEST, flags=0, number=7, attempt=0, packet_bytes=1400, index=0, grant=0, length=None, total=5, version=1, zero=0,
         payload=None, wrong_copy=None, wrong_checksum=0):
    """A packet that is right, but for what is said."""
    payload = (b"x" * (5 if type == REQUEST else 0)) if payload is None else payload
    length = len(payload) if length is None else length
    head = struct.pack(">BBBBIIIHHIHHIQQ", version, type, flags, zero & 0xff, 1, 2, number, attempt, packet_bytes, index, grant, length,
                       zero >> 8, total, 9)
    copies = bytearray(byte ^ 0xff for byte in struct.pack(">BBHIIH", type, flags, attempt, number, index, length))
    if wrong_copy is not None:
        copies[wrong_copy] ^= 1
    return head + copies + struct.pack(">H", checksum(head + copies) ^ wrong_checksum) + payload


RMPP_CASES = [
    (example("rmpp"), None),
    (rmpp(), None),
    (rmpp(total=0, payload=b""), None),
    (rmpp(DATA, index=2, total=3000, payload=b"x" * 200), None),
    (rmpp(CLEAR, index=1, grant=0x8000, total=17 * 1400), None),
    (rmpp(END, flags=1), None),
    (rmpp(DISCARD), None),
    (rmpp(REFUSE, flags=2), None),
    (rmpp(packet_bytes=65535, total=65535 * 0xffffffff, payload=b"x" * 65535)[:65000], "bad_length"),
    *((rmpp()[:size], "short_header") for size in range(1, 64)),
    (rmpp(version=2), "bad_version"),
    (rmpp(wrong_checksum=1), "bad_checksum"),
    *((rmpp(wrong_copy=at), "bad_copy") for at in range(14)),
    (rmpp(type=0, payload=b""), "bad_type"),
    (rmpp(type=7, payload=b""), "bad_type"),
    (rmpp(flags=3), "bad_flags"),
    (rmpp(zero=1), "bad_flags"),
    (rmpp(zero=0x100), "bad_flags"),
    (rmpp(length=4), "bad_length"),
    (rmpp(payload=b"four"), "bad_length"),
    (rmpp(END, payload=b"x"), "bad_length"),
    (rmpp(packet_bytes=63), "bad_total"),
    (rmpp(packet_bytes=0), "bad_total"),
    (rmpp(total=1400 * 0xffffffff + 1), "bad_total"),
    (rmpp(total=2**64 - 1), "bad_total"),
    (rmpp(index=1, total=3000), "bad_index"),
    (rmpp(DATA, index=0, payload=b"x" * 5), "bad_index"),
    (rmpp(DATA, index=1, total=1400, payload=b"x"), "bad_index"),
    (rmpp(END, index=1, total=3000), "bad_index"),
    (rmpp(CLEAR, index=1, grant=0, total=3000), "bad_grant"),
    (rmpp(CLEAR, index=2, grant=2, total=3000), "bad_grant"),
    (rmpp(grant=1), "bad_grant"),
]


def frame(type=2, number=1, tag=9, length=0, port=0, zero=0, magic=0x534d, version=1):
    return struct.pack(">HBBHHQQQ", magic, version, type, port, zero, number, tag, length)


HELLO = frame(1, number=0, tag=0, port=7000)
# What a connection's first segment holds, how many frames are seen in it, and what is wrong with the last.
MSG_CASES = [
    (example("msg", 0, 69), 2, None),
    (example("msg", 69), 1, None),
    (HELLO + frame(length=3) + b"abc" + frame(number=2), 3, None),
    (HELLO + frame(length=3) + b"ab", 1, None),
    (HELLO + frame(magic=0x534e), 2, "bad_magic"),
    (HELLO + frame(version=2), 2, "bad_version"),
    (HELLO + frame(type=5), 2, "bad_type"),
    (HELLO + frame(number=0), 2, "bad_field"),
    (HELLO + frame(port=1), 2, "bad_field"),
    (HELLO + frame(zero=1), 2, "bad_field"),
    (HELLO + frame(3, tag=1), 2, "bad_field"),
    (HELLO + frame(4, tag=0, length=1), 2, "bad_field"),
    (HELLO + frame(length=2**64 - 1) + b"the rest", 2, None),
    (HELLO + frame(length=2**24 + 1) + b"the rest", 2, None),
    (HELLO + frame(length=2**24) + b"and there is more to come", 1, None),
]


def damaged_xtp(data, no_check=False, wrong_checksum=0):
    """The example with other data than its sum is of; with NOCHECK the sum is of its header."""
    head = bytearray(example("xtp")[:32])
    if no_check:
        head[8] |= 0x40
        head[16:18] = bytes(2)
        head[16:18] = struct.pack(">H", checksum(bytes(head)) ^ wrong_checksum)
    return bytes(head) + data


def ip(protocol, payload):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def udp(payload, port=PORT):
    return ip(17, struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload)


def tcp(payload, port, sequence=1):
    return ip(6, struct.pack(">HHIIBBHHH", port, PORT, sequence, 1, 0x50, 0x18, 65535, 0, 0) + payload)


class Wireshark(unittest.TestCase):
    def dissect(self, packets, fields, *options, captured=262144):
        """A dictionary of its fields for each IP packet, of which so many bytes were captured."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "made.pcap")
            records = (struct.pack("<IIII", at, 0, min(len(packet), captured), len(packet)) + packet[:captured]
                       for at, packet in enumerate(packets))
            path.write_bytes(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 101) + b"".join(records))
            command = ["tshark", "-n", "-X", f"lua_script:{SCRIPT}", "-r", path, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=;",
                       *options]
            fields = [*fields, "_ws.lua.error", "_ws.malformed", "_ws.expert.group"]
            for field in fields:
                command += ["-e", field]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": folder})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("Lua", run.stderr)
        lines = [dict(zip(fields, line.split("\t"), strict=True)) for line in run.stdout.split("\n")[:-1]]
        self.assertEqual(len(lines), len(packets))
        for line in lines:
            self.assertEqual(line["_ws.lua.error"], "")
        return lines

    def named(self, line, proto, names):
        return [name for name in names if line[f"{proto}.{name}"]]

    def test_each_packet_of_rmpp_is_right_or_has_its_counters_name(self):
        lines = self.dissect([udp(packet) for packet, _ in RMPP_CASES], [f"sluice_rmpp.{name}" for name in RMPP],
                             "-d", f"udp.port=={PORT},sluice_rmpp")
        for at, ((packet, problem), line) in enumerate(zip(RMPP_CASES, lines)):
            self.assertEqual(self.named(line, "sluice_rmpp", RMPP), [problem] if problem else [], f"case {at}: {packet[:64].hex(' ')}")
            self.assertEqual(MALFORMED in line["_ws.expert.group"], problem is not None)
        self.assertEqual({problem for _, problem in RMPP_CASES} - {None}, set(RMPP))

    def test_the_counters_names_are_the_modules(self):
        for header, prefix, names in (("rmpp", "RmppMalformed", RMPP), ("msg_frame", "MsgMalformed", ["short_header", *MSG])):
            text = (ROOT / f"stack/wire/{header}.h").read_text()
            body = re.search(rf"enum class {prefix} .*?\{{(.*?)\}};", text, re.DOTALL)[1]
            self.assertEqual([name for name in re.findall(r"^\s+(\w+),", body, re.MULTILINE) if name != "count_"], names)

    def test_the_example_is_shown_as_the_document_reads_it(self):
        fields = {"type": "1", "flags": "0x00", "source": "0x01020304", "destination": "0x00000000", "number": "7", "attempt": "0",
                  "packet_bytes": "1400", "index": "0", "grant": "0x0000", "length": "5", "total": "5", "tag": "0x1122334455667788",
                  "checksum": "0xe526", "payload": b"hello".hex()}
        line, = self.dissect([udp(example("rmpp"))], [f"sluice_rmpp.{name}" for name in fields])
        self.assertEqual({name: line[f"sluice_rmpp.{name}"] for name in fields}, fields)
        line, = self.dissect([udp(example("xtp"))], ["xtp.key", "xtp.seq", "xtp.data", "xtp.checksum.status"])
        self.assertEqual((line["xtp.key"], line["xtp.data"], line["xtp.checksum.status"]), ("0x8123456789abcdef", b"hello".hex(), "1"))

    def test_what_is_recognised_and_what_is_not(self):
        others = [b"", b"\1" * 64, bytes(200), example("rmpp")[:63], example("xtp")[:31], example("xtp") + b"!", rmpp(wrong_copy=3), rmpp(version=2),
                  damaged_xtp(b"HELLO"), damaged_xtp(b"HELLO", no_check=True, wrong_checksum=1)]
        lines = self.dissect([udp(packet, PORT + at) for at, packet in enumerate(others)], ["sluice_rmpp.type", "xtp.key"])
        for line in lines:
            self.assertEqual((line["sluice_rmpp.type"], line["xtp.key"]), ("", ""))
        line, = self.dissect([udp(damaged_xtp(b"HELLO", no_check=True))], ["xtp.data"])
        self.assertEqual(line["xtp.data"], b"HELLO".hex())
        # What comes in a conversation that was recognised belongs to it.
        line = self.dissect([udp(rmpp()), udp(rmpp()[:40])], ["sluice_rmpp.short_header"])[1]
        self.assertTrue(line["sluice_rmpp.short_header"])

    def test_each_frame_of_the_message_library_is_right_or_has_a_name(self):
        packets = [tcp(data, 41000 + at) for at, (data, _, _) in enumerate(MSG_CASES)]
        lines = self.dissect(packets, [f"sluice_msg.{name}" for name in (*MSG, "type")])
        for (data, frames, problem), line in zip(MSG_CASES, lines):
            self.assertEqual(len(line["sluice_msg.type"].split(";")), frames, data.hex(" "))
            self.assertEqual(self.named(line, "sluice_msg", MSG), [problem] if problem else [], data.hex(" "))

    def test_frames_are_put_together_however_they_were_cut(self):
        stream = HELLO + frame(length=1000) + b"x" * 1000 + frame(number=2, length=1) + b"y"
        for seed in range(4):
            choice = random.Random(seed)
            cuts = [0, *sorted(choice.sample(range(33, len(stream)), 6)), len(stream)]
            packets = [tcp(stream[start:end], 41000, 1 + start) for start, end in zip(cuts, cuts[1:])]
            lines = self.dissect(packets, ["sluice_msg.type", "sluice_msg.payload"])
            payloads = [one for line in lines for one in line["sluice_msg.payload"].split(";") if one]
            self.assertEqual(payloads, [(b"x" * 1000).hex(), b"y".hex()], f"seed {seed}")
            self.assertFalse(any(MALFORMED in line["_ws.expert.group"] for line in lines), f"seed {seed}")

    def test_hostile_bytes_are_no_error_in_lua(self):
        seed = int(os.environ.get("SLUICE_WIRESHARK_SEED", "1"))
        choice = random.Random(seed)
        whole = [rmpp(), example("xtp"), HELLO + frame(length=3) + b"abc"]
        for bytes_ in whole:
            packets = []
            for _ in range(400):
                data = bytearray(bytes_)
                for _ in range(choice.randrange(4)):
                    data[choice.randrange(len(data))] = choice.randrange(256)
                packets.append(bytes(data[:choice.randrange(len(data) + 1)]) if choice.random() < 0.5 else bytes(data))
            for decode, wrap in (("rmpp", udp), ("xtp", udp), ("msg", lambda data: tcp(data, PORT))):
                with self.subTest(seed=seed, decode=decode):
                    layer = "tcp" if decode == "msg" else "udp"
                    self.dissect([wrap(data) for data in packets], [], "-d", f"{layer}.port=={PORT},sluice_{decode}")

    def test_a_packet_that_was_captured_in_part_is_not_malformed(self):
        for captured in (30, 60, 28 + 63, 28 + 64, 28 + 66):
            packets = [udp(rmpp()), udp(example("xtp"), 50000), tcp(HELLO + frame(length=300) + b"a" * 300, 41000)]
            for line in self.dissect(packets, [], "-d", f"udp.port=={PORT},sluice_rmpp", "-d", "udp.port==50000,sluice_xtp",
                                     "-d", "tcp.port==41000,sluice_msg", captured=captured):
                self.assertNotIn(MALFORMED, line["_ws.expert.group"], (captured, line))


if __name__ == "__main__":
    unittest.main()
