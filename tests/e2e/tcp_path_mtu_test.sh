#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP and the kernel's through a router whose far link carries less than the hosts' own, over IPv4 and IPv6:
# what either sends comes whole, nothing is fragmented, and segments are as large as the path carries, also when it
# shrinks in the middle. Where nobody says so, they get smaller when they time out.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/routed.sh"
# What the kernel's end offers (MSS) does not follow its link, so that it is the router who has to say what passes.
in_b ip route change default via 10.77.2.254 advmss 8960
in_b ip -6 route change default via fd00:772::fe advmss 8940
PEER=$TOP/tests/e2e/kernel_peer.py

# Ours is at A, where the link carries 9000 bytes and so is not the one that limits.
cat > our.toml <<'TOML'
[stack.main]
driver = { kind = "packet", device = "veth0" }
push   = ["ip", "tcp", "timod"]
ip     = { address = ["10.77.1.11/24", "fd00:771::11/64"], gateway = ["10.77.1.254", "fd00:771::fe"] }
TOML

segments() {  # NAME: how large are those that B got, and fragments
  tshark -r "$1.pcap" -Y 'tcp.dstport == 5000 or ip.flags.mf == 1 or ip.frag_offset > 0 or ipv6.fraghdr.nxt' \
    -T fields -e frame.len -e ip.flags.mf -e ip.frag_offset -e ipv6.fraghdr.offset > "$1.packets" 2> last.err
}
listens() {  # PORT, in B
  local i
  for i in $(seq 600); do
    in_b ss -Hlnt "sport = :$1" | grep -q . && return 0
    sleep 0.05
  done
  return 1
}

# through NAME ADDRESS [COMMAND...]: both ways at once; the command is run when a part has come.
through() {
  local name=$1 address=$2
  shift 2
  background "dump-$name" in_b dumpcap -q -B 32 -s 128 -i veth0 -w "$name.pcap"
  wait_for "dump-$name.err" "File: "
  background "peer-$name" in_b python3 "$PEER" listen "$address" 5000 ${1:+receive=500000} ${1:+pause=1} sending=big.bin receive
  listens 5000
  INPUT=big.bin background "ours-$name" in_a "$SLUICE" nc --stack our.toml -v "$address" 5000
  if [ $# -gt 0 ]; then
    until [ "$(stat -c %s "peer-$name.out")" -ge 500000 ]; do sleep 0.02; done
    "$@"
  fi
  expect "$name: ours ends well" finish "ours-$name"
  expect "$name: so does the kernel's end" finish "peer-$name"
  expect "$name: what we sent is whole" cmp big.bin "peer-$name.out"
  expect "$name: what the kernel sent is whole" cmp big.bin "ours-$name.out"
  sleep 0.3  # what dumpcap has yet to write
  stop "dump-$name" || true
  segments "$name"
}

through jumbo 10.77.2.1
check jumbo 9000
far_mtu 1400
through told 10.77.2.1
check told 1400
through told6 fd00:772::1
check told6 1400

for address in 10.77.2.1 fd00:772::1; do
  name=shrinks-$address
  far_mtu 9000
  through "$name" "$address" far_mtu 1300
  expect "$name: nothing is fragmented" no_fragments "$name"
  expect "$name: first in jumbo frames" [ "$(largest_before "$name")" -gt 0 ]
  expect "$name: then in packets that fit" [ "$(largest_after "$name")" -gt 100 ]
done

# The path drops what is too large and says nothing (RFC 4821 section 7.7): packets of 1024 bytes, or what every host of
# IPv6 takes.
packets_of() { awk -v want=$(($2 + 14)) '$1 == want' "$1.packets" | wc -l; }
for where in "10.77.2.1 1024" "fd00:772::1 1280"; do
  read -r address bytes <<< "$where"
  name=silent-$address
  far_mtu 9000
  through "$name" "$address" far_mtu 1300 9000
  expect "$name: nothing is fragmented" no_fragments "$name"
  expect "$name: first in jumbo frames" [ "$(largest_before "$name")" -gt 0 ]
  expect "$name: then in packets of $bytes bytes ($(packets_of "$name" "$bytes"))" [ "$(packets_of "$name" "$bytes")" -gt 1000 ]
done
