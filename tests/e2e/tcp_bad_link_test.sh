#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our own TCP and the kernel's over a link that loses, reorders, duplicates, corrupts and delays what goes either way:
# megabytes both ways at once, called by either, over IPv4 and IPv6, come whole.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/kernel_tcp.sh"
two_hosts
head -c 5000000 /dev/urandom > question
head -c 5000000 /dev/urandom > reply

our_stack 21 "loss = 1, delay_ms = 2, seed = 1"
our_stack 22 "loss = 1, burst = 5, delay_ms = 2, seed = 2"
our_stack 23 "reorder = 5, delay_ms = 2, seed = 3"
our_stack 24 "duplicate = 5, delay_ms = 2, seed = 4"
our_stack 25 "bit_errors = 5e-8, delay_ms = 2, seed = 5"
our_stack 26 "loss = 1, reorder = 5, duplicate = 2, bit_errors = 5e-8, delay_ms = 5, jitter_ms = 2, seed = 7"
our_stack 27 "rate_mbit = 100, queue_bytes = 60000, overhead_bytes = 38, delay_ms = 5, seed = 8"

begin_capture
for family in 4 6; do
  exchange loss-$family we $family 21
  exchange bursts-$family it $family 22
  exchange reordered-$family we $family 23
  exchange duplicates-$family it $family 24
  for name in loss bursts reordered duplicates; do
    exchanged $name-$family
  done
  exchange bit-errors-$family it $family 25
  exchange everything-$family we $family 26
  exchange narrow-$family it $family 27
  for name in bit-errors everything narrow; do
    exchanged $name-$family
  done
done
# Bits are flipped behind our back.
check_segments 21 22 23 24 27
