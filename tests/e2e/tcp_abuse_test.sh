#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP and the kernel's on a link that loses, reorders, duplicates and cuts segments anew, and with windows of zero;
# IPv4 and IPv6.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/middle.sh"
for family in 4 6; do
  in_the_middle tcp_abuse.py $family
done
