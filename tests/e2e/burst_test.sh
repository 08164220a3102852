#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What comes to `sluice nc` in one burst is written at once, with no later frame to help: 1 to 5,000 datagrams, and ICMP
# errors, twenty bursts. What comes to a client of ftx in the middle of a transfer, over either provider, changes nothing.
# The program is stopped while a burst arrives, so that it finds all of it at once. The sizes come of a seed, which is
# printed: BURST_SEED repeats a run.
source "$(dirname "$0")/common.sh"
two_hosts
# No other frame: no IPv6, and no question about addresses.
in_a sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
in_b sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
mac_b=$(ip -n $NS_B -o link show veth0 | sed 's/.*ether \([^ ]*\).*/\1/')
ip -n $NS_A neigh replace 10.77.0.12 lladdr "$mac_b" dev veth0 nud permanent
cat > packet.toml <<'TOML'
[stack.main]
driver = { kind = "packet", device = "veth0", ring_bytes = 67108864 }
push   = ["ip", "udp", "timod"]
ip     = { address = ["10.77.0.12/24"] }
TOML

cat > burst.py <<'PYTHON'
# burst.py datagrams COUNT: so many to port 4000.
# burst.py errors COUNT: so many ICMP errors about datagrams from there.
# burst.py client PROCESS COUNT...: for each, once the process has sent data to port 7070, so many ICMP errors about it,
#   while it is stopped.
# Not faster than the kernel passes frames between the two ends: its backlog of a thousand is not what is tested here.
import os, signal, socket, struct, sys, time

HERE = socket.inet_aton("10.77.0.1")
DATA = 4  # docs/formats/ftx.md; what greets is believed when it is told that nobody listens

def breathe(at):
    if at % 250 == 249:
        time.sleep(0.002)

def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff

def unreachable(victim, port, to_port):
    """That nobody listens here, about a datagram from `port` of `victim`."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 33, 1, 0, 64, 17, 0, victim, HERE)
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    quoted = header + struct.pack("!HHHH", port, to_port, 13, 0)
    return struct.pack("!BBHI", 3, 3, checksum(struct.pack("!BBHI", 3, 3, 0, 0) + quoted), 0) + quoted

def throw(count, victim, port, to_port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
        for at in range(count):
            s.sendto(unreachable(victim, port, to_port), (socket.inet_ntoa(victim), 0))
            breathe(at)

def next_sender(port):
    """Address and port of who sends DATA to `port` now; within 10 s."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as s:
        s.settimeout(10)
        while True:
            packet = s.recv(65536)
            if len(packet) > 29 and packet[9] == 17 and packet[16:20] == HERE and \
                    struct.unpack_from("!H", packet, 22)[0] == port and packet[29] == DATA:
                return packet[12:16], struct.unpack_from("!H", packet, 20)[0]

kind, *numbers = sys.argv[1], *map(int, sys.argv[2:])
if kind == "datagrams":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("10.77.0.1", 5000))
    for at in range(numbers[0]):
        s.sendto(b"line\n", ("10.77.0.12", 4000))
        breathe(at)
elif kind == "errors":
    throw(numbers[0], socket.inet_aton("10.77.0.12"), 4000, 5000)
else:
    process, *counts = numbers
    for count in counts:
        sender = next_sender(7070)
        os.kill(process, signal.SIGSTOP)
        throw(count, *sender, 7070)
        os.kill(process, signal.SIGCONT)
PYTHON

lines() {  # FILE COUNT: within 10 s; what comes later is none of ours
  local i
  for i in $(seq 200); do
    [ "$(wc -l < "$1")" -eq "$2" ] && return 0
    sleep 0.05
  done
  echo "$1 has $(wc -l < "$1") lines and not $2" >&2
  return 1
}
burst() {  # KIND COUNT
  kill -STOP "${PID[nc]}"
  in_a python3 burst.py "$1" "$2"
  kill -CONT "${PID[nc]}"
}

mkfifo nc.in
exec {pipe}<> nc.in
INPUT=nc.in background nc in_b "$SLUICE" nc --stack packet.toml -l -v -p 4000
wait_for nc.err listening

seed=${BURST_SEED:-$RANDOM}
echo "seed $seed"
RANDOM=$seed
wanted=0
for size in 1 64 65 66 200 5000 $(for i in $(seq 14); do echo $((1 + RANDOM % (1 << (1 + RANDOM % 12)))); done); do
  burst datagrams $size
  wanted=$((wanted + size))
  expect "$size datagrams of one burst come out" lines nc.out $wanted
done
echo answer >&$pipe  # now there is a flow that an error can be about
told=2  # "listening on", and that nobody listens there
expect "an answer that nobody takes is told" lines nc.err $told
for size in 1 64 65 66 200 1000 5000 $(for i in $(seq 13); do echo $((1 + RANDOM % 500)); done); do
  burst errors $size
  told=$((told + size))
  expect "$size errors of one burst come out" lines nc.err $told
done
stop nc

# RFC 1122 section 3.2.2.1 asks to report such errors; an established session believes its peer's answers (docs/security.md).
head -c 150M /dev/zero > file  # no hole: holes do not travel; at this rate it travels for three seconds
sed 's/^driver/mode = "fused"\ndriver/' packet.toml > fused.toml
for client in "" packet.toml fused.toml; do
  name=client-${client:-kernel}
  rm -rf in
  mkdir in
  background "$name-serve" in_a "$FTX" serve in --once --insecure --json --listen $ADDR_A
  wait_for "$name-serve.out" listening
  background "$name" in_b "$FTX" file "ftx://$ADDR_A/" --insecure --json --rate 400 ${client:+--stack "$client"}
  expect "$name: bursts come while it sends" in_a python3 burst.py client "${PID[$name]}" \
    1 64 65 256 257 1000 5000 $((1 + RANDOM % 5000)) $((1 + RANDOM % 500))
  expect "$name: the transfer ends well" finish "$name"
  expect "$name: the server, too" finish "$name-serve"
  expect "$name: the file is equal" cmp file in/file
done
