#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/lab does what it says: refuses bad settings, hands on the exit code, makes the delay and the loss that were asked
# for, tells what the link did, and leaves nothing behind, however it ends.
source "$(dirname "$0")/common.sh"
lab=$TOP/scripts/lab
cd /  # the lab puts a file system of its own on /run

refuses() {  # SETTINGS TEXT
  expect_exit 125 "'$1' is refused" "$lab" "$1" -- touch "$DIR/ran"
  grep -q -- "$2" "$DIR/last.err" || { echo "FAILED: '$2' is not in:" >&2; cat "$DIR/last.err" >&2; exit 1; }
  [ ! -e "$DIR/ran" ] || { echo "FAILED: the command ran" >&2; exit 1; }
}

refuses rate 'expected KEY=VALUE'
refuses rate= 'expected KEY=VALUE'
refuses rate=fast "expected a number, found 'fast'"
refuses loss=-3 "expected a number, found '-3'"
refuses speed=3 "'speed': expected one of rate rtt"
refuses loss=150 'loss: expected 0 .. 100, found 150'
refuses rate=0 'rate_mbit: expected 0.001'
refuses rtt=1e9 'delay_ms: expected 0 .. 60000'
refuses seed=1.5 'seed: expected an integer'
refuses mtu=100 'mtu=100.: expected 1280 .. 65521'
for arguments in "" "rtt=1" "rtt=1 --" "rtt=1 true" "rtt=1 true x"; do
  # shellcheck disable=SC2086
  expect_exit 125 "arguments '$arguments': the manual" "$lab" $arguments
  grep -q "scripts/lab 'SETTINGS' -- COMMAND" "$DIR/last.err"
done
SLUICE_BIN=$DIR expect_exit 125 "programs that were not built" "$lab" '' -- true
grep -q 'build first' "$DIR/last.err"

# ---- what is left behind ----
# This test is alone in its PID namespace: what runs or holds a network namespace after the lab was left by it.
traces() {
  ps -e -o comm= | grep -c -e sluice -e sleep || true
  lsns -n -t net -o NS | wc -l
  find /run/netns /run/lab -mindepth 1 2>/dev/null | wc -l
  ip -o link | wc -l
}
before=$(traces)
nothing_left() {
  local i
  for i in $(seq 100); do
    [ "$(traces)" = "$before" ] && return 0
    sleep 0.05
  done
  ps -e >&2
  lsns -t net >&2
  return 1
}

for code in 0 1 42 255; do
  expect_exit $code "the command's exit code" "$lab" '' -- bash -c "exit $code"
  expect "nothing is left" nothing_left
done
expect_exit 127 "no such command" "$lab" '' -- no-such-command
expect_exit 137 "the command is killed" "$lab" '' -- bash -c 'sleep 100 & kill -KILL $$'
expect "nothing is left" nothing_left
expect_exit 124 "the lab is ended by timeout" timeout 3 "$lab" rtt=2 -- sleep 100
expect "nothing is left" nothing_left
background lab "$lab" rtt=2 -- bash -c 'echo started; sleep 100'
wait_for "$DIR/lab.out" started
kill -KILL "${PID[lab]}"
finish lab 2> /dev/null || true
expect "the lab is killed: nothing is left" nothing_left

# ---- what the link does ----
told() {  # COUNTER: of each way, from what the lab printed
  grep '^lab: [AB] to [AB]: ' "$DIR/last.err" | grep -o "[0-9]* $1\b" | cut -d ' ' -f 1
}
between() {  # NUMBER LOW HIGH
  awk -v number="$1" -v low="$2" -v high="$3" 'BEGIN { exit !(number >= low && number <= high) }'
}

# The least of ten is what the link alone takes; a busy machine only adds.
expect_exit 0 "rtt=40, both families" "$lab" rtt=40 -- bash -c '
  for address in $ADDR_B $ADDR6_B; do ip netns exec $NS_A ping -n -c 10 -i 0.1 $address; done'
for least in $(sed -n 's|^rtt min/avg.* = \([0-9.]*\)/.*|\1|p' "$DIR/last.out"); do
  expect "rtt=40: $least ms" between "$least" 38 52
done
[ "$(grep -c '10 packets transmitted, 10 received' "$DIR/last.out")" -eq 2 ]

expect_exit 0 "loss=10 duplicate=10" "$lab" 'rtt=1 loss=10 duplicate=10' -- \
  bash -c 'ip netns exec $NS_A ping -n -q -f -c 1000 $ADDR_B || true'
[ "$(told in | wc -l)" -eq 2 ] || { echo "FAILED: the lab did not tell what the link did" >&2; cat "$DIR/last.err" >&2; exit 1; }
for counter in lost duplicated; do
  paste <(told in) <(told $counter) > "$DIR/counts"
  while read -r all some; do
    expect "10 % of $all $counter: $some" between "$some" "$(awk "BEGIN { print 0.06 * $all }")" "$(awk "BEGIN { print 0.14 * $all }")"
  done < "$DIR/counts"
done
answered=$(sed -n 's/.*transmitted, \([0-9]*\) received.*/\1/p' "$DIR/last.out")
expect "0.9 * 0.9 of 1000 pings are answered: $answered" between "$answered" 740 880

# Ten datagrams of 60000 bytes at once are more than 2 Mbit/s and 100 kB of queue take.
expect_exit 0 "rate=2 queue=100000" "$lab" 'rate=2 queue=100000' -- bash -c 'ip netns exec $NS_A ping -q -c 1 $ADDR_B; ip netns exec $NS_A python3 -c "
import os, socket
endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(10):
    endpoint.sendto(bytes(60000), (os.environ[\"ADDR_B\"], 9))
"; sleep 0.5'
expect "the queue dropped: $(told queue_dropped | head -1)" between "$(told queue_dropped | head -1)" 100 400

expect_exit 0 "mtu=9000 is the devices'" "$lab" mtu=9000 -- bash -c 'cat /sys/class/net/lo/mtu; ip netns exec $NS_A ip link show $DEV_A'
grep -q 'wan0.* mtu 9000' "$DIR/last.out"
