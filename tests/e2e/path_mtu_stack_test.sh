#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx over our own stack finds the path MTU: through a router whose far link carries 1400 bytes, with and without its
# ICMP messages, over jumbo frames, and while the far link shrinks; layered and fused, over IPv4 and IPv6. The files are
# equal, `ip` fragments nothing, and data goes in packets as large as the path carries. Over kernel UDP: path_mtu_test.sh.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/routed.sh"

# of SIDE NET: two stack files, whose hosts are .11 there.
of() {
  local mode
  for mode in layered fused; do
    cat > "$mode-$1.toml" <<TOML
[stack.main]
mode   = "$mode"
driver = { kind = "packet", device = "veth0" }
push   = ["ip", "udp", "timod"]
ip     = { address = ["10.77.$2.11/24", "fd00:77$2::11/64"], gateway = ["10.77.$2.254", "fd00:77$2::fe"] }
TOML
  done
}
of a 1
of b 2

# own MODE: both ends' stacks are ours from here on.
own() { STACK=(--stack "$1-a.toml") SERVE_STACK="--stack $1-b.toml"; }

own fused
SERVE_OPTIONS="$SERVE_STACK --listen 10.77.2.11" transfer jumbo 10.77.2.11 "${STACK[@]}"
ended jumbo
check jumbo "$(packet 9000 28)"

far_mtu 1400
SERVE_OPTIONS="$SERVE_STACK --listen 10.77.2.11" transfer told 10.77.2.11 "${STACK[@]}"
ended told
check told "$(packet 1400 28)"
SERVE_OPTIONS="--listen fd00:772::1" transfer told6 '[fd00:772::1]' "${STACK[@]}"  # to a kernel's
ended told6
check told6 "$(packet 1400 48)"

own layered
far_mtu 1400 9000
SERVE_OPTIONS="$SERVE_STACK --listen 10.77.2.11" transfer silent 10.77.2.11 "${STACK[@]}"
ended silent
check silent "$(packet 1400 28)"
SERVE_OPTIONS="$SERVE_STACK --listen fd00:772::11" transfer silent6 '[fd00:772::11]' "${STACK[@]}"
ended silent6
check silent6 "$(packet 1400 48)"

for mode in layered fused; do
  own $mode
  SERVE_OPTIONS="$SERVE_STACK --listen 10.77.2.11" shrink "shrinks-$mode" 10.77.2.11 "${STACK[@]}"
done
