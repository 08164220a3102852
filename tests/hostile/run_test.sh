#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice run`, on either path; and beside the kernel, as a station of its own.
source "$(dirname "$0")/link.sh"

# So that what the trial says to be left to hardware stays so.
in_a ethtool -K veth0 tx on gso on tso on tx-udp-segmentation on > ethtool.out 2>&1
for path in layered fused; do
  stack_file host.toml packet 12 '"ip", "udp"' "path = \"$path\""
  expect "$path" hostile sharing_host "$SLUICE" run --json host.toml
done
in_b ip link set veth0 address 02:00:00:00:00:99
sed -i 's/device = "veth0"/&, mac = "02:00:00:00:00:12"/' host.toml
expect "a station of its own" hostile offload_host "$SLUICE" run --json host.toml
