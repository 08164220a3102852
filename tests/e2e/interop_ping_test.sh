#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `sluice run` as a host beside the kernel's: it is found by ARP and neighbour discovery, answers ping, also in fragments
# both ways, says port unreachable, and counts what it did. With packet, pcap and tap; IPv4 and IPv6; small MTUs.
source "$(dirname "$0")/common.sh"
two_hosts

answered() {  # COUNT PING-ARGUMENTS: every request is answered, and none twice
  local count=$1
  shift
  in_a ping -n -c "$count" -i 0.05 -W 5 "$@" > ping.out || true
  grep -q "^$count packets transmitted, $count received, 0% packet loss" ping.out && return
  cat ping.out >&2
  return 1
}

at_least() {  # FILE MODULE COUNTER NUMBER
  local value
  value=$(counter "$1" "$2" "$3")
  [ "$value" -ge "$4" ] || { echo "$2 counted $value $3, expected at least $4" >&2; return 1; }
}

neighbour_is() {  # ADDRESS DEVICE MAC: so stands in the kernel's neighbour cache
  in_a ip neighbour show "$1" dev "$2" | grep -q "lladdr $3 "
}

# Netcat sends twice, a second apart; the second fails when the kernel has been told.
refused() {  # ADDRESS: so a port where nobody listens is refused (ECONNREFUSED)
  ! in_a nc -v -u -z -w 2 "$1" 4242 2> nc.err
}

exchange() {  # NAME V4 V6 LARGE: what every host must do
  answered 3 "$2"
  answered 2 -s "$4" "$2"
  answered 3 "$3"
  answered 2 -s "$4" "$3"
  echo "ok: $1: ping, and ping -s $4, IPv4 and IPv6"
}

host_test() {  # NAME STACK-FILE PEER-DEVICE MAC-OF-OURS RUN-IN: a host on 10.77.0.12 and fd00:77::12, seen from A
  local name=$1 v4=10.77.0.12 v6=fd00:77::12
  background "$name" "$5" "$SLUICE" run --json "$2"
  wait_for "$name.out" running
  attach "$3"
  exchange "$name" $v4 $v6 60000
  expect "$name: the kernel knows our MAC address by ARP" neighbour_is $v4 "$3" "$4"
  expect "$name: and by neighbour discovery" neighbour_is $v6 "$3" "$4"
  expect "$name: IPv4 port unreachable is ECONNREFUSED" refused $v4
  expect "$name: IPv6 port unreachable is ECONNREFUSED" refused $v6
  kill -USR1 "${PID[$name]}"
  wait_for "$name.out" '"modules"'
  expect "$name: SIGUSR1 prints the echo requests answered" at_least "$name.out" ip echo_answered 10
  expect "$name: SIGINT ends it well" stop "$name"
  [ "$(grep -c '"modules"' "$name.out")" -eq 2 ] || { echo "$name: no counters at the end" >&2; exit 1; }
  local fragments=$((4 * 60000 / 1500))
  expect "$name: requests came in fragments" at_least "$name.out" ip fragments_in $fragments
  expect "$name: and were made whole" at_least "$name.out" ip reassembled 4
  expect "$name: answers left in fragments" at_least "$name.out" ip fragmented 4
  expect "$name: ports were unreachable" at_least "$name.out" udp port_unreachable 2
  expect "$name: and that was told" at_least "$name.out" ip icmp_errors_out 2
}

attach() { :; }
mac=$(in_b cat /sys/class/net/veth0/address)
for driver in packet pcap; do
  stack_file $driver.toml $driver 12 '"ip", "udp"'
  in_a ip neighbour flush dev veth0
  host_test $driver $driver.toml veth0 "$mac" in_b
done

# At the far end of a TAP device the address is the stack's own, and the kernel's side is the device.
in_a ip link set veth0 down
cat > tap.toml <<'TOML'
[stack.main]
driver = { kind = "tap", device = "tap0", mac = "02:00:00:00:77:12" }
push   = ["ip", "udp"]
ip     = { address = ["10.77.0.12/24", "fd00:77::12/64"] }
TOML
attach() {
  in_a ip link set "$1" up
  in_a ip address add $ADDR_A/24 dev "$1"
  in_a ip address add $ADDR6_A/64 dev "$1" nodad
}
host_test tap tap.toml tap0 02:00:00:00:77:12 in_a
in_a ip link set veth0 up
in_a ip address add $ADDR6_A/64 dev veth0 nodad 2>/dev/null || true
attach() { :; }

# Small links; the counters as text. IPv6 wants 1280 (RFC 8200 section 5): "IPv6 requires that every link in the Internet
# have an MTU of 1280 octets or greater".
set_mtu() {
  ip -n $NS_A link set veth0 mtu "$1"
  ip -n $NS_B link set veth0 mtu "$1"
}
small_link() {  # MTU STACK-FILE ADDRESS...
  local mtu=$1 file=$2 address
  shift 2
  set_mtu "$mtu"
  background "mtu-$mtu" in_b "$SLUICE" run "$file"
  wait_for "mtu-$mtu.out" running
  for address in "$@"; do
    expect "mtu $mtu: ping -s 60000 $address" answered 2 -s 60000 "$address"
  done
  expect "mtu $mtu: SIGINT ends it well" stop "mtu-$mtu"
  expect "mtu $mtu: the counters say so" grep -q "$((2 * $#)) echo_answered (echo requests answered)" "mtu-$mtu.out"
}
small_link 1280 packet.toml 10.77.0.12 fd00:77::12
sed 's|, "fd00:77::12/64"||' packet.toml > packet4.toml
small_link 576 packet4.toml 10.77.0.12
expect_exit 4 "a link too small for IPv6 is refused" in_b "$SLUICE" run packet.toml
grep -q 'IPv6 requires an MTU of 1280 bytes, the link has 576' last.err
