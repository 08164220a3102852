#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Messages of the message library between processes on hosts of their own, sixteen namespaces at one bridge of the
# kernel's, over every transport in one run: back and forth, each with each, and one of 1 GiB. The programs are those of
# examples/, which check every byte.
source "$(dirname "$0")/common.sh"
PING_PONG=$SLUICE_BIN/example_msg_ping_pong
ALL_TO_ALL=$SLUICE_BIN/example_all_to_all
HOSTS=16

for host in $(seq $HOSTS); do
  ip netns add "host$host"
done
ip netns add bridge
ip -n bridge link add bridge type bridge
ip -n bridge link set bridge mtu 9000 up
for host in $(seq $HOSTS); do
  ip -n "host$host" link add veth0 mtu 9000 type veth peer name "port$host" netns bridge
  ip -n bridge link set "port$host" mtu 9000 master bridge up
  ip netns exec "host$host" ethtool -K veth0 tx off gso off tso off gro off >/dev/null 2>&1 || true
  ip -n "host$host" link set lo up
  ip -n "host$host" link set veth0 up
  ip -n "host$host" address add "10.77.0.$host/24" dev veth0
done

# The kernel's stack has the address 10.77.0.HOST, ours 10.77.0.(100 + HOST). What utopia loses stays lost, so nobody
# may send it more than a socket keeps: a packet at a time. Of what rmpp loses all begins again, so what is only late
# must not seem lost while 1 GiB is on its way; over our own UDP it is selective.
for host in $(seq $HOSTS); do
  cat > "host$host.toml" <<TOML
[stack.utopia]
driver = { kind = "kernel_udp" }
push   = ["utopia", "timod"]
utopia = { packet_bytes = 8192, grant_packets = 1 }

[stack.rmpp]
driver = { kind = "kernel_udp" }
push   = ["rmpp", "timod"]
rmpp   = { packet_bytes = 8192, timeout_ms = 500 }

[stack.kernel_tcp]
driver = { kind = "kernel_tcp" }
push   = ["timod"]

[stack.our_udp]
driver = { kind = "packet", device = "veth0", ring = "frame" }
push   = ["ip", "udp", "rmpp", "timod"]
ip     = { address = "10.77.0.$((100 + host))/24" }
rmpp   = { packet_bytes = 8192, recovery = "selective" }

[stack.our_tcp]
driver = { kind = "packet", device = "veth0" }
push   = ["ip", "tcp", "timod"]
mode   = "fused"
ip     = { address = "10.77.0.$((100 + host))/24" }

[stack.xtp]
driver = { kind = "kernel_udp" }
push   = ["xtp", "timod"]
xtp    = { packet_bytes = 8192 }
TOML
done

address() {  # STACK HOST
  case $1 in
    our_*) echo "10.77.0.$((100 + $2)):7000" ;;
    *) echo "10.77.0.$2:7000" ;;
  esac
}

# Back and forth between the first two hosts.
ping_pong() {  # STACK BYTES ANSWER ROUNDS
  background answers ip netns exec host1 "$PING_PONG" host1.toml "$1" "$(address "$1" 1)" "${@:2}"
  wait_for answers.out ready || return 1
  ip netns exec host2 "$PING_PONG" host2.toml "$1" "$(address "$1" 2)" "${@:2}" "$(address "$1" 1)" || {
    cat answers.err >&2
    return 1
  }
  finish answers || { cat answers.err >&2; return 1; }
}
short_ones() { ping_pong "$1" 0 0 5 && ping_pong "$1" 1 1 20 && ping_pong "$1" 100000 100000 20; }

# A message from each host to each other one, ROUNDS times.
all_to_all() {  # STACK BYTES ROUNDS
  local host peers=() status=0
  for host in $(seq $HOSTS); do
    peers+=("$(address "$1" "$host")")
  done
  for host in $(seq $HOSTS); do
    rm -f "in$host"
    mkfifo "in$host"
    INPUT=in$host background "host$host" ip netns exec "host$host" "$ALL_TO_ALL" "host$host.toml" "$1" $((host - 1)) "$2" "$3" "${peers[@]}"
    exec {LINE[host]}> "in$host"
  done
  for host in $(seq $HOSTS); do
    wait_for "host$host.out" ready || return 1
  done
  for host in $(seq $HOSTS); do
    echo go >&"${LINE[host]}"
  done
  for host in $(seq $HOSTS); do
    wait_for "host$host.out" "^rank $((host - 1)): $((15 * $3)) messages each way, .* truncated 0, lost 0, malformed 0," || status=1
  done
  for host in $(seq $HOSTS); do
    echo end >&"${LINE[host]}"
    exec {LINE[host]}>&-
  done
  for host in $(seq $HOSTS); do
    finish "host$host" || { cat "host$host.err" >&2; status=1; }
  done
  tail -n 1 host1.out
  return $status
}
LINE=()

large=$((1 << 30))
if grep -qE '__[at]san_init' "$PING_PONG"; then
  large=$((1 << 26))
  echo "under sanitizers the large message has $large bytes instead of 1 GiB"
fi
for stack in ${E2E_STACKS:-utopia rmpp kernel_tcp our_udp our_tcp xtp}; do
  expect "$stack: messages of no byte, of one and of many come back" short_ones "$stack"
  expect "$stack: three messages from each of $HOSTS hosts to each other one" all_to_all "$stack" 20000 3
  expect "$stack: a message of $large bytes" ping_pong "$stack" "$large" 8 1
done
