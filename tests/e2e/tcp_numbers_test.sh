#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP and the kernel's while the sequence numbers of either wrap, whoever has called; IPv4 and IPv6.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/middle.sh"
for family in 4 6; do
  in_the_middle tcp_numbers.py $family
done
