#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Super-frames of our own TCP: against the kernel's, which we call and which calls us, and among ourselves; IPv4 and
# IPv6, layered and fused, with the kernel's offloads on and off, and with ours off; the path's MTU shrinks under way;
# and over TAP devices. What comes must be what was sent, both ways at once; with offloads on frames above the MTU cross
# the link each way, and none does where ours are off. tshark finds nothing wrong.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/kernel_tcp.sh"
two_hosts
head -c 3000001 /dev/urandom > question
head -c 2000001 /dev/urandom > reply

offloads() {  # on|off
  local ns
  for ns in $NS_A $NS_B; do
    ip netns exec "$ns" ethtool -K veth0 tx "$1" gso "$1" tso "$1" gro "$1" > ethtool.out 2>&1
  done
}

# Stack files of both ends: MODE, and more of the driver.
stacks() {
  local part
  for part in 11 12; do
    our_stack $part
    sed -i "s/^driver = { kind = \"packet\"/mode = \"$1\"\ndriver = { kind = \"packet\"$2/" our-$part.toml
  done
}

# Ours in A listens, ours in B calls.
among_us() {  # NAME FAMILY
  local at=10.77.0.11
  [ "$2" = 4 ] || at=fd00:77::11
  INPUT=question background "server-$1" in_a "$SLUICE" nc --stack our-11.toml -v -l -p 5050
  wait_for "server-$1.err" listening
  INPUT=reply background "client-$1" in_b "$SLUICE" nc --stack our-12.toml -v $at 5050
  expect "$1: the client ends well" ends_well "client-$1"
  expect "$1: the server ends well" ends_well "server-$1"
  expect "$1: what the server sent is whole" cmp question "client-$1.out"
  expect "$1: what the client sent is whole" cmp reply "server-$1.out"
}

everything() {  # NAME
  local family
  for family in 4 6; do
    exchange "$1-we-$family" we $family 12
    exchanged "$1-we-$family"
    exchange "$1-it-$family" it $family 12
    exchanged "$1-it-$family"
    among_us "$1-us-$family" $family
  done
}

begin_dump() {  # NAME
  background "dump-$1" in_a dumpcap -q -B 64 -s 128 -i veth0 -f tcp -w "$1.pcap"
  wait_for "dump-$1.err" "File: "
}
end_dump() {
  sleep 0.3  # what dumpcap has yet to write
  stop "dump-$1" || true
}
larger_than_the_mtu() {  # NAME FILTER: how many frames
  tshark -r "$1.pcap" -Y "frame.len > 1514 and ($2)" 2> last.err | wc -l
}

for offload in on off; do
  offloads $offload
  for mode in layered fused; do
    stacks $mode ''
    begin_dump $offload-$mode
    everything $offload-$mode
    end_dump $offload-$mode
    if [ $offload = on ]; then
      for what in 'ip.src == 10.77.0.12' 'ipv6.src == fd00:77::12' 'ip.src == 10.77.0.1' 'ipv6.src == fd00:77::1'; do
        expect "$mode: super-frames, $what" [ "$(larger_than_the_mtu on-$mode "$what")" -gt 5 ]
      done
    fi
  done
done

# Nothing is offloaded: we split and sum.
for mode in layered fused; do
  stacks $mode ', offload = false'
  begin_capture
  everything split-$mode
  check_segments 11 12
  expect "split-$mode: no frame is larger than the MTU" \
    [ "$(tshark -r segments.pcap -Y 'frame.len > 1514' 2> last.err | wc -l)" = 0 ]
  # A kernel that sums in software sends all ones where the sum is zero (CSUM_MANGLED_0), which is the same number.
  expect "split-$mode: none has a wrong checksum" [ "$(tshark -r segments.pcap -o tcp.check_checksum:TRUE \
    -o ip.check_checksum:TRUE -Y '(tcp.checksum.status == "Bad" and not tcp.checksum == 0xffff) or
    ip.checksum.status == "Bad"' 2> last.err | wc -l)" = 0 ]
done

# The path's MTU shrinks while segments of its size before are on their way.
offloads on
stacks fused ''
head -c 200000000 /dev/zero > question
background shrink bash -c "sleep 0.3; for ns in $NS_A $NS_B; do ip -n \$ns link set veth0 mtu 1300; done"
among_us mtu 4
finish shrink

# TAP devices, each bridged to the link: super-frames cross to the kernel and back.
head -c 3000001 /dev/urandom > question
bridge_taps
for offload in true false; do
  for mode in layered fused; do
    stacks $mode ''
    sed -i "s/kind = \"packet\", device = \"veth0\"/kind = \"tap\", device = \"tap0\", offload = $offload/" our-1?.toml
    begin_dump tap-$offload-$mode
    everything tap-$offload-$mode
    end_dump tap-$offload-$mode
    large=$(larger_than_the_mtu tap-$offload-$mode 'ip.src == 10.77.0.12 or ipv6.src == fd00:77::12')
    expect "tap-$offload-$mode: what went together went as one where it is offloaded" \
      [ "$((large > 5))" = "$([ $offload = true ] && echo 1 || echo 0)" ]
  done
done
