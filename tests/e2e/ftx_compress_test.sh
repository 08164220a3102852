#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `ftx -z` over a link of 5 Mbit/s: files that get smaller, files that do not, and a tree of both arrive as they are, sent
# and fetched, by UDP and in the pipe of ssh. What is asserted is counted: bytes on the link, and what ftx says of them.
if [ "${1:-}" = --inside-lab ]; then
  set -euo pipefail
  ftx=$SLUICE_BIN/ftx
  cd "$LAB_DIR"
  cp -a "$2" sources
  mkdir served
  in_a() { ip netns exec "$NS_A" "$@"; }
  head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > secret
  chmod 600 secret
  export XDG_CONFIG_HOME=$PWD/config FTX_CONFIG=
  ip netns exec "$NS_B" "$ftx" serve served --secret-file secret --json > serve.out 2> serve.err &
  server=$!
  trap 'status=$?; kill $server || true; [ $status -eq 0 ] || { echo "FAILED: $what"; tail -n 3 ./*.out ./*.err; }' EXIT
  for _ in $(seq 200); do grep -qs listening serve.out && break; sleep 0.05; done
  sent_by() { ip netns exec "$1" cat /sys/class/net/wan0/statistics/tx_bytes; }
  # WHAT FROM-NS COMMAND: the bytes that the link carried in that direction stand in `carried` then
  measured() {
    what=$1
    local before
    before=$(sent_by "$2")
    "${@:3}" --json > send.out 2> send.err
    carried=$(($(sent_by "$2") - before))
  }
  check() {  # PYTHON: an expression of carried and the members of `done`
    carried=$carried python3 - "$what" "$1" <<'PYTHON'
import json, os, sys
done = json.loads(open("send.out").readlines()[-1])
carried = int(os.environ["carried"])
assert done["event"] == "done", done
assert eval(sys.argv[2], {}, {**done, "carried": carried}), f"{sys.argv[1]}: {sys.argv[2]}: carried {carried}, {done}"
print(f"ok: {sys.argv[1]}: {done['bytes']} bytes of files, {done['compressed_bytes']} compressed, payloads of {done['payload_bytes']}, "
      f"{carried} on the link")
PYTHON
  }
  to=ftx://$ADDR_B
  measured "text, as it is" "$NS_A" in_a "$ftx" sources/text "$to/plain" --secret-file secret
  check 'compressed_bytes == 0 and payload_bytes >= bytes and carried > bytes'
  cmp sources/text served/plain
  measured "text" "$NS_A" in_a "$ftx" -z sources/text "$to/text" --secret-file secret
  check 'compressed_bytes > 0.8 * bytes and payload_bytes < 0.6 * bytes and carried < 0.7 * bytes and carried > payload_bytes'
  cmp sources/text served/text
  measured "what cannot be compressed" "$NS_A" in_a "$ftx" -z sources/random "$to/random" --secret-file secret
  check 'compressed_bytes == 0 and payload_bytes >= bytes and carried < 1.2 * bytes'
  cmp sources/random served/random
  measured "a tree" "$NS_A" in_a "$ftx" -az sources "$to/" --secret-file secret
  check '0 < compressed_bytes < bytes and payload_bytes < 0.9 * bytes'
  diff -r sources served/sources
  measured "fetched" "$NS_B" in_a "$ftx" -z "$to/text" fetched --secret-file secret
  check 'compressed_bytes > 0.8 * bytes and payload_bytes < 0.6 * bytes and carried < 0.7 * bytes'
  cmp sources/text fetched
  measured "nobody has asked for it" "$NS_B" in_a "$ftx" "$to/text" again --secret-file secret
  check 'compressed_bytes == 0 and carried > bytes'
  printf '#!/bin/sh\ncase "$*" in *"-G "*) echo hostname localhost; exit;; esac\nHOME=%s exec %s remote\n' "$PWD/served" "$ftx" > ssh
  chmod +x ssh
  for direction in push pull; do
    operands=("sources/text" "there:pipe-push")
    [ $direction = push ] || operands=("there:pipe-push" pipe-pull)
    measured "$direction by the pipe of ssh" "$NS_A" "$ftx" --ssh ./ssh --via pipe --compress-always "${operands[@]}"
    check 'compressed_bytes > 0.8 * bytes and payload_bytes < 0.6 * bytes'
  done
  cmp sources/text pipe-pull
  exit
fi

set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
export SLUICE_BIN=${SLUICE_BIN:-$top/build/release/bin}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/sources/small"
python3 - "$dir/sources" <<'PYTHON'
import os, random, sys
chance = random.Random(1)
words = [chance.randbytes(8).hex() for _ in range(500)]
text = lambda count: " ".join(chance.choices(words, k=count)).encode()
open(f"{sys.argv[1]}/text", "wb").write(text(200_000))
open(f"{sys.argv[1]}/random", "wb").write(os.urandom(800_000))
for i in range(200):
    open(f"{sys.argv[1]}/small/{i}", "wb").write(text(chance.randrange(400)))
PYTHON
"$top/scripts/lab" 'rate=5 rtt=10 queue=500000' -- "$0" --inside-lab "$dir/sources"
