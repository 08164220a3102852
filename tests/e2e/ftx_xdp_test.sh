#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx between two namespaces over veth with xdp in both modes, and against packet and kernel UDP; IPv4 and IPv6. The files
# are equal.
E2E_WANTS=xdp
source "$(dirname "$0")/common.sh"
two_hosts

size_mib=${FTX_TEST_MIB:-32}
source "$TOP/tests/e2e/ftx_transfer.sh"

for side in a:11 b:12; do
  stack_file packet-${side%:*}.toml packet ${side#*:}
  for mode in generic native; do
    for path in layered fused; do
      stack_file $mode-$path-${side%:*}.toml xdp ${side#*:}
      sed -i "s/device = \"veth0\"/&, mode = \"$mode\"/; s/^driver/mode = \"$path\"\n&/" $mode-$path-${side%:*}.toml
    done
  done
done
for mode in generic native; do
  transfer $mode-v4 "--stack $mode-fused-a.toml" "--stack $mode-fused-b.toml --listen 10.77.0.12" 10.77.0.12
  transfer $mode-v6 "--stack $mode-layered-a.toml" "--stack $mode-layered-b.toml --listen fd00:77::12" '[fd00:77::12]'
done
transfer packet-to-xdp "--stack packet-a.toml" "--stack native-fused-b.toml --listen 10.77.0.12" 10.77.0.12
transfer xdp-to-packet "--stack native-fused-a.toml" "--stack packet-b.toml --listen 10.77.0.12" 10.77.0.12
transfer xdp-to-kernel "--stack generic-fused-a.toml" "--listen $ADDR_B" $ADDR_B
transfer kernel-to-xdp "" "--stack generic-fused-b.toml --listen 10.77.0.12" 10.77.0.12
