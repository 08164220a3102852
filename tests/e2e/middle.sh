# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests with somebody in the middle of the link, after common.sh: the kernel's host in namespace A, ours in
# B, and whatever passes between them goes through the hands of a program in a third (tests/e2e/tcp_between.py).
#
#   in_the_middle PROGRAM [ARGUMENT...]   runs that program of this folder there

# veth queues frames at the processor that sends them, so those of a program that moves to another overtake each other: all
# stay on one.
taskset -pc "$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')" $$ > /dev/null

MIDDLE=middle
for ns in $NS_A $NS_B $MIDDLE; do
  ip netns add "$ns"
  ip -n "$ns" link set lo up
done
ip -n $NS_A link add veth0 type veth peer name to_a netns $MIDDLE
ip -n $NS_B link add veth0 type veth peer name to_b netns $MIDDLE
ip netns exec $MIDDLE sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.to_a.disable_ipv6=1 \
  net.ipv6.conf.to_b.disable_ipv6=1
ip netns exec $NS_B sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
for place in "$NS_A veth0" "$NS_B veth0" "$MIDDLE to_a" "$MIDDLE to_b"; do
  read -r ns device <<< "$place"
  ip netns exec "$ns" ethtool -K "$device" tx off gso off tso off gro off > /dev/null 2>&1 || true
  ip -n "$ns" link set "$device" up
done
ip -n $NS_A address add $ADDR_A/24 dev veth0
ip -n $NS_A address add $ADDR6_A/64 dev veth0 nodad

stack_file middle.toml packet 12 '"ip", "tcp", "timod"'
background server in_b "$SLUICE" serve middle.toml --socket "$DIR/sockets"
wait_for server.out 'serving sockets'

in_the_middle() {
  SLUICE=$SLUICE SOCKETS=$DIR/sockets PYTHONUNBUFFERED=1 ip netns exec $MIDDLE python3 "$TOP/tests/e2e/$1" "${@:2}"
}
