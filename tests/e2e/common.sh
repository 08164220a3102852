# SPDX-License-Identifier: Apache-2.0
# Sourced by the end-to-end tests. Runs the test in namespaces of its own, which end with it.
#
#   two_namespaces       $NS_A and $NS_B, joined by a veth pair that is down and offloads nothing
#   two_hosts            the same, up, and with addresses of the kernel's
#   in_a / in_b COMMAND  runs COMMAND there
#   background NAME COMMAND   starts it: its input from $INPUT, if set, its output in $DIR/NAME.out and .err, its process
#                             in ${PID[NAME]}
#   finish NAME          waits for it and answers its exit code; stop NAME: interrupts it first, as Ctrl-C would
#   wait_for FILE TEXT   until TEXT stands in FILE
#   kernel_listens PORT [tcp]   until a kernel socket in namespace A is bound to that UDP port, or listens on that of TCP
#   arrived FILE EXPECTED   until both are the same, 30 s at most
#   stack_file FILE DRIVER HOST-PART [PUSH [MORE]]   writes a stack file for veth0
#   expect WHAT COMMAND  fails the test, saying WHAT and the last lines of all in the background, when COMMAND does
#   expect_exit CODE WHAT COMMAND   the same for a command whose exit code must be CODE; output in last.out and last.err
#   make_tree DIR        with files small, large and empty, directories, a read-only one, and links
#   same_tree DIR DIR    fails where content, modes, times and links of two trees differ
#   counter FILE MODULE NAME        from the last counters that a program with --json printed into FILE
#
# Where E2E_WANTS=xdp is set before, the namespaces belong to no user namespace, and who may not make such is told that
# the test is skipped (exit code 77).
#
# Every wait is bounded: by itself, or by the test's own time limit (E2E_SECONDS_MAX), which ends all its processes.
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
  if [ "${E2E_WANTS:-}" = xdp ]; then
    [ $(( 0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 39 & 1 )) = 1 ] &&
      [ "$(awk '{ print $1, $2, $3 }' /proc/self/uid_map)" = "0 0 4294967295" ] || {
      echo "skipped: XDP needs CAP_BPF outside of all user namespaces; run the tests as root" >&2
      exit 77
    }
    E2E_NAMESPACES=-nm
  fi
  E2E_NAMESPACES=${E2E_NAMESPACES:--Urnm}
  unshare "$E2E_NAMESPACES" true || { echo "this test needs namespaces: unshare $E2E_NAMESPACES failed" >&2; exit 1; }
  export SLUICE_E2E_INSIDE=yes
  exec timeout --kill-after=5 "${E2E_SECONDS_MAX:-560}" unshare "$E2E_NAMESPACES" --pid --fork --kill-child --mount-proc "$0" "$@"
fi

mount -t tmpfs e2e /run
mkdir -p /run/netns /run/e2e
DIR=/run/e2e
cd "$DIR"
ip link set lo up

NS_A=host-a NS_B=host-b
ADDR_A=10.77.0.1 ADDR_B=10.77.0.2 ADDR6_A=fd00:77::1 ADDR6_B=fd00:77::2

two_namespaces() {
  ip netns add $NS_A
  ip netns add $NS_B
  ip -n $NS_A link add veth0 type veth peer name veth0 netns $NS_B
  local ns
  for ns in $NS_A $NS_B; do
    ip netns exec "$ns" ethtool -K veth0 tx off gso off tso off gro off >/dev/null 2>&1 || true
  done
}

# Both ends have kernel addresses .1 and .2; a stack of ours in namespace A takes .11 and ::11, in B .12 and ::12.
two_hosts() {
  two_namespaces
  local side
  for side in A B; do
    local ns=NS_$side address=ADDR_$side address6=ADDR6_$side
    ip -n "${!ns}" link set lo up
    ip -n "${!ns}" link set veth0 up
    ip -n "${!ns}" address add "${!address}/24" dev veth0
    ip -n "${!ns}" address add "${!address6}/64" dev veth0 nodad
  done
}

# A TAP device on each side of two_hosts, tap0, bridged to the link. The addresses move to the bridge.
bridge_taps() {
  local side port
  for side in A B; do
    local ns=NS_$side address=ADDR_$side address6=ADDR6_$side
    ip netns exec "${!ns}" ip tuntap add dev tap0 mode tap
    ip -n "${!ns}" address flush dev veth0
    ip -n "${!ns}" link add br0 type bridge mcast_snooping 0
    for port in veth0 tap0; do ip -n "${!ns}" link set $port mtu 1500 master br0 up; done
    ip -n "${!ns}" link set br0 up
    ip -n "${!ns}" address add "${!address}/24" dev br0
    ip -n "${!ns}" address add "${!address6}/64" dev br0 nodad
  done
}

in_a() { ip netns exec $NS_A "$@"; }
in_b() { ip netns exec $NS_B "$@"; }

declare -A PID
background() {
  local name=$1
  shift
  # ip netns exec becomes the program, a shell function would be its parent and take the signals.
  case $1 in
    in_a) set -- ip netns exec $NS_A "${@:2}" ;;
    in_b) set -- ip netns exec $NS_B "${@:2}" ;;
  esac
  # Before it starts: what one of the same name has said must not count for it.
  : > "$DIR/$name.out"
  : > "$DIR/$name.err"
  "$@" < "${INPUT:-/dev/null}" > "$DIR/$name.out" 2> "$DIR/$name.err" &
  PID[$name]=$!
}

finish() { wait "${PID[$1]}"; }

stop() {
  kill -INT "${PID[$1]}"
  finish "$1"
}

wait_for() {
  local i
  for i in $(seq 600); do
    grep -q -- "$2" "$1" 2>/dev/null && return 0
    sleep 0.05
  done
  echo "'$2' did not appear in $1 within 30 s; it holds:" >&2
  cat "${1%.*}.out" "${1%.*}.err" >&2 || true
  return 1
}

stack_file() {
  cat > "$1" <<TOML
[stack.main]
driver = { kind = "$2", device = "veth0" }
push   = [${4:-"\"ip\", \"udp\", \"timod\""}]
ip     = { address = ["10.77.0.$3/24", "fd00:77::$3/64"] }
${5:-}
TOML
}

kernel_listens() {
  local i protocol=${2:-udp}
  for i in $(seq 600); do
    in_a ss -Hln "--$protocol" "sport = :$1" | grep -q . && return 0
    sleep 0.05
  done
  echo "nobody listens on port $1 of $protocol in namespace A" >&2
  return 1
}

arrived() {
  local i
  for i in $(seq 600); do
    cmp -s "$1" "$2" && return 0
    sleep 0.05
  done
  ls -l "$1" "$2" >&2
  return 1
}

last_words() {  # of all that was started in the background, for the log of a test that failed
  local name
  for name in "${!PID[@]}"; do
    tail -v -n 3 "$DIR/$name.out" "$DIR/$name.err" | cat -v | cut -c 1-500 >&2 || true
  done
}

expect() {
  local what=$1
  shift
  "$@" || { echo "FAILED: $what: $*" >&2; last_words; exit 1; }
  echo "ok: $what"
}

expect_exit() {
  local code=$1 what=$2 status=0
  shift 2
  "$@" > "$DIR/last.out" 2> "$DIR/last.err" || status=$?
  if [ $status -ne "$code" ]; then
    echo "FAILED: $what: exit code $status, expected $code: $*" >&2
    cat "$DIR/last.out" "$DIR/last.err" >&2
    last_words
    exit 1
  fi
  echo "ok: $what (exit code $code)"
}

counter() {
  python3 - "$@" <<'PYTHON'
import json, sys
path, module, name = sys.argv[1:]
printed = [record for record in map(json.loads, open(path)) if "modules" in record]
assert printed, f"{path} holds no counters"
print(next(m["counters"][name] for m in printed[-1]["modules"] if m["name"] == module))
PYTHON
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

make_tree() {
  mkdir -p "$1/sub/deeper" "$1/empty" "$1/read only"
  head -c 3M /dev/urandom > "$1/sub/large"
  local i
  for i in $(seq 300); do echo "$i" > "$1/sub/deeper/small $i"; done
  : > "$1/nil"
  ln -s nowhere "$1/dangling"
  ln -s /etc/passwd "$1/sub/absolute"
  echo there > "$1/read only/file" && chmod 400 "$1/read only/file"
  touch -h -d 2001-02-03 "$1/dangling" "$1/sub" "$1/sub/deeper/small 7" "$1/read only"
  chmod 555 "$1/read only"
}
listing() { (cd "$1" && find . -mindepth 1 -printf '%P %y %m %T@ %l\n' | LC_ALL=C sort); }
everything() { (cd "$1" && find . -printf '%P %y %m %T@ %C@ %i %n %s\n' | LC_ALL=C sort); }  # that could change
same_tree() { diff -r --no-dereference "$1" "$2" && diff <(listing "$1") <(listing "$2"); }
