#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx between two namespaces over veth: with packet, with pcap and over kernel UDP, IPv4 and IPv6. The files are equal
# and nothing is out of order on a link that keeps order.
source "$(dirname "$0")/common.sh"
two_hosts

size_mib=${FTX_TEST_MIB:-64}
source "$TOP/tests/e2e/ftx_transfer.sh"

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
