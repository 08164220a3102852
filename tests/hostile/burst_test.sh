#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever comes to `sluice run` in one burst is answered, on either path. BURST_SEED repeats a run.
source "$(dirname "$0")/link.sh"

for path in layered fused; do
  stack_file host.toml packet 12 '"ip", "udp"' "path = \"$path\""
  sed -i 's/device = "veth0"/&, ring_bytes = 67108864/' host.toml
  expect "$path" in_a python3 "$TOP/tests/hostile/burst.py" veth0 $NS_B "${BURST_SEED:-$RANDOM}" "$SLUICE" run --json host.toml
done
