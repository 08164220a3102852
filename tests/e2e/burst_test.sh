#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What comes to `sluice nc` in one burst is written at once, with no later frame to help: 1 to 5,000 datagrams, and ICMP
# errors, twenty bursts. The program is stopped while a burst arrives, so that it finds all of it at once. The sizes come
# of a seed, which is printed: BURST_SEED repeats a run.
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
# burst.py KIND COUNT: so many datagrams to port 4000, or ICMP errors about datagrams from there.
# Not faster than the kernel passes frames between the two ends: its backlog of a thousand is not what is tested here.
import socket, struct, sys, time
def breathe(at):
    if at % 250 == 249:
        time.sleep(0.002)
kind, count = sys.argv[1], int(sys.argv[2])
if kind == "datagrams":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("10.77.0.1", 5000))
    for at in range(count):
        s.sendto(b"line\n", ("10.77.0.12", 4000))
        breathe(at)
else:
    def checksum(data):
        total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        return ~total & 0xffff
    address = socket.inet_aton
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 33, 1, 0, 64, 17, 0, address("10.77.0.12"), address("10.77.0.1"))
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    quoted = header + struct.pack("!HHHH", 4000, 5000, 13, 0)
    message = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    message = struct.pack("!BBHI", 3, 3, checksum(message), 0) + quoted
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    for at in range(count):
        s.sendto(message, ("10.77.0.12", 0))
        breathe(at)
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
for size in 1 64 65 66 200 1000 $(for i in $(seq 14); do echo $((1 + RANDOM % 500)); done); do
  burst errors $size
  told=$((told + size))
  expect "$size errors of one burst come out" lines nc.err $told
done
stop nc
