#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx between two namespaces over veth: with packet, with pcap and over kernel UDP, IPv4 and IPv6. The files are equal
# and nothing is out of order on a link that keeps order.
source "$(dirname "$0")/common.sh"
two_hosts

size_mib=${FTX_TEST_MIB:-64}
head -c "${size_mib}M" /dev/urandom > big.bin

transfer() {  # NAME SENDER-OPTIONS RECEIVER-OPTIONS ADDRESS
  local name=$1 sender=$2 receiver=$3 address=$4
  mkdir "in-$name"
  # shellcheck disable=SC2086
  background "serve-$name" in_b "$FTX" serve "in-$name" $receiver --port 7070 --once --insecure --json
  wait_for "serve-$name.out" listening
  # shellcheck disable=SC2086
  in_a "$FTX" big.bin "ftx://$address:7070/" $sender --insecure --json > "send-$name.out"
  expect "$name: the server ends well" finish "serve-$name"
  expect "$name: the files are equal" cmp big.bin "in-$name/big.bin"
  rm "in-$name/big.bin"
  echo "   sender:   $(tail -1 "send-$name.out")"
  echo "   receiver: $(tail -1 "serve-$name.out")"
  [ "$(json_field "serve-$name.out" done bytes)" = $((size_mib << 20)) ]
}

for driver in packet pcap; do
  stack_file $driver-a.toml $driver 11
  stack_file $driver-b.toml $driver 12
  transfer $driver-v4 "--stack $driver-a.toml" "--stack $driver-b.toml --listen 10.77.0.12" 10.77.0.12
  transfer $driver-v6 "--stack $driver-a.toml" "--stack $driver-b.toml --listen fd00:77::12" '[fd00:77::12]'
done
transfer kernel-v4 "" "--listen $ADDR_B" $ADDR_B
transfer kernel-v6 "" "--listen $ADDR6_B" "[$ADDR6_B]"
# Ours against the kernel's, both ways.
transfer packet-to-kernel "--stack packet-a.toml" "--listen $ADDR_B" $ADDR_B
transfer kernel-to-packet "" "--stack packet-b.toml --listen 10.77.0.12" 10.77.0.12
