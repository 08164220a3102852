#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program with nothing to do takes no processor, whatever became of its interface: `run`, `nc` and `ftx serve` on
# `packet`, after the link went down, came up again, had another MTU and address, and was removed. What is asked is the program's own time
# (utime + stime in /proc/PID/stat), so that others on the machine do not matter.
source "$(dirname "$0")/common.sh"

ip netns add $NS_A
ip netns add $NS_B
for n in 0 1 2; do
  ip -n $NS_A link add veth$n type veth peer name veth$n netns $NS_B
  ip -n $NS_A link set veth$n up
  ip -n $NS_B link set veth$n up
  stack_file stack$n.toml packet 1$n
  sed -i "s/veth0/veth$n/" stack$n.toml
done

mkdir incoming
mkfifo nc.in
exec {pipe}<> nc.in
background run in_b "$SLUICE" run stack0.toml
INPUT=nc.in background nc in_b "$SLUICE" nc --stack stack1.toml -l -v -p 4000
background serve in_b "$FTX" serve incoming --insecure --stack stack2.toml
wait_for run.out running
wait_for nc.err listening
wait_for serve.out 7070

ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
# WHAT: in one of three spans of two seconds each takes less than 1 %, and two ticks are what the clock cannot tell from none.
# What a change brings with it (announcements, solicitations) takes a sanitized program on a loaded machine more than that
# in the first.
idle() {
  local name try used
  declare -A before
  for try in 1 2 3; do
    for name in run nc serve; do before[$name]=$(ticks "${PID[$name]}"); done
    sleep 2
    used=''
    for name in run nc serve; do
      local took=$(($(ticks "${PID[$name]}") - before[$name]))
      [ $took -le $((2 * $(getconf CLK_TCK) / 100)) ] || used+=" $name takes $took ticks of $((2 * $(getconf CLK_TCK)))"
    done
    [ -n "$used" ] || break
  done
  expect "$1: all are idle$used" test -z "$used"
}

for n in 0 1 2; do ip -n $NS_B link set veth$n down; done
sleep 0.3
idle "the link is down"
for n in 0 1 2; do ip -n $NS_B link set veth$n up; done
sleep 0.3
idle "the link came up again"
for n in 0 1 2; do ip -n $NS_A link set veth$n down; ip -n $NS_A link set veth$n up; done
sleep 0.3
idle "the peer was away"
for n in 0 1 2; do
  ip -n $NS_B link set veth$n mtu 1400
  ip -n $NS_B link set veth$n address 02:00:00:00:01:0$n
  ip -n $NS_B link set veth$n mtu 1500
done
sleep 0.3
idle "its MTU and address changed"
for n in 0 1 2; do ip -n $NS_B link del veth$n; done
sleep 0.3
idle "the interface was removed"
for name in run nc serve; do stop $name || true; done
