# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the path MTU, after common.sh: two hosts with a router between them whose far link may carry
# less, files that go from A to B, and what their packets were.
#
#   far_mtu BYTES [ROUTER'S]   of the far link
#   transfer NAME ADDRESS [OPTIONS]   begins to send big.bin; $SERVE_OPTIONS are the server's
#   ended NAME           it has ended, and well; the packets that B got are in NAME.packets: their length, and whether
#                        they are fragments
#   check NAME BYTES     nothing was fragmented, and most of the data went in packets of so many bytes of IP
#   packet MTU HEADERS   an IP packet of a DATA that is as large as fits behind HEADERS bytes of IP and UDP
#   shrink NAME ADDRESS [OPTIONS]     a transfer under which the far link shrinks from 9000 bytes to 1300, silently

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

transfer() {
  local name=$1 address=$2
  shift 2
  mkdir "in-$name"
  background "dump-$name" in_b dumpcap -q -B 32 -s 128 -i veth0 -w "$name.pcap"
  wait_for "dump-$name.err" "File: "
  background "serve-$name" in_b "$FTX" serve "in-$name" ${SERVE_OPTIONS:-} --port 7070 --once --insecure --json
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
# The payload of a DATA is a multiple of 16, behind 32 bytes of ours.
packet() { echo $(( ($1 - $2 - 32) / 16 * 16 + 32 + $2 )); }

received() { ip -n $NS_B -s link show veth0 | awk '/RX:/ { getline; print $1 }'; }
largest_before() { awk '$1 > 8000' "$1.packets" | wc -l; }
largest_after() { awk '$1 - 14 > 1300 - 32 && $1 - 14 <= 1304' "$1.packets" | wc -l; }  # the link leaves room for a VLAN tag
shrink() {
  local name=$1 i before
  far_mtu 9000
  before=$(received)
  RATE=20 transfer "$@"
  for i in $(seq 200); do
    [ "$(received)" -gt $((before + 500000)) ] && break
    sleep 0.02
  done
  far_mtu 1300 9000
  ended "$name"
  expect "$name: nothing is fragmented" no_fragments "$name"
  expect "$name: first in jumbo frames ($(largest_before "$name"))" [ "$(largest_before "$name")" -gt 0 ]
  expect "$name: then in packets that fit ($(largest_after "$name"))" [ "$(largest_after "$name")" -gt 100 ]
}
