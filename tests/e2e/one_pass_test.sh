#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How often each payload byte is touched: what the touch counters of both sides of an `ftx` run over veth read is what
# `sluice explain` says of the stack, layered and fused. Over `packet` that is, fused, one load and one store on either
# side. The counters include headers: 56 bytes of ADU header, which are copied in front of the payload and again into the
# frame, and 42 of UDP, IP and Ethernet, in datagrams of 1472 bytes; so a share above is expected, and nothing below.
source "$(dirname "$0")/common.sh"
two_hosts

size_mib=${FTX_TEST_MIB:-256}
head -c "${size_mib}M" /dev/urandom > big.bin

run() {  # PATH
  local path=$1
  rm -rf "in-$path" "serve-$path.out"
  mkdir "in-$path"
  background "serve-$path" in_b "$FTX" serve "in-$path" --stack "$path-b.toml" --mode "$path" --listen 10.77.0.12 --port 7070 \
    --once --insecure --json
  wait_for "serve-$path.out" listening
  in_a "$FTX" big.bin ftx://10.77.0.12:7070/ --stack "$path-a.toml" --mode "$path" --insecure --json > "send-$path.out"
  expect "$path: the server ends well" finish "serve-$path"
  expect "$path: the files are equal" cmp big.bin "in-$path/big.bin"
  "$SLUICE" explain "$path-a.toml" --mode "$path" --json > "explain-$path.json"
  python3 - "$path" <<'PYTHON'
import json, sys
path = sys.argv[1]
explained = json.load(open(f"explain-{path}.json"))["payload"]
wrong = False
for side, file in (("down", f"send-{path}.out"), ("up", f"serve-{path}.out")):
    done = [json.loads(line) for line in open(file)][-1]
    assert done["event"] == "done", done
    # What was sent again was touched again.
    payload = done["bytes"] * (1 + (done["repaired"] / done["adus"] if side == "down" else 0))
    for what in ("loads", "stores"):
        predicted = explained[side]["cost"][path][what]
        counted = done[{"loads": "loaded_bytes", "stores": "stored_bytes"}[what]] / payload
        good = predicted * 0.99 <= counted <= predicted * 1.05 + 0.1
        wrong = wrong or not good
        print(f"{'ok' if good else 'not'}: {path}, {side}: {counted:.3f} {what} a payload byte, explained {predicted}")
sys.exit(wrong)
PYTHON
}

# A receiver that gets its processor late has frames brought home before it reads them, which touches them once more; so a
# run that reads too much may be repeated.
for path in layered fused; do
  stack_file $path-a.toml packet 11
  stack_file $path-b.toml packet 12
  expect "$path: each byte is touched as often as explained" eval "run $path || run $path || run $path"
done
