#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `sluice nc` against the kernel's netcat, each as the one that listens and as the one that calls, text both ways; over
# kernel_udp, packet, pcap and tap; IPv4 and IPv6; datagrams of 1, 1400 and 8000 bytes, the last in fragments.
source "$(dirname "$0")/common.sh"
two_hosts

text() { head -c "$1" < <(yes "$2 ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz 0123456789"); }
for size in 1 1400 8000; do
  text $size question > "question-$size"
  text $size reply > "reply-$size"
done

# Starts a netcat of either kind, whose standard input is the pipe NAME.in.
netcat() {  # NAME COMMAND...
  mkfifo "$1.in"
  exec {pipe}<> "$1.in"  # keeps it open: end of input would end the kernel's netcat
  INPUT=$1.in background "$@"
}

# The caller has to speak first; then the other knows whom to answer.
converse() {  # CALLER LISTENER
  local caller=$1 listener=$2 size
  for size in 1 1400 8000; do
    cat question-$size >> "$caller.in"
    cat question-$size >> "$listener.expected"
    arrived "$listener.out" "$listener.expected" || return 1
    cat reply-$size >> "$listener.in"
    cat reply-$size >> "$caller.expected"
    arrived "$caller.out" "$caller.expected" || return 1
  done
}

# A TAP device has a carrier while a program is attached to it; until the kernel has noticed, it drops what it is given
# to send. What it is given to receive it takes at once.
tap_is_up() {
  local i
  for i in $(seq 200); do
    in_a ip -o link show dev tap0 | grep -q 'state UP' && return 0
    sleep 0.05
  done
  return 1
}

# Ours beside the kernel of namespace A, which is 10.77.0.1 and fd00:77::1.
nc_test() {  # NAME STACK-FILE RUN-IN OUR-ADDRESS ITS-ADDRESS FAMILY
  local name=$1-v$6 file=$2 where=$3 ours=$4 its=$5 family=$6
  netcat "$name-server" "$where" "$SLUICE" nc --stack "$file" -l -v -p 4000
  wait_for "$name-server.err" listening
  case $name in tap-*) expect "$name: the device is up" tap_is_up ;; esac
  netcat "$name-client" in_a nc "-$family" -u "$ours" 4000
  expect "$name: the kernel calls us" converse "$name-client" "$name-server"
  expect "$name: SIGINT ends ours well" stop "$name-server"
  kill "${PID[$name-client]}"

  netcat "$name-kernel" in_a nc "-$family" -u -l -p 5000
  kernel_listens 5000
  netcat "$name-caller" "$where" "$SLUICE" nc --stack "$file" "$its" 5000
  expect "$name: we call the kernel" converse "$name-caller" "$name-kernel"
  expect "$name: SIGINT ends ours well" stop "$name-caller"
  kill "${PID[$name-kernel]}"
  finish "$name-kernel" || true
}

printf '[stack.main]\ndriver = { kind = "kernel_udp" }\npush = ["timod"]\n' > kernel_udp.toml
nc_test kernel_udp kernel_udp.toml in_b $ADDR_B $ADDR_A 4
nc_test kernel_udp kernel_udp.toml in_b $ADDR6_B $ADDR6_A 6
for driver in packet pcap; do
  stack_file $driver.toml $driver 12
  nc_test $driver $driver.toml in_b 10.77.0.12 $ADDR_A 4
  nc_test $driver $driver.toml in_b fd00:77::12 $ADDR6_A 6
done

# A TAP device that stays when a program ends; its kernel side has the addresses that veth0 had.
in_a ip link set veth0 down
in_a ip tuntap add dev tap0 mode tap
in_a ip link set tap0 up
in_a ip address add $ADDR_A/24 dev tap0
in_a ip address add $ADDR6_A/64 dev tap0 nodad
stack_file tap.toml tap 12
sed -i 's/veth0/tap0/; s/device = "tap0"/&, mac = "02:00:00:00:77:12"/' tap.toml
nc_test tap tap.toml in_a 10.77.0.12 $ADDR_A 4
nc_test tap tap.toml in_a fd00:77::12 $ADDR6_A 6

# More input than one datagram takes goes out whole though nothing comes back, and ends the program when asked (-q).
text 60000 long > long
netcat listener in_a nc -u -l -p 5001
in_a ip address del $ADDR_A/24 dev tap0
in_a ip link set veth0 up
kernel_listens 5001
expect_exit 0 "a long input is sent" in_b bash -c "'$SLUICE' nc --stack packet.toml -q 0.5 $ADDR_A 5001 < long"
expect "and arrives" arrived listener.out long

expect_exit 1 "a port where nobody listens is told" in_b bash -c "echo x | '$SLUICE' nc --stack packet.toml -w 5 $ADDR_A 6000"
grep -q 'Connection refused' last.err || { cat last.err; exit 1; }
