#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A transfer that ends in whatever way is continued by the same command: kill -9 of either side at random moments, a full
# disk, a source that changed, two transfers at once, a damaged partial file, and what somebody has put in its place.
#
# FTX_KILLS kills (default 20), of seed FTX_KILL_SEED (default 1): FTX_KILLS=200 E2E_SECONDS_MAX=2000 runs many.
E2E_SECONDS_MAX=${E2E_SECONDS_MAX:-560}
source "$(dirname "$0")/common.sh"

RANDOM=${FTX_KILL_SEED:-1}
PORT=7171
head -c 24M /dev/urandom > big.bin
mkdir in
PART=in/.big.bin.ftx-part JOURNAL=in/.big.bin.ftx-journal

serve() { background serve "$FTX" serve in --insecure --listen 127.0.0.1 --port $PORT --json "$@"; wait_for serve.out listening; }
push() { "$FTX" big.bin ftx://127.0.0.1:$PORT/ --insecure --json --idle-timeout 10 "$@" < /dev/null; }
field() { grep '"done"' "$1" | tail -1 | grep -o "\"$2\":[0-9]*" | cut -d: -f2; }
bury() { kill -9 "$1" 2> /dev/null || true; wait "$1" 2> /dev/null || true; }
kill_server() { bury "${PID[serve]}"; }
known_in_journal() { [ -e $JOURNAL ] && [ "$(stat -c %s $JOURNAL)" -gt 80 ]; }
# One that is cut off when something is in the journal.
cut_off() {
  background cut push --rate 150
  until_known || true
  bury "${PID[cut]}"
  known_in_journal
}
until_known() {
  for _ in $(seq 200); do
    if known_in_journal; then return; fi
    sleep 0.05
  done
  return 1
}
none_or_whole() { [ ! -e in/big.bin ] || cmp big.bin in/big.bin; }
begin_again() { rm -rf in/* in/.big* ; }

# --- kill -9 ---

# At any moment, two of three when something is in the journal.
continued=0
for ((i = 1; i <= ${FTX_KILLS:-20}; ++i)); do
  serve
  begin_again
  background push push --rate 150
  if ((i % 3)); then until_known || true; fi
  sleep "0.$((10 + RANDOM % 40))"
  if ((RANDOM % 2)); then
    kill_server
    expect "kill $i: no file under its name, or all of it" none_or_whole
    bury "${PID[push]}"
    serve
  else
    bury "${PID[push]}"
    expect "kill $i: no file under its name, or all of it" none_or_whole
  fi
  known=no
  if known_in_journal; then known=yes; fi
  push > again.out 2> again.err || { echo "kill $i: the same command again failed" >&2; cat again.err again.out >&2; exit 1; }
  expect "kill $i: equal" cmp big.bin in/big.bin
  expect "kill $i: nothing is left" test "$(ls -A in)" = big.bin
  sent=$(field again.out bytes) skipped=$(field again.out skipped_bytes)
  expect "kill $i: all of it is sent or skipped" test $((sent + skipped)) = "$(stat -c %s big.bin)"
  if [ $known = yes ]; then
    expect "kill $i: less is sent than all" test "$skipped" -gt 0
    continued=$((continued + 1))
  fi
  kill_server
done
expect "most kills leave something to continue with ($continued)" test $continued -ge $((${FTX_KILLS:-20} / 2))

# --- an interrupted receiver, and one that is asked to leave nothing ---

begin_again
serve
background cut push --rate 150
sleep 0.5
stop serve || true
bury "${PID[cut]}"
expect "an interrupt keeps what is there" known_in_journal
serve
expect "after an interrupt" push
begin_again
kill_server
serve --no-partial
background cut push --rate 150
sleep 0.5
stop serve || true
bury "${PID[cut]}"
expect "--no-partial leaves nothing" test -z "$(ls -A in)"

# --- a full disk ---

mount -t tmpfs -o size=12M small in
serve
expect_exit 9 "a full disk" push
expect "what has arrived is kept" known_in_journal
mount -o remount,size=40M in
push > again.out
expect "after a full disk: equal" cmp big.bin in/big.bin
expect "after a full disk: less is sent than all" test "$(field again.out skipped_bytes)" -gt 1000000
kill_server
umount in

# --- a source that changed ---

serve
cut_off
cp big.bin other.bin
head -c 24M /dev/urandom > big.bin
push > again.out
expect "a source that changed: nothing is mixed" cmp big.bin in/big.bin
expect "a source that changed: all of it is sent" test "$(field again.out skipped_bytes)" = 0
begin_again
cut_off
touch -r big.bin when
head -c 24M /dev/urandom > big.bin
touch -r when big.bin
expect_exit 11 "a source that changed and looks the same" push
expect "a source that changed and looks the same: nothing is left" test -z "$(ls -A in)"
expect "a source that changed and looks the same: once more" push
expect "a source that changed and looks the same: equal" cmp big.bin in/big.bin

# --- a damaged partial file ---

begin_again
cut_off
kill_server
printf '\xff\xfe\xfd' | dd of=$PART bs=1 seek=1000 conv=notrunc status=none
serve --verify
push > again.out
expect "--verify: a damaged block is sent again" cmp big.bin in/big.bin
kill_server

# --- two receivers at once, of two processes ---

begin_again
serve
background second "$FTX" serve in --insecure --listen 127.0.0.1 --port $((PORT + 1)) --json
wait_for second.out listening
background one push --rate 100
sleep 0.3
expect "two at once: the second" "$FTX" big.bin ftx://127.0.0.1:$((PORT + 1))/ --insecure
expect "two at once: the first" finish one
expect "two at once: equal" cmp big.bin in/big.bin
expect "two at once: nothing is left" test "$(ls -A in)" = big.bin
bury "${PID[second]}"

# --- what somebody has put in its place ---

for plant in "ln -s $DIR/victim" mkfifo mkdir "ln victim"; do
  begin_again
  echo untouched > victim
  $plant $PART
  expect "$plant: a transfer" push
  expect "$plant: equal" cmp big.bin in/big.bin
  expect "$plant: what is elsewhere is untouched" grep -q untouched victim
done
