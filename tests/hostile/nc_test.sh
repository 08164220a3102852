#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice nc`, on either path: it writes nothing of them, and goes on.
source "$(dirname "$0")/link.sh"

for path in layered fused; do
  stack_file user.toml packet 12 '"ip", "udp", "timod"' "path = \"$path\"
host = false"  # its own stream alone, so that nobody else answers
  expect "$path" hostile listener "$SLUICE" nc --stack user.toml -l -v -p 4000
done
