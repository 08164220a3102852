#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `sluice run` over xdp in both modes while system calls, and those that load its program, fail one at a time (sluice.py).
E2E_WANTS=xdp
source "$(dirname "$0")/../hostile/link.sh"

for mode in generic native; do
  stack_file host.toml xdp 12 '"ip", "udp"'
  sed -i "s/device = \"veth0\"/&, mode = \"$mode\", frames = 256/" host.toml
  expect "run, xdp, $mode" in_a python3 "$TOP/tests/faults/sluice.py" host veth0 $NS_B "$SLUICE" run --json host.toml
done
