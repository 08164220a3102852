#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Super-frames between our stack and the kernel's UDP: ftx on either side, both ways, IPv4 and IPv6, layered and fused,
# with the kernel's offloads on and off, and with ours off; the path's MTU shrinks under way; and over TAP devices. Files
# must be equal and, where nothing is offloaded, every checksum on the wire right.
source "$(dirname "$0")/common.sh"
two_hosts
head -c 8000001 /dev/urandom > file  # the last datagram is a short one
mkdir -p in

offloads() {  # on|off
  local ns
  for ns in $NS_A $NS_B; do
    ip netns exec "$ns" ethtool -K veth0 tx "$1" gso "$1" gro "$1" tx-udp-segmentation "$1" > ethtool.out 2>&1 ||
      ip netns exec "$ns" ethtool -K veth0 tx "$1" gso "$1" gro "$1" > ethtool.out 2>&1
  done
}

# Moves `file` and compares it. SERVER and CLIENT are stack files, or `kernel`; ADDRESS is the server's.
transfer() {  # NAME SERVER CLIENT ADDRESS
  local name=$1 server=$2 client=$3 address=$4
  local -a served=() sent=()
  [ "$server" = kernel ] || served=(--stack "$server")
  [ "$client" = kernel ] || sent=(--stack "$client")
  rm -f in/*
  background "$name-serve" in_b "$FTX" serve in --once --insecure --json "${served[@]}" --listen "${address//[][]/}"
  wait_for "$name-serve.out" listening
  expect "$name: the file is sent" in_a "$FTX" file "ftx://$address/" --insecure --json "${sent[@]}" > "$name.out"
  expect "$name: the file is equal" cmp file in/file
  expect "$name: the server ends well" finish "$name-serve"
}

for offload in on off; do
  offloads $offload
  for mode in layered fused; do
    stack_file ours-a.toml packet 11
    stack_file ours-b.toml packet 12
    sed -i "s/^driver/mode = \"$mode\"\ndriver/" ours-a.toml ours-b.toml
    for version in 4 6; do
      case $version in
        4) ours=10.77.0.12 its=$ADDR_B ;;
        6) ours=[fd00:77::12] its=[$ADDR6_B] ;;
      esac
      transfer "ours-kernel-$offload-$mode-v$version" kernel ours-a.toml "$its"
      transfer "kernel-ours-$offload-$mode-v$version" ours-b.toml kernel "$ours"
      transfer "ours-ours-$offload-$mode-v$version" ours-b.toml ours-a.toml "$ours"
    done
  done
done

# Nothing is offloaded: we split and sum.
offloads off
for mode in layered fused; do
  sed "s/kind = \"packet\"/kind = \"packet\", offload = false/; s/^mode = .*/mode = \"$mode\"/" ours-a.toml > split.toml
  background "wire-$mode" in_b tshark -q -i veth0 -w "wire-$mode.pcap" -f 'udp port 7070'
  wait_for "wire-$mode.err" Capturing
  transfer "split-$mode" kernel split.toml "$ADDR_B"
  stop "wire-$mode" || true
  tshark -r "wire-$mode.pcap" -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE \
    -Y 'udp.checksum.status == "Bad" or ip.checksum.status == "Bad"' > bad 2> tshark.err || cat tshark.err > bad
  expect "split-$mode: no bad checksum on the wire" test ! -s bad
  # 5,600 and more if the capture misses none, which it may on a busy machine; some 130 if they were super-frames.
  expect "split-$mode: datagrams were on the wire" \
    test "$(tshark -r "wire-$mode.pcap" -Y 'udp.dstport == 7070' 2>/dev/null | wc -l)" -gt 3000
done

# The path's MTU shrinks while datagrams of its size before are on their way.
offloads on
head -c 300000000 /dev/zero > file
background shrink bash -c "sleep 0.15; for ns in $NS_A $NS_B; do ip -n \$ns link set veth0 mtu 1300; done"
transfer "mtu" ours-b.toml ours-a.toml 10.77.0.12
finish shrink

# TAP devices, each bridged to the link: super-frames cross to the kernel and back, where it knows TUN_F_USO4 (Linux 6.2).
bridge_taps
head -c 8000001 /dev/urandom > file

# Whether the sender's payload went down without a pass of ours: only a super-frame's does, on a fused path.
went_whole() {  # NAME
  python3 - "$1.out" <<'PYTHON'
import json, sys
sent = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")][-1]
sys.exit(sent["loaded_bytes"] > 0.2 * sent["bytes"])
PYTHON
}
kernel_knows_uso() {
  local major minor
  IFS=. read -r major minor _ < <(uname -r)
  ((major > 6 || (major == 6 && ${minor%%-*} >= 2)))
}

for offload in true false; do
  for mode in layered fused; do
    for end in a:11 b:12; do
      stack_file tap-${end%:*}.toml tap ${end#*:}
      sed -i "s/device = \"veth0\"/device = \"tap0\", offload = $offload/; s/^driver/mode = \"$mode\"\ndriver/" tap-${end%:*}.toml
    done
    for version in 4 6; do
      case $version in
        4) ours=10.77.0.12 its=$ADDR_B ;;
        6) ours=[fd00:77::12] its=[$ADDR6_B] ;;
      esac
      name=tap-$offload-$mode-v$version
      transfer "$name-to-kernel" kernel tap-a.toml "$its"
      transfer "$name-from-kernel" tap-b.toml kernel "$ours"
      transfer "$name-both" tap-b.toml tap-a.toml "$ours"
      if [ $mode = fused ] && kernel_knows_uso; then
        whole=$(went_whole "$name-both" && echo true || echo false)
        expect "$name: what was sent together went as one where it is offloaded" test "$whole" = $offload
      fi
    done
  done
done
