#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx over kernel UDP finds the path MTU: through a router whose far link carries 1400 bytes, with and without its ICMP
# messages, over jumbo frames, and while the far link shrinks. The files are equal, nothing is fragmented, and data goes
# in packets as large as the path carries.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/routed.sh"

transfer jumbo 10.77.2.1
ended jumbo
check jumbo "$(packet 9000 28)"

transfer jumbo6 '[fd00:772::1]'
ended jumbo6
check jumbo6 "$(packet 9000 48)"

transfer capped 10.77.2.1 --datagram-bytes 3000
ended capped
check capped "$(packet 3028 28)"

far_mtu 1400
transfer told 10.77.2.1
ended told
check told "$(packet 1400 28)"
transfer told6 '[fd00:772::1]'
ended told6
check told6 "$(packet 1400 48)"

# The same link, and nobody says so.
far_mtu 1400 9000
expect "the router is silent" bash -c "! ip netns exec $NS_A ping -c 1 -W 1 -M do -s 1500 10.77.2.1 2>&1 | grep -qi 'frag needed'"

transfer silent 10.77.2.1
ended silent
check silent "$(packet 1400 28)"
transfer silent6 '[fd00:772::1]'
ended silent6
check silent6 "$(packet 1400 48)"

shrink shrinks 10.77.2.1
