#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP and the kernel's while strangers send blind segments and floods of SYNs; IPv4 and IPv6.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/middle.sh"
for family in 4 6; do
  in_the_middle tcp_attacks.py $family
done
