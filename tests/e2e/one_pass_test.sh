#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How often each payload byte is touched: what the touch counters of both sides of an `ftx` run over veth read is what
# `sluice explain` says of the stack, layered and fused. Over `packet` that is, fused, one load and one store on either
# side. So they are encrypted, below a program that seals (--sealed): another load and store where payloads are sealed,
# and none where they are opened, since that happens in the receiver's pass. The counters include headers: 32 bytes of ADU header, which are copied in front of the payload and again into the
# frame, and 42 of UDP, IP and Ethernet, in datagrams of 1472 bytes; so a share above is expected, and nothing below.
source "$(dirname "$0")/common.sh"
two_hosts

size_mib=${FTX_TEST_MIB:-256}
head -c "${size_mib}M" /dev/urandom > big.bin

# With super-frames (offload = true) the sender's kernel gathers from the file's pages, the receiver lands them once, and
# nobody sums.
run_offloaded() {
  mkdir -p in-offloaded
  rm -f in-offloaded/*
  background serve-offloaded in_b "$FTX" serve in-offloaded --stack offloaded-b.toml --listen 10.77.0.12 --port 7070 --once \
    --insecure --json
  wait_for serve-offloaded.out listening
  in_a "$FTX" big.bin ftx://10.77.0.12:7070/ --stack offloaded-a.toml --insecure --json > send-offloaded.out
  expect "offloaded: the server ends well" finish serve-offloaded
  expect "offloaded: the files are equal" cmp big.bin in-offloaded/big.bin
  python3 - <<'PYTHON'
import json, sys
sent, received = ([json.loads(line) for line in open(f"{side}-offloaded.out")][-1] for side in ("send", "serve"))
down, up = sent["loaded_bytes"] / sent["bytes"], received["loaded_bytes"] / received["bytes"]
print(f"offloaded: {down:.3f} loads a payload byte down, {up:.3f} up")
sys.exit(not (down <= 0.1 and 0.99 <= up <= 1.1))
PYTHON
}

run() {  # PATH [sealed]
  local path=$1 how=(--insecure) explain=()
  [ "${2:-}" = sealed ] && how=(--secret-file secret) explain=(--sealed)
  rm -rf "in-$path" "serve-$path.out"
  mkdir "in-$path"
  background "serve-$path" in_b "$FTX" serve "in-$path" --stack "$path-b.toml" --mode "$path" --listen 10.77.0.12 --port 7070 \
    --once "${how[@]}" --json
  wait_for "serve-$path.out" listening
  in_a "$FTX" big.bin ftx://10.77.0.12:7070/ --stack "$path-a.toml" --mode "$path" "${how[@]}" --json > "send-$path.out"
  expect "$path: the server ends well" finish "serve-$path"
  expect "$path: the files are equal" cmp big.bin "in-$path/big.bin"
  "$SLUICE" explain "$path-a.toml" --mode "$path" "${explain[@]}" --json > "explain-$path.json"
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
(umask 077; openssl rand -hex 32 > secret)
for path in layered fused; do
  stack_file $path-a.toml packet 11
  stack_file $path-b.toml packet 12
  sed -i 's/kind = "packet"/kind = "packet", offload = false/' $path-a.toml $path-b.toml
  expect "$path: each byte is touched as often as explained" eval "run $path || run $path || run $path"
  expect "$path, sealed: likewise" eval "run $path sealed || run $path sealed || run $path sealed"
done

for host in 1:a 2:b; do
  stack_file offloaded-${host#*:}.toml packet 1${host%:*}
  sed -i 's/^driver/mode = "fused"\ndriver/' offloaded-${host#*:}.toml
done
expect "offloaded: only the receiver touches the payload, and once" eval "run_offloaded || run_offloaded || run_offloaded"
