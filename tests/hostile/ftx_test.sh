#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases, and those of ftx itself, against `ftx serve` on either path: no file comes of them.
source "$(dirname "$0")/link.sh"

for path in layered fused; do
  stack_file user.toml packet 12 '"ip", "udp", "timod"' "path = \"$path\"
host = false"  # its own stream alone, so that nobody else answers
  mkdir "in-$path"
  expect "$path" hostile server "$FTX" serve "in-$path" --insecure --json --stack user.toml
  expect "$path: no file came of it" test -z "$(ls -A "in-$path")"
done
