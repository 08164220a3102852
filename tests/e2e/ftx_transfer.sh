# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of ftx over drivers, after common.sh and two_hosts, with $size_mib: big.bin, of so many MiB.
#
#   transfer NAME SENDER-OPTIONS RECEIVER-OPTIONS ADDRESS   big.bin goes from A to B, both ends end well, and it is equal

head -c "${size_mib}M" /dev/urandom > big.bin

transfer() {
  local name=$1 sender=$2 receiver=$3 address=$4
  mkdir "in-$name"
  # shellcheck disable=SC2086
  background "serve-$name" in_b "$FTX" serve "in-$name" $receiver --port 7070 --once --insecure --json
  wait_for "serve-$name.out" listening
  # shellcheck disable=SC2086
  in_a "$FTX" big.bin "ftx://$address:7070/" $sender --insecure --json > "send-$name.out"
  expect "$name: the server ends well" finish "serve-$name"
  expect "$name: the files are equal" cmp big.bin "in-$name/big.bin"
  rm "in-$name/big.bin"
  echo "   sender:   $(tail -1 "send-$name.out")"
  echo "   receiver: $(tail -1 "serve-$name.out")"
  [ "$(json_field "serve-$name.out" done bytes)" = $((size_mib << 20)) ]
}
