#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice run`, on either path.
source "$(dirname "$0")/link.sh"

for path in layered fused; do
  stack_file host.toml packet 12 '"ip", "udp"' "path = \"$path\""
  expect "$path" hostile host "$SLUICE" run --json host.toml
done
