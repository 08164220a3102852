#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `sluice run` and `sluice nc` over each driver, and `sluice bridge`, while system calls fail, one at a time (sluice.py).
source "$(dirname "$0")/../hostile/link.sh"

faults() { in_a python3 "$TOP/tests/faults/sluice.py" "$@"; }

for driver in packet pcap; do
  stack_file host.toml $driver 12 '"ip", "udp"'
  expect "run, $driver" faults host veth0 $NS_B "$SLUICE" run --json host.toml
done
ip -n $NS_A tuntap add tap0 mode tap
ip -n $NS_A link set tap0 up
stack_file tap.toml tap 12 '"ip", "udp"'
sed -i 's/device = "veth0"/device = "tap0", mac = "02:00:00:00:00:12"/' tap.toml
expect "run, tap" faults host tap0 $NS_A "$SLUICE" run --json tap.toml
stack_file captured.toml packet 12 '"capture", "ip", "udp"' "capture = { file = \"$DIR/trace.pcapng\" }"
expect "run, packet, with a capture" faults host veth0 $NS_B "$SLUICE" run --json captured.toml
stack_file user.toml packet 12
expect "nc, packet" faults listener veth0 $NS_B "$SLUICE" nc --stack user.toml -l -v -p 4000

two_links
cat > bridge.toml <<'TOML'
[stack.one]
driver = { kind = "packet", device = "veth0" }
[stack.other]
driver = { kind = "pcap", device = "veth1" }
TOML
expect "bridge, packet and pcap" faults bridge veth0,veth1 $NS_B "$SLUICE" bridge bridge.toml one other
