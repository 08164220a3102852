#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Groups and broadcasts between `sluice nc`, over packet and over kernel_udp, and a socket of the kernel's, IPv4 and
# IPv6, either way: who joined gets them, who did not join does not; our reports of groups arrive well formed.
source "$(dirname "$0")/common.sh"
two_hosts

# A socket in namespace A that has joined GROUP on veth0; prints what comes, with the sender's address.
cat > member.py <<'PYTHON'
import socket, struct, sys
group, port = sys.argv[1], int(sys.argv[2])
v6 = ":" in group
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", port))
index = socket.if_nametoindex("veth0")
if group == "none":
    s.setsockopt(socket.IPPROTO_IP, 49, 0)  # IP_MULTICAST_ALL
elif v6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index))
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("=4s4si", socket.inet_aton(group), socket.inet_aton("0.0.0.0"), index))
print("joined", flush=True)
while True:
    data, sender = s.recvfrom(65536)
    print(sender[0], data.decode().strip(), flush=True)
PYTHON

# Sends TEXT to HOST from namespace A's kernel.
cat > send.py <<'PYTHON'
import socket, struct, sys
host, port, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
index = socket.if_nametoindex("veth0")
v6 = ":" in host
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
if v6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4s4si", b"\0" * 4, b"\0" * 4, index))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"veth0")
s.sendto(text.encode(), (host, port))
PYTHON

stack_file ours.toml packet 12
printf '[stack.main]\ndriver = { kind = "kernel_udp" }\npush = ["timod"]\n' > kernel_udp.toml
ip -n $NS_B route add 224.0.0.0/4 dev veth0
background capture in_a tshark -l -i veth0 -V
wait_for capture.err Capturing

# Only we join GROUP, and only the kernel ITS-GROUP.
try() {  # NAME STACK-FILE GROUP OTHER-GROUP ITS-GROUP OUR-ADDRESS
  local family=$1 file=$2 group=$3 other=$4 theirs=$5 ours=$6
  # The kernel sends, we are the member.
  background "member$family" in_b "$SLUICE" nc --stack "$file" -l -v -p 4000 --join "$group"
  wait_for "member$family.err" listening
  expect "v$family: the kernel sends to another group" in_a python3 send.py "$other" 4000 "not for us"
  expect "v$family: the kernel sends to the group" in_a python3 send.py "$group" 4000 "from the kernel"
  wait_for "member$family.out" "from the kernel"
  expect "v$family: and we get that alone" bash -c "! grep -q 'not for us' member$family.out"
  expect "v$family: SIGINT ends it well" stop "member$family"

  # We send, a socket of the kernel's is the member.
  background "kernel$family" in_a python3 member.py "$theirs" 5000
  wait_for "kernel$family.out" joined
  expect_exit 0 "v$family: we send to the group" in_b bash -c "echo from sluice | '$SLUICE' nc --stack $file -q 0.5 $theirs 5000"
  wait_for "kernel$family.out" "$ours from sluice"
  kill "${PID[kernel$family]}"
  finish "kernel$family" || true
}

try 4 ours.toml 239.1.2.3 239.1.2.4 239.1.2.5 10.77.0.12
try 6 ours.toml ff15::1:2:3 ff15::1:2:4 ff15::1:2:5 fd00:77::12

# Broadcasts.
background listener in_b "$SLUICE" nc --stack ours.toml -l -v -p 4000
wait_for listener.err listening
for host in 255.255.255.255 10.77.0.255; do
  expect "the kernel sends to $host" in_a python3 send.py $host 4000 "to $host"
  wait_for listener.out "to $host"
done
expect "SIGINT ends it well" stop listener
background kernel in_a python3 member.py none 5000
wait_for kernel.out joined
expect_exit 1 "a broadcast is refused" in_b bash -c "echo secret | '$SLUICE' nc --stack ours.toml -w 5 10.77.0.255 5000"
expect "as EACCES" grep -q "Permission denied" last.err
for host in 255.255.255.255 10.77.0.255; do
  expect_exit 0 "with --broadcast it goes to $host" in_b bash -c "echo to $host | '$SLUICE' nc --stack ours.toml --broadcast -q 0.5 $host 5000"
  wait_for kernel.out "10.77.0.12 to $host"
done
expect "and nothing else came" bash -c '! grep -q secret kernel.out'
kill "${PID[kernel]}"
finish kernel || true

expect_exit 4 "what is no group cannot be joined" in_b "$SLUICE" nc --stack ours.toml -l --join 10.77.0.1
expect "and is named" grep -q "10.77.0.1: no multicast group" last.err

stop capture || true
expect "IGMP says that we joined" grep -q "Group Record : 239.1.2.3 *Change To Exclude Mode" capture.out
expect "and left" grep -q "Group Record : 239.1.2.3 *Change To Include Mode" capture.out
expect "MLD says that we joined" grep -q "Changed to exclude: ff15::1:2:3" capture.out
expect "and left" grep -q "Changed to include: ff15::1:2:3" capture.out
expect "nothing is malformed" bash -c '! grep -qiE "checksum status: bad|malformed" capture.out'

try 4-kernel kernel_udp.toml 239.1.2.3 239.1.2.4 239.1.2.5 $ADDR_B
try 6-kernel kernel_udp.toml ff15::1:2:3 ff15::1:2:4 ff15::1:2:5 $ADDR6_B
