#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts with one address, the kernel's and ours: with duplicate_address_detection ours does not take what the kernel
# has, without it both are told; the kernel does not take what ours has. What ours says at start, tshark finds well formed.
source "$(dirname "$0")/common.sh"
two_hosts

stack() {  # FILE ADDRESSES DETECTION
  cat > "$1" <<TOML
[stack.main]
driver = { kind = "packet", device = "veth0" }
push   = ["ip", "udp"]
ip     = { address = [$2], duplicate_address_detection = $3 }
TOML
}

mac=$(in_a cat /sys/class/net/veth0/address)
in_a ip address add 10.77.0.12/24 dev veth0
in_a ip address add fd00:77::12/64 dev veth0 nodad

stack v4.toml '"10.77.0.12/24"' true
expect_exit 4 "no address is left" in_b "$SLUICE" run v4.toml
expect "the kernel's IPv4 address is not taken" grep -q "address 10.77.0.12 is in use by the host with MAC address $mac" last.err

stack v6.toml '"fd00:77::12/64", "10.77.0.13/24"' true
background v6 in_b "$SLUICE" run v6.toml
wait_for v6.out running
expect "nor is its IPv6 address" grep -q "address fd00:77::12 is in use by the host with MAC address $mac" v6.err
expect "the other address is free" in_a ping -n -c 1 -W 5 10.77.0.13
expect "SIGINT ends it well" stop v6

stack kept.toml '"10.77.0.12/24"' false
background kept in_b "$SLUICE" run kept.toml
wait_for kept.out running
wait_for kept.err "address 10.77.0.12 is claimed, too, by the host with MAC address $mac"
expect "it runs on, and ends well" stop kept

in_a ip address del 10.77.0.12/24 dev veth0
in_a ip address del fd00:77::12/64 dev veth0
background capture in_a tshark -l -i veth0 -a duration:8 -V
wait_for capture.err Capturing
stack ours.toml '"fd00:77::12/64"' false
background ours in_b "$SLUICE" run ours.toml
wait_for ours.out running
in_a ip address add fd00:77::12/64 dev veth0
kernel_gives_up() {
  for _ in $(seq 50); do
    ! in_a ip -6 address show dev veth0 | grep -q "fd00:77::12.*dadfailed" || return 0
    sleep 0.1
  done
  return 1
}
expect "the kernel does not take ours" kernel_gives_up
finish capture || true
expect "SIGINT ends it well" stop ours
expect "reports of groups are well formed" grep -q "Multicast Listener Report Message v2" capture.out
expect "with a router alert" grep -q "Router Alert: MLD" capture.out
expect "for our solicited-node group" grep -q "Changed to exclude: ff02::1:ff00:12" capture.out
expect "with right checksums" bash -c '! grep -qiE "checksum status: bad|malformed" capture.out'
