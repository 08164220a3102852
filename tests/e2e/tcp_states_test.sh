#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP and the kernel's: a reset in every state of either that the other really sends, both opening and closing at
# once, and an end that has forgotten the connection; IPv4 and IPv6.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/middle.sh"
for family in 4 6; do
  in_the_middle tcp_states.py $family
done
