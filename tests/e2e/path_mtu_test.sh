#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx over kernel UDP finds the path MTU: through a router whose far link carries 1400 bytes, with and without its ICMP
# messages, over jumbo frames, and while the far link shrinks. The files are equal, nothing is fragmented, and data goes
# in packets as large as the path carries.
source "$(dirname "$0")/common.sh"

# A --- router --- B. Nothing offloads, so that each datagram is a packet.
ROUTER=router
ip netns add $NS_A
ip netns add $NS_B
ip netns add $ROUTER
ip -n $NS_A link add veth0 type veth peer name to_a netns $ROUTER
ip -n $NS_B link add veth0 type veth peer name to_b netns $ROUTER
for place in "$NS_A veth0" "$NS_B veth0" "$ROUTER to_a" "$ROUTER to_b"; do
  read -r ns device <<< "$place"
  ip netns exec "$ns" ethtool -K "$device" tx off gso off tso off gro off >/dev/null 2>&1 || true
  ip -n "$ns" link set lo up
  ip -n "$ns" link set "$device" mtu 9000 up
done
ip netns exec $ROUTER sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
net() {  # NAMESPACE DEVICE IPV4 IPV6
  ip -n "$1" address add "$3" dev "$2"
  ip -n "$1" address add "$4" dev "$2" nodad
}
net $NS_A veth0 10.77.1.1/24 fd00:771::1/64
net $ROUTER to_a 10.77.1.254/24 fd00:771::fe/64
net $NS_B veth0 10.77.2.1/24 fd00:772::1/64
net $ROUTER to_b 10.77.2.254/24 fd00:772::fe/64
in_a ip route add default via 10.77.1.254
in_b ip route add default via 10.77.2.254
in_a ip -6 route add default via fd00:771::fe
in_b ip -6 route add default via fd00:772::fe

# far_mtu BYTES [ROUTER'S]: of the far link. Where the router takes it for larger, the link drops what is too large, and
# nobody says so: a black hole.
far_mtu() {
  ip -n $ROUTER link set to_b mtu "${2:-$1}"
  in_b ip link set veth0 mtu "$1"
}

head -c 4M /dev/urandom > big.bin

# transfer NAME ADDRESS [OPTIONS]: the packets that B got are in NAME.packets: IP length, and whether it is a fragment.
transfer() {
  local name=$1 address=$2
  shift 2
  mkdir "in-$name"
  background "dump-$name" in_b dumpcap -q -B 32 -s 128 -i veth0 -w "$name.pcap"
  wait_for "dump-$name.err" "File: "
  background "serve-$name" in_b "$FTX" serve "in-$name" --port 7070 --once --insecure --json
  wait_for "serve-$name.out" listening
  background "send-$name" in_a "$FTX" big.bin "ftx://$address:7070/" --insecure --json --rate "${RATE:-40}" "$@"
}
ended() {
  local name=$1
  expect "$name: the sender ends well" finish "send-$name"
  expect "$name: the server ends well" finish "serve-$name"
  expect "$name: the files are equal" cmp big.bin "in-$name/big.bin"
  sleep 0.3  # what dumpcap has yet to write
  stop "dump-$name" || true
  tshark -r "$name.pcap" -d udp.port==7070,data -Y 'udp.dstport == 7070 or ip.flags.mf == 1 or ip.frag_offset > 0 or ipv6.fraghdr.nxt' \
    -T fields -e frame.len -e ip.flags.mf -e ip.frag_offset -e ipv6.fraghdr.offset > "$name.packets" 2>/dev/null
}
no_fragments() { ! awk '$2 == 1 || $2 == "True" || $3 > 0 { found = 1 } END { exit !found }' "$1.packets"; }
# mostly NAME BYTES: most of the data is in packets of so many bytes of IP; on a busy machine the search takes its time.
mostly() {
  awk -v want=$(($2 + 14)) '{ n[$1]++; if ($1 > 1000) { data++; sum += $1 }; if ($1 > max) max = $1 }
    END { printf "   %d packets of data, %d of %d bytes, the largest of %d\n", data, n[want], want - 14, max - 14
          exit !(n[want] * want * 10 >= sum * 7) }' "$1.packets"
}
check() {  # NAME BYTES
  expect "$1: nothing is fragmented" no_fragments "$1"
  expect "$1: data goes in packets of $2 bytes" mostly "$1" "$2"
}
# An IP packet of a DATA whose payload is a multiple of 16: headers of IP and UDP, then 56 bytes of ours.
packet() { echo $(( ($1 - $2 - 56) / 16 * 16 + 56 + $2 )); }

transfer jumbo 10.77.2.1
ended jumbo
check jumbo "$(packet 9000 28)"

transfer jumbo6 '[fd00:772::1]'
ended jumbo6
check jumbo6 "$(packet 9000 48)"

transfer capped 10.77.2.1 --datagram-bytes 3000
ended capped
check capped "$(packet 3028 28)"

far_mtu 1400
transfer told 10.77.2.1
ended told
check told "$(packet 1400 28)"
transfer told6 '[fd00:772::1]'
ended told6
check told6 "$(packet 1400 48)"

# The same link, and nobody says so.
far_mtu 1400 9000
expect "the router is silent" bash -c "! ip netns exec $NS_A ping -c 1 -W 1 -M do -s 1500 10.77.2.1 2>&1 | grep -qi 'frag needed'"

transfer silent 10.77.2.1
ended silent
check silent "$(packet 1400 28)"
transfer silent6 '[fd00:772::1]'
ended silent6
check silent6 "$(packet 1400 48)"

# The far link shrinks under a transfer, silently.
far_mtu 9000
received() { ip -n $NS_B -s link show veth0 | awk '/RX:/ { getline; print $1 }'; }
before=$(received)
RATE=20 transfer shrinks 10.77.2.1
for i in $(seq 200); do
  [ "$(received)" -gt $((before + 500000)) ] && break
  sleep 0.02
done
far_mtu 1300 9000
ended shrinks
expect "shrinks: nothing is fragmented" no_fragments shrinks
largest_before() { awk '$1 > 8000' shrinks.packets | wc -l; }
largest_after() { awk '$1 - 14 > 1300 - 32 && $1 - 14 <= 1304' shrinks.packets | wc -l; }  # the link leaves room for a VLAN tag
expect "shrinks: first in jumbo frames ($(largest_before))" [ "$(largest_before)" -gt 0 ]
expect "shrinks: then in packets that fit ($(largest_after))" [ "$(largest_after)" -gt 100 ]
