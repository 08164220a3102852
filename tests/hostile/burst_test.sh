#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever comes in one burst to `sluice run` and `ftx serve`, on either path, and to `sluice bridge`, brings what it must.
# BURST_SEED repeats a run.
source "$(dirname "$0")/link.sh"

burst() {  # WHAT DEVICE PROGRAM...
  expect "$1" in_a python3 "$TOP/tests/hostile/burst.py" "$1" "$2" $NS_B "${BURST_SEED:-$RANDOM}" "${@:3}"
}
for path in layered fused; do
  stack_file host.toml packet 12 '"ip", "udp"' "path = \"$path\""
  stack_file user.toml packet 12 '"ip", "udp", "timod"' "path = \"$path\""
  sed -i 's/device = "veth0"/&, ring_bytes = 67108864/' host.toml user.toml
  echo "$path"
  burst host veth0 "$SLUICE" run --json host.toml
  mkdir "in-$path"
  burst server veth0 "$FTX" serve "in-$path" --insecure --json --stack user.toml
done
two_links
cat > bridge.toml <<'TOML'
[stack.one]
driver = { kind = "packet", device = "veth0", ring_bytes = 67108864 }
[stack.other]
driver = { kind = "packet", device = "veth1", ring_bytes = 67108864 }
TOML
burst bridge veth0,veth1 "$SLUICE" bridge bridge.toml one other
