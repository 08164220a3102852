#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx across the lab's bad link (two TAP devices and `fault`): 5 % loss, 5 % reordering, 1 % duplicates and bit errors.
# Files equal; what was lost was repaired; what was overtaken was placed out of order. `packet` and `tap` give and take
# super-frames, on either path, which the kernel splits for the link.
set -euo pipefail
if [ "${1:-}" = --inside-lab ]; then
  source_file=$2 driver=$3 mode=$4 device=wan0
  # `tap` is a host at the far end of a TAP device of its own, which a bridge joins to the link on either side.
  if [ "$driver" = tap ]; then
    device=tap0
    for ns in "$NS_A" "$NS_B"; do
      ip netns exec "$ns" ip tuntap add dev tap0 mode tap
      ip -n "$ns" link add br0 type bridge mcast_snooping 0
      for port in wan0 tap0; do ip -n "$ns" link set $port master br0 up; done
      ip -n "$ns" link set br0 up
    done
  fi
  cd "$LAB_DIR"
  stack() {  # FILE HOST-PART
    cat > "$1" <<TOML
[stack.main]
mode = "$mode"
driver = { kind = "$driver", device = "$device" }
push   = ["ip", "udp", "timod"]
ip     = { address = ["10.77.0.$2/24", "fd00:77::$2/64"] }
TOML
  }
  trap '[ $? -eq 0 ] || { echo "FAILED: $driver $mode to $target"; tail -n 3 send.out serve.out; }' EXIT
  sender=() receiver=() target4=$ADDR_B target6=$ADDR6_B
  if [ "$driver" != kernel_udp ]; then
    stack a.toml 11
    stack b.toml 12
    sender=(--stack a.toml) receiver=(--stack b.toml) target4=10.77.0.12 target6=fd00:77::12
  fi
  for target in "$target4" "[$target6]"; do
    rm -f serve.out
    mkdir in
    listen=${target#[}
    ip netns exec "$NS_B" "$SLUICE_BIN/ftx" serve in "${receiver[@]}" --listen "${listen%]}" --once --insecure --json > serve.out &
    server=$!
    for _ in $(seq 200); do grep -qs listening serve.out && break; sleep 0.05; done
    ip netns exec "$NS_A" "$SLUICE_BIN/ftx" "$source_file" "ftx://$target/" "${sender[@]}" --insecure --json > send.out
    wait $server
    cmp "$source_file" "in/$(basename "$source_file")"
    rm -r in
    python3 - <<'PYTHON'
import json
done = [json.loads(line) for line in open("serve.out")][-1]
sent = [json.loads(line) for line in open("send.out")][-1]
assert done["event"] == sent["event"] == "done", (done, sent)
assert done["out_of_order"] > 0, done
# 5 % of the ADUs and of their repairs are lost, and bit errors cost a few more.
share = sent["repaired"] / sent["adus"]
assert 0.03 < share < 0.12, f"{share:.3f} of the ADUs were repaired"
print(f"ok: {done['bytes']} bytes in {done['seconds']:.2f} s, {share:.1%} repaired, {done['out_of_order']} out of order")
PYTHON
  done
  exit
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
export SLUICE_BIN=${SLUICE_BIN:-$top/build/release/bin}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
head -c "${FTX_TEST_MIB:-16}M" /dev/urandom > "$dir/big.bin"
for run in kernel_udp packet:layered packet:fused pcap:layered tap:layered tap:fused; do
  echo "-- $run"
  "$top/scripts/lab" 'rate=500 rtt=10 queue=4000000 loss=5 reorder=5 duplicate=1 bit_errors=1e-8 seed=7' -- "$0" --inside-lab "$dir/big.bin" "${run%:*}" "${run#*:}"
done
