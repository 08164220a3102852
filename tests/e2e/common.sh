# SPDX-License-Identifier: Apache-2.0
# Sourced by the end-to-end tests. Runs the test in namespaces of its own, which end with it.
#
#   two_hosts            two namespaces, $NS_A and $NS_B, joined by a veth pair
#   in_a / in_b COMMAND  runs COMMAND there
#   background NAME COMMAND   starts it, its output in $DIR/NAME.out and .err, its process in $PID_NAME
#   wait_for FILE TEXT   until TEXT stands in FILE
#   expect WHAT COMMAND  fails the test, saying WHAT, when COMMAND does
set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SLUICE_BIN=${SLUICE_BIN:-$TOP/build/release/bin}
export SLUICE_BIN
FTX=$SLUICE_BIN/ftx
SLUICE=$SLUICE_BIN/sluice

if [ "${SLUICE_E2E_INSIDE:-}" != yes ]; then
  for program in "$FTX" "$SLUICE" ip tshark ping nc ethtool; do
    command -v "$program" >/dev/null || { echo "$program is missing; scripts/test installs and builds what is needed" >&2; exit 1; }
  done
  unshare -Urnm true || { echo "this test needs namespaces: unshare -Urnm failed" >&2; exit 1; }
  export SLUICE_E2E_INSIDE=yes
  exec unshare -Urnm --pid --fork --kill-child --mount-proc "$0" "$@"
fi

mount -t tmpfs e2e /run
mkdir -p /run/netns /run/e2e
DIR=/run/e2e
cd "$DIR"
ip link set lo up

NS_A=host-a NS_B=host-b
ADDR_A=10.77.0.1 ADDR_B=10.77.0.2 ADDR6_A=fd00:77::1 ADDR6_B=fd00:77::2

# Both ends have kernel addresses .1 and .2; a stack of ours in namespace A takes .11 and ::11, in B .12 and ::12.
two_hosts() {
  ip netns add $NS_A
  ip netns add $NS_B
  ip -n $NS_A link add veth0 type veth peer name veth0 netns $NS_B
  local side
  for side in A B; do
    local ns=NS_$side address=ADDR_$side address6=ADDR6_$side
    ip -n "${!ns}" link set lo up
    ip netns exec "${!ns}" ethtool -K veth0 tx off gso off tso off gro off >/dev/null 2>&1 || true
    ip -n "${!ns}" link set veth0 up
    ip -n "${!ns}" address add "${!address}/24" dev veth0
    ip -n "${!ns}" address add "${!address6}/64" dev veth0 nodad
  done
}

in_a() { ip netns exec $NS_A "$@"; }
in_b() { ip netns exec $NS_B "$@"; }

background() {
  local name=$1
  shift
  "$@" >"$DIR/$name.out" 2>"$DIR/$name.err" &
  eval "PID_$name=$!"
}

wait_for() {
  local i
  for i in $(seq 200); do
    grep -q -- "$2" "$1" 2>/dev/null && return 0
    sleep 0.05
  done
  echo "'$2' did not appear in $1 within 10 s; it holds:" >&2
  cat "$1" "${1%.out}.err" >&2 || true
  return 1
}

stop() {  # NAME: ends a background program as Ctrl-C would, and answers its exit code
  local pid=PID_$1
  kill -INT "${!pid}"
  wait "${!pid}"
}

expect() {
  local what=$1
  shift
  "$@" || { echo "FAILED: $what: $*" >&2; exit 1; }
  echo "ok: $what"
}

json_field() {  # FILE EVENT FIELD: of the last event of that name
  python3 - "$@" <<'PYTHON'
import json, sys
path, event, field = sys.argv[1:]
value = None
for line in open(path):
    record = json.loads(line)
    if record["event"] == event:
        value = record[field]
print(value)
PYTHON
}
