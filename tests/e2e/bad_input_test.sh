#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What users, files, disks and peers do wrong: each ends soon, with its own exit code and a text that says what to do, and
# never leaves half a file under its final name. (What the network does wrong: tests/hostile.)
source "$(dirname "$0")/common.sh"
two_hosts

fails() {  # CODE WHAT TEXT COMMAND...: fails with that exit code and tells TEXT
  local text=$3
  expect_exit "$1" "$2" "${@:4}"
  grep -q -- "$text" last.out last.err || { echo "FAILED: $2: '$text' is not in:" >&2; cat last.out last.err >&2; exit 1; }
}

ended() {  # CODE WHAT TEXT NAME: the same for a program in the background
  local status=0
  finish "$4" || status=$?
  grep -q -- "$3" "$4.out" "$4.err" && [ $status -eq "$1" ] && { echo "ok: $2 (exit code $1)"; return; }
  echo "FAILED: $2: exit code $status, expected $1 and '$3'" >&2
  cat "$4.out" "$4.err" >&2
  exit 1
}

serve() {  # NAME OPTIONS: over the kernel's UDP in namespace B, into the directory in-NAME
  mkdir -p "in-$1"
  background "serve-$1" in_b "$FTX" serve "in-$1" --insecure --json "${@:2}"
  wait_for "serve-$1.out" listening
}

# 8 Mbit/s: a transfer of big.bin takes seconds, so that something can happen half-way.
send_slowly() { background "$1" in_a "$FTX" big.bin "ftx://$ADDR_B:$2/" --rate 8 --insecure --json "${@:3}"; }
half_way() { wait_for "$1.out" '"event":"progress"'; }

no_final_name() {  # DIRECTORY FILE
  [ ! -e "$1/$2" ] || { echo "FAILED: there is half a $2 in $1" >&2; exit 1; }
}

head -c 8M /dev/urandom > big.bin
echo words > small.txt
send() { echo in_a "$FTX" "$@" --insecure; }

# ---- stack files ----
stack_file packet.toml packet 12
for driver in packet pcap tap; do
  stack_file no-device-$driver.toml $driver 12
  sed -i 's/veth0/device9/' no-device-$driver.toml
done
stack_file misspelt.toml packet 12 '"ip", "upd", "timod"'
stack_file impossible.toml packet 12 '"timod", "ip"'
stack_file unknown-key.toml packet 12 '' 'udp = { cheksum = true }'
printf '[stack.main' > cut-off.toml
for run in "$SLUICE check FILE" "$SLUICE explain FILE" "in_b $SLUICE run FILE" "in_b $SLUICE nc -l --stack FILE" \
           "in_b $FTX serve . --insecure --stack FILE"; do
  fails 3 "${run##*/}: unknown module" 'misspelt.toml:3: .*no module "upd"; did you mean "udp"' ${run/FILE/misspelt.toml}
done
fails 3 "impossible chain" "'timod' needs the TPI transport service below it.*push \"ip\", \"\\(tcp\\|udp\\)\" between" "$SLUICE" check impossible.toml
fails 3 "unknown parameter" 'there is no parameter "cheksum"; did you mean "checksum"' "$SLUICE" check unknown-key.toml
fails 3 "no TOML" 'cut-off.toml:1: syntax' "$SLUICE" check cut-off.toml
fails 3 "no such stack file" 'No such file' "$SLUICE" check nothing.toml
fails 2 "no such module" 'did you mean "capture"' "$SLUICE" modules captur

# ---- flags ----
for flag in --rate --idle-timeout --connect-timeout; do
  for number in 940M -3 0 inf nan; do
    fails 2 "$flag $number" "^ftx: $flag: expected a number above 0, found '$number'; see ftx --help" "$FTX" small.txt nowhere: $flag $number
  done
done

# ---- devices, privileges, ports ----
for driver in packet pcap; do
  fails 4 "sluice: missing device" "no network interface 'device9' here; there are: lo, veth0" in_b "$SLUICE" run no-device-$driver.toml
  fails 15 "ftx: missing device" "no network interface 'device9' here" in_b "$FTX" serve . --insecure --stack no-device-$driver.toml
done
unprivileged=(in_b setpriv --bounding-set -net_raw,-net_admin,-net_bind_service,-dac_override,-dac_read_search)
for driver in packet pcap tap; do
  [ $driver = tap ] && file=no-device-tap.toml capability=CAP_NET_ADMIN || { stack_file $driver.toml $driver 12; file=$driver.toml capability=CAP_NET_RAW; }
  fails 4 "sluice: missing privilege for $driver" "$capability.*run as root.*setcap" "${unprivileged[@]}" "$SLUICE" run $file
  fails 4 "ftx: missing privilege for $driver" "$capability.*run as root.*setcap" "${unprivileged[@]}" "$FTX" serve . --insecure --stack $file
done
fails 4 "ftx: a port for the privileged" 'cannot bind to .*:80' "${unprivileged[@]}" "$FTX" serve . --insecure --port 80
serve port --port 7001
fails 15 "ftx: port in use" ':7001.*in use' in_b "$FTX" serve . --insecure --port 7001
kill -INT "${PID[serve-port]}"
ended 130 "an idle server interrupted" listening serve-port

# ---- the command line ----
export XDG_CONFIG_HOME=$DIR/config
fails 2 "serving nobody" 'nobody may come yet.*ftx key' "$FTX" serve .
fails 2 "serving with a list that is not there" 'nowhere' "$FTX" serve . --allow nowhere
fails 2 "serving anyone and a list" 'anyone' "$FTX" serve . --allow nowhere --anyone
echo password > password.txt && chmod 600 password.txt
fails 2 "a password for a secret" '64 hexadecimal digits' "$FTX" small.txt "ftx://$ADDR_B/" --secret-file password.txt
chmod 644 password.txt
fails 2 "a secret that others can read" 'password.txt' "$FTX" serve . --secret-file password.txt
fails 2 "a key that is none" 'accept-key' in_a "$FTX" small.txt "ftx://$ADDR_B/" --accept-key ftx-key:none
for url in ftp://x/ ftx:// "ftx://$ADDR_B:0/" "ftx://$ADDR_B:99999/" 'ftx://[fd00::1/' "$ADDR_B"; do
  fails 2 "bad URL $url" 'ftx://HOST:PORT/PATH' $(send small.txt "$url")
done
for path in .. ../x a/../../x a//b; do
  fails 2 "path $path" 'must stay inside what the server serves' $(send small.txt "ftx://$ADDR_B/$path")
done
fails 10 "no such directory to serve" "cannot open the directory 'nowhere'" "$FTX" serve nowhere --insecure

# ---- sources ----
echo secret > secret.txt
chmod 000 secret.txt
cp small.txt $'control\ncharacters'
mkfifo pipe
fails 5 "no such source" 'No such file' $(send nothing.txt "ftx://$ADDR_B/")
fails 5 "a directory" 'it is a directory' $(send "$DIR" "ftx://$ADDR_B/")
fails 5 "a pipe" 'it is not a regular file' $(send pipe "ftx://$ADDR_B/")
fails 5 "an unreadable source" 'Permission denied' "${unprivileged[@]}" "$FTX" secret.txt "ftx://$ADDR_B/" --insecure
fails 5 "a name with control characters" "'control?characters'.*control characters" in_a "$FTX" $'control\ncharacters' "ftx://$ADDR_B/" --insecure

# ---- where it goes ----
serve where --port 7002
ln -s "$DIR" in-where/link
ln -s "$DIR/secret.txt" in-where/link.txt
mkdir -p in-where/taken/small.txt
fails 8 "through a symbolic link" "cannot open the directory 'link/'" $(send small.txt "ftx://$ADDR_B:7002/link/new.txt")
fails 8 "onto a symbolic link" "refused the symbolic link 'link.txt'" $(send small.txt "ftx://$ADDR_B:7002/link.txt")
fails 8 "into no directory" "cannot open the directory 'none/'" $(send small.txt "ftx://$ADDR_B:7002/none/")
fails 8 "two files under one name" 'several files need a directory' $(send small.txt big.bin "ftx://$ADDR_B:7002/one")
fails 10 "onto a directory" "cannot replace 'taken/small.txt'" $(send small.txt "ftx://$ADDR_B:7002/taken/")
no_final_name "$DIR" new.txt
[ "$(cat secret.txt)" = secret ] || { echo "FAILED: the link's target was written" >&2; exit 1; }

# ---- nobody there ----
fails 6 "nobody listens" 'connection refused' timeout 5 ip netns exec $NS_A "$FTX" small.txt "ftx://$ADDR_B:7099/" --insecure
background silent in_b python3 -c '
import socket, time
endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
endpoint.bind(("", 7098))
print("listening", flush=True)
time.sleep(60)'
wait_for silent.out listening
# These two take their time: their outcome is looked at in the end.
background unanswered in_a "$FTX" small.txt "ftx://$ADDR_B:7098/" --insecure
background absent in_a "$FTX" small.txt ftx://10.77.0.99/ --insecure

# ---- half-way ----
serve truncated --port 7003 --once
cp big.bin keep.bin
send_slowly truncate 7003
half_way truncate
truncate -s 100 big.bin
ended 12 "a source truncated: the sender" '"code":12' truncate
ended 12 "a source truncated: the server" '"code":12' serve-truncated
no_final_name in-truncated big.bin

cp keep.bin big.bin
serve deleted --port 7004 --once
send_slowly delete 7004
half_way delete
rm big.bin
ended 12 "a source deleted: the sender" '"code":12' delete
ended 12 "a source deleted: the server" '"code":12' serve-deleted
no_final_name in-deleted big.bin
cp keep.bin big.bin

mkdir in-full
mount -t tmpfs -o size=2m full in-full
serve full --port 7005 --once
send_slowly full 7005
ended 9 "disk full: the sender" '"code":9' full
ended 9 "disk full: the server" '"code":9' serve-full
no_final_name in-full big.bin

serve killed --port 7006
send_slowly orphan 7006 --idle-timeout 1
half_way orphan
kill -KILL "${PID[serve-killed]}"
ended 7 "the server killed: the sender" '"code":7' orphan
no_final_name in-killed big.bin

serve widowed --port 7007 --once --idle-timeout 1
send_slowly killed 7007
half_way killed
kill -KILL "${PID[killed]}"
ended 7 "the sender killed: the server" '"code":7' serve-widowed
no_final_name in-widowed big.bin

serve restarted --port 7008
send_slowly restart 7008
half_way restart
kill -KILL "${PID[serve-restarted]}"
finish serve-restarted || true
serve restarted --port 7008
ended 14 "the server restarted: the sender" '"code":14' restart
no_final_name in-restarted big.bin

serve interrupt --port 7009 --once
send_slowly interrupted 7009
half_way interrupted
kill -INT "${PID[interrupted]}"
ended 130 "the sender interrupted" '"code":130' interrupted
ended 130 "and its server told" '"code":130' serve-interrupt
no_final_name in-interrupt big.bin

serve interrupted --port 7010
send_slowly told 7010
half_way told
kill -INT "${PID[serve-interrupted]}"
ended 130 "the server interrupted" '"code":130' serve-interrupted
ended 130 "and its sender told" '"code":130' told
no_final_name in-interrupted big.bin

serve two --port 7011
background first in_a "$FTX" big.bin "ftx://$ADDR_B:7011/first" --insecure
background second in_a "$FTX" big.bin "ftx://$ADDR_B:7011/second" --insecure
expect "two senders at once: the first" finish first
expect "two senders at once: the second" finish second
expect "both files are whole" cmp big.bin in-two/first
expect "both files are whole" cmp big.bin in-two/second

ended 6 "no answer at all" 'no answer' unanswered
ended 6 "no such host" 'no answer' absent
# What the next transfer goes on with may stay; other temporary files only where a process was killed.
if find in-* -name '.*.ftx-*' -not -name '.*.ftx-part' -not -name '.*.ftx-journal' -not -path 'in-full/*' -not -path 'in-killed/*' -not -path 'in-restarted/*' | grep .; then
  echo "FAILED: temporary files were left behind" >&2
  exit 1
fi
