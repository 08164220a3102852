#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP against programs over the kernel's that stop reading, write single bytes, have little memory, lack options,
# close first, last, at the same time or with a reset, are killed, are not there, or call one after the other.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/kernel_tcp.sh"
two_hosts
head -c 5000000 /dev/urandom > question
head -c 5000000 /dev/urandom > reply
head -c 20000 /dev/urandom > little
for part in $(seq 12 19); do
  our_stack $part
done
stack_file our-20.toml packet 20 '"ip", "tcp", "timod"' 'tcp = { receive_buffer_bytes = 4096, send_buffer_bytes = 4096 }'
begin_capture

# ---- Who reads and writes as he likes ----

# Its window closes, is probed, and opens again, which is what these wait for.
INPUT=reply between stops we 4 12 receive=100000 pause=3 receive
INPUT=reply between stops-little it 6 13 receive_buffer=4096 receive=1000 pause=2 receive
between single-bytes it 4 14 single=little
INPUT=reply between little-buffer we 6 15 receive_buffer=4096 receive
# Ours does nothing at all for a while, and has little memory; its own input is open for so long, so that it is there.
head -c 300000 question > some
mkfifo held.in
exec 9<> held.in
INPUT=held.in between slow it 4 20 send=some 9>&-
for i in 1 2 3; do
  kill -STOP "${PID[ours-slow]}"
  sleep 0.3
  kill -CONT "${PID[ours-slow]}"
  sleep 0.1
done
exec 9>&-
for name in single-bytes slow little-buffer stops-little stops; do
  expect "$name: ours ends well" ends_well ours-$name
  expect "$name: so does the kernel's end" ends_well peer-$name
done
expect "single bytes are whole" cmp little ours-single-bytes.out
expect "what comes slowly is whole" cmp some ours-slow.out
for name in stops stops-little little-buffer; do
  expect "$name: what we sent is whole" cmp reply peer-$name.out
done

mkfifo single.in
INPUT=single.in between we-single we 4 14 receive
python3 -c "
import os
with open('single.in', 'wb', buffering=0) as pipe:
    for byte in open('little', 'rb').read(5000):
        pipe.write(bytes([byte]))"
expect "ours writes single bytes" ends_well ours-we-single
finish peer-we-single
expect "which are whole" cmp -n 5000 little peer-we-single.out

# ---- A kernel that does not have every option ----

without() {  # OPTION PART...
  in_a sysctl -qw "net.ipv4.tcp_$1=0"
  exchange "without-$1-4" we 4 "$2"
  exchange "without-$1-6" it 6 "$3"
  exchanged "without-$1-4"
  exchanged "without-$1-6"
}
without sack 12 13
without timestamps 14 15
without window_scaling 16 17
in_a sysctl -qw net.ipv4.tcp_sack=1
without timestamps 12 13
in_a sysctl -qw net.ipv4.tcp_timestamps=1 net.ipv4.tcp_window_scaling=1

# ---- Ends ----

# The kernel says everything, then hears everything, with nothing left to say; and the other way around.
INPUT=reply between it-first we 4 12 send=some shut pause=0.5 receive
mkfifo later.in
background later bash -c 'exec > later.in; until [ -e its-end-came ]; do sleep 0.05; done; cat reply'
INPUT=later.in between we-last it 6 13 send=some shut receive
expect "the kernel has ended: what it sent is there" arrived ours-we-last.out some
touch its-end-came
between we-first we 6 14 receive pause=0.5 sending=question
exchange at-once it 4 15
for name in it-first we-last we-first at-once; do
  expect "$name: ours ends well" ends_well ours-$name
  expect "$name: so does the kernel's end" ends_well peer-$name
done
expect "half closed by the kernel: both are whole" cmp some ours-it-first.out
expect "and what we sent" cmp reply peer-it-first.out
expect "then we send on" cmp reply peer-we-last.out
expect "half closed by us: what came then is whole" cmp question ours-we-first.out

# Both say at once that there is nothing to say.
for i in $(seq 5); do
  between nothing-$i we 4 16 shut receive
  ends_well ours-nothing-$i
  ends_well peer-nothing-$i
done
echo "ok: five connections without a byte"

INPUT=question between reset-at-once we 4 17 reset
INPUT=question between reset-by-caller it 6 18 receive=1 reset
INPUT=question between reset-midway we 6 16 receive=1000000 reset
for name in reset-at-once reset-by-caller reset-midway; do
  fails $name 'Connection reset by peer'
  expect "$name: the kernel's end has done its part" ends_well peer-$name
done
INPUT=question between killed we 4 19 pause=1000
wait_for peer-killed.err accepted
kill -KILL "${PID[peer-killed]}"
finish peer-killed 2> last.err || true
fails killed 'Connection reset by peer'
mkfifo silence.in
background silence bash -c 'exec sleep 1000 > silence.in'
INPUT=silence.in between we-killed it 4 19 send=some receive
expect "what the kernel sent is there" arrived ours-we-killed.out some
kill -KILL "${PID[ours-we-killed]}" "${PID[silence]}"
finish ours-we-killed 2> last.err || true
kill "${PID[peer-we-killed]}"  # which hears nothing, and waits
finish peer-we-killed || true

for address in $ADDR_A $ADDR6_A; do
  expect_exit 1 "nobody listens at $address" in_b "$SLUICE" nc --stack our-12.toml $address 6000
  expect "which is told" grep -q 'Connection refused' last.err
done

# ---- Many, one after the other ----

background peer-many in_a python3 "$PEER" listen $ADDR_A 5050 times=100 send=little receive
kernel_listens 5050 tcp
for i in $(seq 100); do
  INPUT=little background ours-many in_b "$SLUICE" nc --stack our-13.toml $ADDR_A 5050
  finish ours-many || { echo "call $i" >&2; cat ours-many.err >&2; exit 1; }
  cmp little ours-many.out
done
expect "100 calls of ours to one listener end well" ends_well peer-many
expect "and are whole" cmp <(for i in $(seq 100); do cat little; done) peer-many.out
for i in $(seq 10); do
  INPUT=little between answers it $((i % 2 * 2 + 4)) 14 send=little receive
  ends_well ours-answers
  ends_well peer-answers
  cmp little ours-answers.out
  cmp little peer-answers.out
done
echo "ok: 10 calls of the kernel's, each to a new stack of the same address"

# ---- Both call at once ----

# Where each SYN is under way when the other leaves, both ends answer with SYN,ACK.
our_stack 11 "delay_ms = 300, seed = 1"
simultaneous() {  # FAMILY OUR-ADDRESS ITS-ADDRESS
  background peer-simultaneous-$1 in_a python3 "$PEER" connect "$2" 5061 from=5060 after=ours-simultaneous-$1.err \
    sending=question receive
  wait_for peer-simultaneous-$1.err ready
  INPUT=reply background ours-simultaneous-$1 in_b "$SLUICE" nc --stack our-11.toml -v -p 5061 "$3" 5060
  exchanged simultaneous-$1
}
head -c 200000 question > some && mv some question
head -c 200000 reply > some && mv some reply
simultaneous 4 10.77.0.11 $ADDR_A
simultaneous 6 fd00:77::11 $ADDR6_A

check_segments $(seq 11 20)
seen() {  # FILTER
  tshark -r segments.pcap -Y "$1" > last.out 2> last.err && grep -q . last.out
}
expect "a window has closed" seen "tcp.window_size == 0 and tcp.flags.reset == 0 and ip.dst == 10.77.0.12"
expect "and was probed" seen "tcp.analysis.zero_window_probe and ip.src == 10.77.0.12"
for port in 5060 5061; do
  expect "a SYN was answered with SYN,ACK from $port" seen "tcp.srcport == $port and tcp.flags.syn == 1 and tcp.flags.ack == 1"
done
