#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What our stacks put on the wire, judged by tshark: ping, netcat and a transfer, captured on the peer's device and by our own
# `capture` module. Nothing malformed, every checksum verified and good. A damaged copy of a trace must not pass.
source "$(dirname "$0")/common.sh"
for program in dumpcap editcap; do
  command -v $program >/dev/null || { echo "$program is missing; scripts/test installs it" >&2; exit 1; }
done
two_hosts

# One line a packet; our ports carry no protocol that tshark knows.
dissect() {  # FILE
  tshark -n -r "$1" -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -d udp.port==4000,data -d udp.port==7070,data \
    -T fields -E separator=, -e frame.number -e _ws.malformed -e ip.checksum.status -e udp.checksum.status \
    -e icmp.checksum.status -e icmpv6.checksum.status 2> tshark.err
}

# Wireshark's status of a checksum: 0 bad, 1 good, 2 not verified. ICMP errors quote a packet, whose values follow a comma;
# of what is quoted only a part is there, so only "bad" counts.
sound() {  # FILE PACKETS-AT-LEAST LAYER...: each layer occurs with good checksums, none has a bad one
  dissect "$1" > dissected || { cat tshark.err >&2; return 1; }
  python3 - dissected "$@" <<'PYTHON'
import sys
dissected, name, least, *layers = sys.argv[1:]
columns = ("number", "malformed", "ip", "udp", "icmp", "icmpv6")
packets = [dict(zip(columns, line.rstrip("\n").split(","))) for line in open(dissected)]
assert len(packets) >= int(least), f"{name} holds {len(packets)} packets, expected at least {least}"
good = dict.fromkeys(columns[2:], 0)
for packet in packets:
    assert not packet["malformed"], f"{name}: malformed: {packet}"
    for layer in good:
        assert packet[layer] != "0", f"{name}: bad {layer} checksum: {packet}"
        good[layer] += packet[layer] == "1"
for layer in layers:
    assert good[layer] > 0, f"{name}: no {layer} checksum was verified"
print(f"   {name}: {len(packets)} packets, good checksums: {good}")
PYTHON
}

record() {  # NAME: what passes the device of namespace A, until unrecord NAME
  background "dumpcap-$1" in_a dumpcap -q -B 16 -i veth0 -w "$1.pcap"
  wait_for "dumpcap-$1.err" 'File: '
}
unrecord() {
  sleep 0.5  # the last packets are on their way to dumpcap
  stop "dumpcap-$1"
}

captured_stack() {  # NAME DRIVER HOST-PART
  stack_file "$1.toml" "$2" "$3" '"capture", "ip", "udp", "timod"' "capture = { file = \"$1.pcapng\" }"
}

damaged_copy_fails() {  # FILE
  editcap --seed 7 -E 0.02 "$1" damaged.pcap
  ! sound damaged.pcap 1 2> damaged.err && grep -q -e 'bad .* checksum' -e malformed damaged.err
}

for driver in packet pcap; do
  record $driver-ping
  captured_stack $driver-host $driver 12
  background host in_b "$SLUICE" run $driver-host.toml
  wait_for host.out running
  for address in 10.77.0.12 fd00:77::12; do
    in_a ping -q -n -c 3 -i 0.05 $address > /dev/null
    in_a ping -q -n -c 2 -i 0.05 -s 60000 $address > /dev/null
    in_a nc -v -u -z -w 1 $address 4000 2> /dev/null && { echo "FAILED: $address port 4000 is open" >&2; exit 1; }
  done
  stop host
  unrecord $driver-ping
  # Two datagrams of 60000 bytes, there and back, twice, are 328 fragments and more.
  expect "$driver: ping, seen on the device" sound $driver-ping.pcap 328 ip icmp icmpv6
  expect "$driver: ping, seen by capture" sound $driver-host.pcapng 328 ip icmp icmpv6

  record $driver-nc
  captured_stack $driver-nc-stack $driver 12
  for address in $ADDR_A $ADDR6_A; do
    [ $address = $ADDR_A ] && family=-4 || family=-6
    for size in 1 1400 8000; do
      background listener in_a nc $family -u -l -p 4000
      kernel_listens 4000
      head -c $size /dev/zero | tr '\0' x > words
      INPUT=words background caller in_b "$SLUICE" nc --stack $driver-nc-stack.toml -q 0.3 $address 4000
      expect "$driver: nc sends $size bytes to $address" finish caller
      kill "${PID[listener]}"
      finish listener || true
    done
  done
  unrecord $driver-nc
  expect "$driver: nc, seen on the device" sound $driver-nc.pcap 16 ip udp
  expect "$driver: nc, seen by capture" sound $driver-nc-stack.pcapng 6 udp

  head -c 2M /dev/urandom > file.bin
  for address in 10.77.0.12 '[fd00:77::12]'; do
    rm -rf in
    mkdir in
    record $driver-ftx
    captured_stack $driver-server $driver 12
    captured_stack $driver-client $driver 11
    background server in_b "$FTX" serve in --stack $driver-server.toml --once --insecure --json
    wait_for server.out listening
    in_a "$FTX" file.bin "ftx://$address/" --stack $driver-client.toml --insecure > /dev/null
    expect "$driver: ftx ends well" finish server
    cmp file.bin in/file.bin
    unrecord $driver-ftx
    for file in $driver-ftx.pcap $driver-server.pcapng $driver-client.pcapng; do
      expect "$driver: ftx to $address, seen in $file" sound $file 1400 udp
    done
  done
done
expect "a damaged trace does not pass" damaged_copy_fails packet-ping.pcap
