#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A receiver that is stopped for seconds in the middle of a transfer loses nothing that the link did not lose: what is
# under way then fits where it waits (docs/formats/ftx.md, credit_bytes).
source "$(dirname "$0")/common.sh"
two_hosts

head -c 256M /dev/urandom > big.bin
stack_file packet-a.toml packet 11
stack_file packet-b.toml packet 12

stopped() {  # NAME SENDER-OPTIONS RECEIVER-OPTIONS ADDRESS
  local name=$1 sender=$2 receiver=$3 address=$4
  mkdir "in-$name"
  # shellcheck disable=SC2086
  background "serve-$name" in_b "$FTX" serve "in-$name" $receiver --port 7070 --once --insecure --json
  wait_for "serve-$name.out" listening
  # shellcheck disable=SC2086
  background "send-$name" in_a "$FTX" big.bin "ftx://$address:7070/" $sender --insecure --json
  wait_for "serve-$name.out" '"offer"'
  kill -STOP "${PID[serve-$name]}"
  sleep 3
  kill -CONT "${PID[serve-$name]}"
  expect "$name: the sender ends well" finish "send-$name"
  expect "$name: the server ends well" finish "serve-$name"
  expect "$name: the files are equal" cmp big.bin "in-$name/big.bin"
  echo "   sender: $(tail -1 "send-$name.out")"
  [ "$(json_field "send-$name.out" done repaired)" = 0 ] || { echo "$name: ADUs were lost" >&2; return 1; }
  [ "$(json_field "send-$name.out" done seconds | cut -d. -f1)" -ge 3 ] || { echo "$name: it was not stopped" >&2; return 1; }
  rm "in-$name/big.bin"
}

stopped kernel "" "--listen $ADDR_B" $ADDR_B
stopped packet "--stack packet-a.toml" "--stack packet-b.toml --listen 10.77.0.12" 10.77.0.12
