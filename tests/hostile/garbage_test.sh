#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Garbage from the network: random and mutated frames, floods of neighbours and of fragments, datagrams that are not quite
# ftx. Hosts and servers go on with their work, count what they dropped, and do not grow.
source "$(dirname "$0")/../e2e/common.sh"
two_hosts
garbage=$TOP/tests/hostile/garbage.py
seed=${GARBAGE_SEED:-20260101}

# Memory of its own: the pages of files that are mapped while they arrive are the page cache's. What was taken from the
# system for messages and sessions stays taken, so that a peak shows afterwards.
resident_kib() { sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${PID[$1]}/status"; }

# Far below what is thrown. Sanitizers keep memory that was freed, and shadows of it and of mapped files.
grows_little() {  # NAME KIB-BEFORE KIB-MORE
  local now more=$3
  ! grep -q -e __asan_init -e __tsan_init "$SLUICE" || more=$((more * 8))
  now=$(resident_kib "$1")
  echo "   $2 KiB before, $now KiB after"
  [ "$now" -lt $(($2 + more)) ]
}

answers() { in_a ping -q -n -c 3 -i 0.1 -W 5 "$1" | grep -q '3 received'; }

counted() {  # FILE MODULE NAME...
  local file=$1 module=$2 name value
  shift 2
  for name in "$@"; do
    value=$(counter "$file" "$module" "$name")
    [ "$value" -gt 0 ] || { echo "$module counted no $name" >&2; return 1; }
    echo "   $module: $value $name"
  done
}

mac=$(in_b cat /sys/class/net/veth0/address)
for driver in packet pcap; do
  stack_file host.toml $driver 12 '"ip", "udp"'
  sed -i 's/^ip .*{/& reassembly_bytes_max = 262144,/' host.toml
  background $driver in_b "$SLUICE" run --json host.toml
  wait_for $driver.out running
  expect "$driver: answers before" answers 10.77.0.12
  before=$(resident_kib $driver)
  in_a python3 "$garbage" frames veth0 "$mac" "$seed"
  expect "$driver: answers after, IPv4" answers 10.77.0.12
  expect "$driver: answers after, IPv6" answers fd00:77::12
  expect "$driver: did not grow" grows_little $driver "$before" 8192
  expect "$driver: SIGINT ends it well" stop $driver
  [ "$(counter $driver.out ip packets_in)" -ge 15000 ] || { echo "FAILED: most frames were lost on the way" >&2; exit 1; }
  expect "$driver: everything has a name" counted $driver.out ip short_packet bad_version bad_header_length bad_total_length \
    bad_checksum bad_extension not_ours unknown_protocol bad_arp bad_ndp icmp_bad_checksum icmp_malformed bad_fragment \
    fragments_held fragment_overlap reassembly_evicted icmp_errors_limited
  expect "$driver: in udp, too" counted $driver.out udp bad_length bad_checksum
done

# While the garbage comes, a file does, too.
head -c 16M /dev/urandom > big.bin
serve_test() {  # NAME ADDRESS KIB-MORE SERVER-OPTIONS...
  local name=$1 address=$2 more=$3
  shift 3
  mkdir "in-$name"
  background "$name" in_b "$FTX" serve "in-$name" --insecure --json "$@"
  wait_for "$name.out" listening
  local before
  before=$(resident_kib "$name")
  background "garbage-$name" in_a python3 "$garbage" datagrams "$address" 7070 "$seed"
  expect_exit 0 "$name: a transfer amid garbage" in_a "$FTX" big.bin "ftx://$address/" --insecure
  expect "$name: 20000 datagrams were thrown" finish "garbage-$name"
  expect_exit 0 "$name: another transfer" in_a "$FTX" big.bin "ftx://$address/again" --insecure
  expect "$name: the files are equal" cmp big.bin "in-$name/big.bin"
  expect "$name: the files are equal" cmp big.bin "in-$name/again"
  expect "$name: did not grow" grows_little "$name" "$before" "$more"
  ! grep '"event":"error"' "$name.out" || { echo "FAILED: garbage became a transfer" >&2; exit 1; }
  expect_exit 130 "$name: SIGINT ends it" stop "$name"
}
serve_test kernel_udp $ADDR_B 8192
stack_file server.toml packet 12
# The pages of the receive ring count from their first use.
serve_test packet 10.77.0.12 32768 --stack server.toml
