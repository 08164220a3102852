#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx between two namespaces over veth with xdp in both modes, and against packet and kernel UDP; IPv4 and IPv6. The files
# are equal.
E2E_WANTS=xdp
source "$(dirname "$0")/common.sh"
two_hosts

size_mib=${FTX_TEST_MIB:-32}
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
