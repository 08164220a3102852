#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice run` over a TAP interface, on either path; the trial throws them from the kernel's side.
source "$(dirname "$0")/link.sh"

ip -n $NS_A tuntap add tap0 mode tap
ip netns exec $NS_A sysctl -qw net.ipv6.conf.tap0.disable_ipv6=1
ip -n $NS_A link set tap0 up
for path in layered fused; do
  stack_file host.toml tap 12 '"ip", "udp"' "path = \"$path\""
  sed -i 's/device = "veth0"/device = "tap0", mac = "02:00:00:00:00:12"/' host.toml
  expect "tap, $path" in_a python3 "$TOP/tests/hostile/hostile.py" offload_host tap0 $NS_A "$SLUICE" run --json host.toml
done
