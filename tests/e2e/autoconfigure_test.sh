#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A host that has no address asks the router of its link for one: the kernel answers, forwards and pings, a program of a
# few lines advertises (router.py). What a false router says is not heeded. Waiting takes no processor.
source "$(dirname "$0")/common.sh"

two_namespaces
ip -n $NS_B link set veth0 address 02:00:00:00:00:12
for ns in $NS_A $NS_B; do
  ip netns exec $ns sysctl -qw net.ipv6.conf.veth0.accept_dad=0
done
ip netns exec $NS_B sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
in_a sysctl -qw net.ipv6.conf.all.forwarding=1
ip -n $NS_A link set lo up
ip -n $NS_A address add 2001:db8:99::1/128 dev lo
ip -n $NS_A link set veth0 up
ip -n $NS_B link set veth0 up
ip -n $NS_A address add 2001:db8:77::1/64 dev veth0 nodad

cat > host.toml <<'TOML'
[stack.main]
driver = { kind = "packet", device = "veth0" }
push   = ["ip", "udp"]
ip     = { autoconfigure = true }
TOML
OURS=2001:db8:77::ff:fe00:12

mkfifo advertisements
exec {pipe}<> advertisements
INPUT=advertisements background router in_a python3 "$TOP/tests/e2e/router.py" veth0
advertise() {  # LINE
  local before
  before=$(grep -c sent router.out || true)
  echo "$1" >&$pipe
  for _ in $(seq 200); do
    [ "$(grep -c sent router.out || true)" -gt "$before" ] && return 0
    sleep 0.05
  done
  return 1
}
echo "1800 2001:db8:77:: 64 86400 14400 c0" >&$pipe
wait_for router.out ready

background host in_b "$SLUICE" run --json host.toml
wait_for router.out solicited
wait_for host.out running
expect "its address is told" grep -q "address $OURS is used" host.err
expect "it is pinged from the link" in_a ping -n -c 2 -i 0.2 -W 5 -I 2001:db8:77::1 $OURS
expect "and answers through the default route" in_a ping -n -c 2 -i 0.2 -W 5 -I 2001:db8:99::1 $OURS

# What a false router says: from no link-local address, through another router, prefixes that are none.
advertise "once 1800 2001:db8:66:: 64 86400 14400 c0 source=2001:db8:77::1"
advertise "once 1800 2001:db8:66:: 64 86400 14400 c0 hops=254"
advertise "once 1800 2001:db8:66:: 129 86400 14400 c0 2001:db8:66:: 0 86400 14400 c0 2001:db8:66:: 64 10 20 40"
advertise "once 1800 2001:db8:77:: 64 0 0 c0"  # within two hours no address goes (RFC 4862 section 5.5.3 (e))
advertise "1800 2001:db8:77:: 64 86400 14400 c0"
expect "it is still there" in_a ping -n -c 1 -W 5 -I 2001:db8:99::1 $OURS
kill -USR1 "${PID[host]}"
wait_for host.out router_advertisements
expect "two advertisements are none" test "$(counter host.out ip bad_ndp)" -eq 2
expect "three prefixes are none" test "$(counter host.out ip prefixes_refused)" -eq 3
expect "one address was formed" test "$(counter host.out ip addresses_formed)" -eq 1

ticks() { awk '{ print $14 + $15 }' "/proc/${PID[host]}/stat"; }
before=$(ticks)
sleep 2
used=$(($(ticks) - before))
expect "waiting takes no processor ($used ticks)" test $used -le $((2 * $(getconf CLK_TCK) / 100))

advertise "0 2001:db8:77:: 64 86400 14400 c0"
expect "without a router there is no way beyond the link" bash -c "! ip netns exec $NS_A ping -n -c 1 -W 1 -I 2001:db8:99::1 $OURS"
expect "but on it" in_a ping -n -c 1 -W 5 -I 2001:db8:77::1 $OURS
expect "SIGINT ends it well" stop host
exec {pipe}>&-
kill "${PID[router]}"
