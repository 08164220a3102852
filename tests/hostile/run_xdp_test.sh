#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice run` over AF_XDP, in both modes.
E2E_WANTS=xdp
source "$(dirname "$0")/link.sh"

for mode in generic native; do
  stack_file host.toml xdp 12 '"ip", "udp"'
  sed -i "s/device = \"veth0\"/&, mode = \"$mode\"/" host.toml
  expect "xdp, $mode" hostile filtered_host "$SLUICE" run --json host.toml
done
