#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `sluice nc` over kernel_tcp, and over our own tcp and ip, against the kernel's netcat in another namespace, each as the
# one that listens and as the one that calls: megabytes both ways at once, contents checked, each direction ended for
# itself; IPv4 and IPv6; a port where nobody listens, and a peer that is killed. tshark finds nothing wrong with our
# segments.
source "$(dirname "$0")/common.sh"
two_hosts

printf '[stack.main]\ndriver = { kind = "kernel_tcp" }\npush = ["timod"]\n' > kernel_tcp.toml
stack_file tcp.toml packet 12 '"ip", "tcp", "timod"'
head -c 3000000 /dev/urandom > question
head -c 2000000 /dev/urandom > reply

# Our input ends when the kernel's netcat has sent everything: it ends itself when the other side has, whatever it has
# still to send. NAME.in is the input, which descriptor 9 holds open.
start_ours() {  # NAME ARGUMENT...
  local name=$1
  shift
  rm -f "$name.in"
  mkfifo "$name.in"
  INPUT=$name.in background "$name" in_b "$SLUICE" nc --stack "$stack" -v "$@"
  exec 9> "$name.in"
}

interop() {  # FAMILY OUR-ADDRESS ITS-ADDRESS
  local family=$1 ours=$2 its=$3
  start_ours "server-$family" -l -p 4000
  wait_for "server-$family.err" listening
  # -N: "shutdown(2) the network socket after EOF on the input" (nc(1)).
  INPUT=question background "caller-$family" in_a nc "-$family" -N "$ours" 4000 9>&-
  cat reply >&9
  expect "IPv$family: the kernel calls us, and what it sends is whole" arrived "server-$family.out" question
  exec 9>&-
  expect "both directions having ended, ours ends" finish "server-$family"
  finish "caller-$family" || true
  expect "what we sent is whole" cmp reply "caller-$family.out"
  expect "we say who called" grep -q 'connection from' "server-$family.err"

  INPUT=question background "listener-$family" in_a nc "-$family" -N -l -p 5000
  kernel_listens 5000 tcp
  start_ours "call-$family" "$its" 5000
  cat reply >&9
  expect "IPv$family: we call the kernel, and what it sends is whole" arrived "call-$family.out" question
  exec 9>&-
  expect "both directions having ended, ours ends" finish "call-$family"
  finish "listener-$family" || true
  expect "what we sent is whole" cmp reply "listener-$family.out"
}

everything() {  # STACK-FILE OUR-ADDRESS OUR-IPV6-ADDRESS
  local stack=$1
  interop 4 $2 $ADDR_A
  interop 6 $3 $ADDR6_A

  expect_exit 1 "a port where nobody listens is told" in_b bash -c "echo x | '$SLUICE' nc --stack $stack $ADDR_A 6000"
  expect "by its name" grep -q 'Connection refused' last.err
  expect_exit 2 "groups are for datagrams" in_b "$SLUICE" nc --stack "$stack" --join 239.1.2.3 $ADDR_A 6000

  # A peer that is killed with bytes unread resets the connection.
  background killed in_a python3 -c "
import socket, time
s = socket.create_server(('$ADDR_A', 5001))
s.accept()[0].recv(1, socket.MSG_PEEK)
print('unread', flush=True)
time.sleep(1000)"
  kernel_listens 5001 tcp
  rm -f caller.in
  mkfifo caller.in
  exec {caller}<> caller.in
  INPUT=caller.in background caller in_b "$SLUICE" nc --stack "$stack" $ADDR_A 5001
  echo "nobody reads this" > caller.in
  wait_for killed.out unread
  kill -KILL "${PID[killed]}"
  status=0
  finish caller || status=$?
  expect "a reset ends it with 1" [ $status = 1 ]
  expect "and is told" grep -q 'Connection reset by peer' caller.err

  # Interrupted while it waits for a caller, it ends well; nobody has called.
  background idle in_b "$SLUICE" nc --stack "$stack" -l -v -p 4001
  wait_for idle.err listening
  expect "SIGINT ends one that listens" stop idle
  expect_exit 0 "so does the time it may be idle" in_b "$SLUICE" nc --stack "$stack" -l -w 0.2 -p 4002
}

background capture in_a tshark -l -i veth0 -w segments.pcap
wait_for capture.err Capturing
everything kernel_tcp.toml $ADDR_B $ADDR6_B
everything tcp.toml 10.77.0.12 fd00:77::12
stop capture || true
tshark -r segments.pcap -o tcp.check_checksum:TRUE -d tcp.port==4000,data -d tcp.port==5000,data -z expert,error -q \
  > expert.out 2> expert.err
expect "tshark finds no error in the segments" bash -c '! grep -q Errors expert.out || { cat expert.out; false; }'
tshark -r segments.pcap -Y 'ip.src == 10.77.0.12 and tcp' > ours.out 2> ours.err
expect "which are ours, too" [ "$(wc -l < ours.out)" -gt 1000 ]
