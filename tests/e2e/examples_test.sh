#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every example stack file is good, and `sluice explain` names each of its modules.
set -euo pipefail
cd "$(dirname "$0")/../.."
sluice=${SLUICE_BIN:-build/release/bin}/sluice
count=0
for file in examples/stacks/*.toml; do
  "$sluice" check "$file"
  for stack in $(sed -n 's/^\[stack\.\(.*\)\]$/\1/p' "$file"); do
    "$sluice" explain "$file" --name "$stack" --json | python3 -c '
import json, sys
explained = json.load(sys.stdin)
assert explained["modules"] and all(module["effect"] for module in explained["modules"]), explained'
    count=$((count + 1))
  done
done
echo "$count stacks explained"
[ $count -ge 10 ]
