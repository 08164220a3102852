#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ten clients of one server, nine of them hostile (tests/hostile/crowd.py): the tenth is served, and its file is whole. How
# long it took beside them and alone is told.
source "$(dirname "$0")/../e2e/common.sh"
head -c 3M /dev/urandom > big.bin
mkdir incoming
background serve "$FTX" serve incoming --insecure --json --listen 127.0.0.1
wait_for serve.out listening
background crowd python3 "$TOP/tests/hostile/crowd.py" 7070 20
wait_for crowd.out ready
sleep 3  # until they all hold what they may
took=${EPOCHREALTIME/./}
expect_exit 0 "the tenth client is served" timeout 60 "$FTX" big.bin ftx://127.0.0.1/ --insecure --rate 40
crowded=$((${EPOCHREALTIME/./} - took))
expect "its file is whole" cmp big.bin incoming/big.bin
expect "the nine were at it" finish crowd
cat crowd.out
took=${EPOCHREALTIME/./}
expect_exit 0 "a client after them" "$FTX" big.bin ftx://127.0.0.1/again --insecure --rate 40
alone=$((${EPOCHREALTIME/./} - took))
echo "beside them $((crowded / 1000)) ms, alone $((alone / 1000)) ms: $((100 * crowded / alone)) %"
expect "and its file" cmp big.bin incoming/again
expect_exit 130 "SIGINT ends the server" stop serve
expect "nothing else is left" test "$(ls -A incoming | wc -l)" = 2
