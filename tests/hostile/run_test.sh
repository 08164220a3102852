#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice run`, on either path.
source "$(dirname "$0")/link.sh"

# So that what the trial says to be left to hardware stays so.
in_a ethtool -K veth0 tx on gso on tso on tx-udp-segmentation on > ethtool.out 2>&1
for path in layered fused; do
  stack_file host.toml packet 12 '"ip", "udp"' "path = \"$path\""
  expect "$path" hostile offload_host "$SLUICE" run --json host.toml
done
