#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A host on which only `nc`, then only `ftx serve`, runs: a second stream on its link answers ping and closed ports, and
# each question once; not with `host = false`. What is asked is how many frames of each kind its side sends.
source "$(dirname "$0")/common.sh"

two_namespaces
ip -n $NS_B link set veth0 address 02:00:00:00:00:12
ip netns exec $NS_B sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
for ns in $NS_A $NS_B; do
  ip -n $ns link set lo up
  ip -n $ns link set veth0 up
done
ip -n $NS_A address add 10.77.0.1/24 dev veth0
ip -n $NS_A address add fd00:77::1/64 dev veth0 nodad

stack_file host.toml packet 12
stack_file alone.toml packet 12 '"ip", "udp", "timod"' "host = false"

# ARP and neighbour discovery are asked here and nowhere else: the kernel knows the other side.
for address in 10.77.0.12 fd00:77::12; do
  ip -n $NS_A neigh replace $address lladdr 02:00:00:00:00:12 dev veth0 nud permanent
done

# ADDRESS PORT SIZE: sends a datagram, with port 0 an ARP request or a neighbour solicitation, and prints what answers came
# within a second, by kind.
cat > ask.py <<'PYTHON'
import select, socket, struct, sys, time

def sniffer():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind(("veth0", 0))
    return s

def kind(frame):
    if frame[6:12] != bytes.fromhex("020000000012"):
        return None
    if frame[12:14] == b"\x08\x06":
        return "arp-reply" if frame[21] == 2 else None
    if frame[12:14] == b"\x08\x00" and frame[23] == 1:
        return {0: "echo-reply", 3: "unreachable"}.get(frame[34])
    if frame[12:14] == b"\x86\xdd" and frame[20] == 58:
        return {129: "echo-reply", 1: "unreachable", 136: "na" if frame[58] & 0x40 else None}.get(frame[54])
    return None

def count(seconds, s):
    seen, end = {}, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([s], [], [], left)[0]:
            k = kind(s.recv(65535))
            if k:
                seen[k] = seen.get(k, 0) + 1
    return seen

def question(address):
    mac = open("/sys/class/net/veth0/address").read().strip().replace(":", "")
    if ":" not in address:
        return bytes.fromhex("ff" * 6 + mac + "08060001080006040001" + mac) + socket.inet_aton("10.77.0.1") + \
            bytes(6) + socket.inet_aton(address)
    source, target = (socket.inet_pton(socket.AF_INET6, a) for a in ("fd00:77::1", address))
    group = bytes.fromhex("ff02" + "00" * 9 + "01ff") + target[13:]
    body = bytes.fromhex("8700000000000000") + target + bytes.fromhex("0101" + mac)
    words = source + group + struct.pack("!II", len(body), 58) + body
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", 0xFFFF ^ total) + body[4:]
    return bytes.fromhex("3333") + group[12:] + bytes.fromhex(mac + "86dd60000000") + struct.pack("!HBB", len(body), 58, 255) + \
        source + group + body

address, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = sniffer()
if port == 0:
    s.send(question(address))
else:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as u:
        u.sendto(b"x" * size, (address, port))
print(" ".join(f"{k}={n}" for k, n in sorted(count(1.0, s).items())) or "nothing")
PYTHON

ask() { in_a python3 ask.py "$@"; }
answers() {  # WHAT WANTED ADDRESS PORT SIZE
  local got
  got=$(ask "${@:3}")
  expect "$1: $got" test "$got" = "$2"
}
pings() {  # WHAT: both families, each request answered once
  local address
  for address in 10.77.0.12 fd00:77::12; do
    in_a ping -n -c 3 -i 0.2 -W 5 $address > ping.out || true
    expect "$1: $address answers" grep -q "3 received" ping.out
    expect "$1: each once" bash -c "! grep -q duplicates ping.out"
  done
}
all() {  # WHAT PORT
  pings "$1"
  answers "$1, ARP" arp-reply=1 10.77.0.12 0 0
  answers "$1, neighbour discovery" na=1 fd00:77::12 0 0
  answers "$1, closed port" unreachable=1 10.77.0.12 9 10
  answers "$1, closed port" unreachable=1 fd00:77::12 9 10
  answers "$1, its own port" nothing 10.77.0.12 "$2" 10
  answers "$1, its own port" nothing fd00:77::12 "$2" 10
  answers "$1, its own port in fragments" nothing 10.77.0.12 "$2" 4000
  answers "$1, its own port in fragments" nothing fd00:77::12 "$2" 4000
}

mkfifo nc.in
exec {pipe}<> nc.in
INPUT=nc.in background nc in_b "$SLUICE" nc --stack host.toml -l -v -p 4000
wait_for nc.err listening
all nc 4000
expect "nc got its datagrams" test "$(wc -c < nc.out)" -eq 8020
stop nc || true

mkdir incoming
background serve in_b "$FTX" serve incoming --insecure --stack host.toml
wait_for serve.out 7070
all "ftx serve" 7070
stop serve || true

INPUT=nc.in background bare in_b "$SLUICE" nc --stack alone.toml -l -v -p 4000
wait_for bare.err listening
expect "without it nobody answers ping" bash -c "! ip netns exec $NS_A ping -n -c 1 -W 1 10.77.0.12"
answers "nor for a closed port" nothing 10.77.0.12 9 10
answers "but ARP" arp-reply=1 10.77.0.12 0 0
stop bare || true
exec {pipe}>&-
