#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tools/wireshark/sluice.lua makes of what our stacks send: messages over rmpp and utopia, recorded by our own `capture`
# module on either side, and over tcp and xtp, whose every connection is a stream of its own, recorded on the device. What is
# malformed is in tests/tools/wireshark_test.py.
source "$(dirname "$0")/common.sh"
for program in dumpcap text2pcap; do
  command -v $program >/dev/null || { echo "$program is missing; scripts/test installs it" >&2; exit 1; }
done
PING_PONG=$SLUICE_BIN/example_msg_ping_pong
two_hosts

stack() {  # NAME HOST NUMBER PUSH [MORE]
  cat <<TOML
[stack.$1]
driver = { kind = "packet", device = "veth0" }
push   = [$4, "timod"]
ip     = { address = "10.77.0.$3/24" }
${5:-}
TOML
}
recorded() { echo "capture = { file = \"$1-$2.pcapng\" }"; }
for side in a:11 b:12; do
  host=${side%:*} number=${side#*:}
  {
    stack rmpp $host $number '"capture", "ip", "udp", "rmpp"' "$(recorded rmpp $host)"
    stack selective $host $number '"capture", "ip", "udp", "rmpp"' "rmpp = { recovery = \"selective\" }
$(recorded selective $host)"
    stack utopia $host $number '"capture", "ip", "udp", "utopia"' "$(recorded utopia $host)"
    stack tcp $host $number '"ip", "tcp"'
    stack xtp $host $number '"ip", "udp", "xtp"'
  } > $host.toml
done

ping_pong() {  # STACK BYTES ANSWER ROUNDS
  background answers in_a "$PING_PONG" a.toml "$1" 10.77.0.11:7000 "${@:2}"
  wait_for answers.out ready
  in_b timeout 60 "$PING_PONG" b.toml "$1" 10.77.0.12:7000 "${@:2}" 10.77.0.11:7000 > /dev/null
  finish answers
}
for stack in rmpp selective utopia; do
  expect "$stack: messages go back and forth" ping_pong $stack 40000 5 3
done
for stack in tcp xtp; do
  background dumpcap in_a dumpcap -q -B 16 -i veth0 -w $stack.pcapng
  wait_for dumpcap.err 'File: '
  expect "$stack: messages go back and forth" ping_pong $stack 40000 5 3
  sleep 0.5  # the last packets are on their way to dumpcap
  stop dumpcap
done

# The packets of a file: the fields of ours and of XTP that tshark sees in each. It must find nothing wrong.
cat > read.py <<'PYTHON'
import json, os, subprocess, sys

MALFORMED = str(0x07000000)  # PI_MALFORMED (epan/proto.h)
FIELDS = ["_ws.malformed", "_ws.lua.error", "_ws.expert.group"]
FIELDS += [f"sluice_rmpp.{name}" for name in "type flags source destination number attempt packet_bytes index grant length total tag".split()]
FIELDS += [f"sluice_msg.{name}" for name in "type port number tag length payload".split()]
FIELDS += ["xtp.key", "xtp.cmd.ptype.pformat", "xtp.cmd.options.eom", "xtp.dlen", "xtp.checksum.status", "xtp.tspec.maxdata", "udp.length", "tcp.len"]

def packets(path, *options):
    command = ["tshark", "-n", "-X", f"lua_script:{os.environ['TOP']}/tools/wireshark/sluice.lua", "-r", path, "-T", "fields",
               "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=;", *options]
    for field in FIELDS:
        command += ["-e", field]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and "Lua" not in run.stderr, run.stderr
    lines = [dict(zip(FIELDS, line.split("\t"))) for line in run.stdout.splitlines()]
    for line in lines:
        assert not line["_ws.malformed"] and not line["_ws.lua.error"] and MALFORMED not in line["_ws.expert.group"], line
    return lines

def numbers(line, prefix):
    """The fields with that prefix, as numbers: a list of each where there are several frames in a packet."""
    return {key.removeprefix(prefix): [int(value, 0) for value in text.split(";")] if text else []
            for key, text in line.items() if key.startswith(prefix) and not key.endswith("payload")}

def rmpp(path, *options):
    found = [numbers(line, "sluice_rmpp.") for line in packets(path, *options)]
    return [{key: value[0] for key, value in line.items()} for line in found if line["type"]]
PYTHON
export TOP PYTHONPATH=$DIR

# Three exchanges of 40,000 bytes, which are 29 packets, and 5 back; PING is the tag 1, PONG 2.
rmpp_is_read() {  # STACK FLAGS OPTION...
  python3 - "$@" <<'PYTHON'
import sys
from read import rmpp
stack, flags, *options = sys.argv[1:]
flags = int(flags)
for host in "a", "b":
    seen = rmpp(f"{stack}-{host}.pcapng", *options)
    assert all(packet["flags"] == flags and packet["packet_bytes"] == 1400 for packet in seen), seen
    long = [packet for packet in seen if packet["tag"] == 1]
    assert {packet["total"] for packet in long} == {40000} and {packet["number"] for packet in long} == {1, 2, 3}
    for number in 1, 2, 3:
        of_it = [packet for packet in long if packet["number"] == number]
        carried = {packet["index"]: packet["length"] for packet in of_it if packet["type"] in (1, 3)}
        assert carried == {index: 1400 if index < 28 else 800 for index in range(29)}, carried
        clears = [packet["grant"] for packet in of_it if packet["type"] == 2]
        assert sum(grant.bit_count() for grant in clears) >= 28 and 0 not in clears, clears
        ends = [packet["type"] for packet in of_it if packet["type"] in (4, 5)]
        assert (set(ends) == {4, 5}) if flags != 2 else not ends, ends
    short = [packet for packet in seen if packet["tag"] == 2 and packet["type"] == 1]
    assert {(packet["total"], packet["length"]) for packet in short} == {(5, 5)}, short
    assert len({packet["source"] for packet in seen}) == 2 and 0 not in {packet["source"] for packet in seen}
PYTHON
}
# Port 7000 is another protocol's to tshark, unless it is told.
by_content=(-o udp.try_heuristic_first:TRUE -o tcp.try_heuristic_first:TRUE)
expect "rmpp is read, by what is in it" rmpp_is_read rmpp 0 "${by_content[@]}"
expect "rmpp is read, as the port says" rmpp_is_read rmpp 0 -d udp.port==7000,sluice_rmpp
expect "rmpp's selective form is read" rmpp_is_read selective 1 "${by_content[@]}"
expect "utopia is read" rmpp_is_read utopia 2 "${by_content[@]}"

msg_is_read() {  # OPTION...
  python3 - "$@" <<'PYTHON'
import sys
from read import numbers, packets
frames = []
for line in packets("tcp.pcapng", *sys.argv[1:]):
    found = numbers(line, "sluice_msg.")
    payloads = iter(line["sluice_msg.payload"].split(";"))
    for at, kind in enumerate(found["type"]):
        frame = {key: values[at] for key, values in found.items()}
        frame["bytes"] = len(next(payloads)) // 2 if frame["length"] else 0
        frames.append(frame)
kinds = [frame["type"] for frame in frames]
assert kinds.count(1) == 2 and {frame["port"] for frame in frames if frame["type"] == 1} == {7000}, frames
messages = [(frame["number"], frame["tag"], frame["length"], frame["bytes"]) for frame in frames if frame["type"] == 2]
assert sorted(messages) == sorted((number, tag, size, size) for number in (1, 2, 3) for tag, size in ((1, 40000), (2, 5))), messages
assert sorted(frame["number"] for frame in frames if frame["type"] == 3) == [1, 1, 2, 2, 3, 3], frames
PYTHON
}
expect "the message library's frames are read, by what is in them" msg_is_read "${by_content[@]}"
expect "the message library's frames are read, as the port says" msg_is_read -d tcp.port==7000,sluice_msg

xtp_is_read() {  # OPTION...
  python3 - "$@" <<'PYTHON'
import sys
from read import packets
packets = packets("xtp.pcapng", *sys.argv[1:])
seen = [line for line in packets if line["xtp.key"]]
assert len(seen) == len([line for line in packets if line["udp.length"]]), "packets of UDP that are not XTP"
assert all(line["xtp.checksum.status"] == "1" for line in seen), "a checksum that is not good"
assert all(int(line["udp.length"]) == 8 + 32 + int(line["xtp.dlen"]) for line in seen)
kinds = {int(line["xtp.cmd.ptype.pformat"], 0) for line in seen}
assert {0, 2, 5} <= kinds and kinds & {1, 3}, kinds  # DATA, FIRST, TCNTL, and CNTL or ECNTL
# Either direction has its association: a hello, three messages with their frames, three answers.
carried = sum(int(line["xtp.dlen"]) for line in seen if int(line["xtp.cmd.ptype.pformat"], 0) == 0)
assert carried >= 3 * (40000 + 5) + 14 * 32, carried
assert {line["xtp.tspec.maxdata"] for line in seen if line["xtp.tspec.maxdata"]} == {"1400"}
PYTHON
}
expect "xtp is read, by what is in it" xtp_is_read "${by_content[@]}"

# Without UDP, as XTP is in IP for all others: what tshark itself knows, without our script.
in_ip() {
  tshark -n -r xtp.pcapng -Y udp -T fields -e udp.payload 2> tshark.err | while read -r payload; do
    echo "0000 ${payload//[[:xdigit:]][[:xdigit:]]/& }"
  done | text2pcap -q -i 36 - in-ip.pcap 2> /dev/null
  tshark -n -r in-ip.pcap -T fields -E separator=, -e _ws.malformed -e xtp.checksum.status -e xtp.spans_bad 2>> tshark.err > in-ip.txt
  [ "$(sort -u in-ip.txt)" = ",1," ] && [ "$(wc -l < in-ip.txt)" -ge 90 ] || { sort in-ip.txt | uniq -c >&2; cat tshark.err >&2; return 1; }
}
expect "xtp in IP is what tshark has always known" in_ip
