#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx started through a real ssh between two namespaces: one sshd in B, files both ways, and what is said when something
# fails. Accounts, keys and configuration are the test's own; no agent is asked, and /etc stays as it is.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/ssh_hosts.sh"
two_hosts

cp -r "$SLUICE_BIN/ftx" home-b/ftx-there
port=2222
sshd_settings $port > sshd_config
# A link-local address of B, which A reaches in its zone.
LINK_B=fe80::77:2
in_b ip address add $LINK_B/64 dev veth0 nodad
in_a ip address add fe80::77:1/64 dev veth0 nodad
known() {  # KEY
  local address
  for address in $ADDR_B "$ADDR6_B" "$LINK_B%veth0" nowhere; do echo "[$address]:$port $(cat "keys/$1.pub")"; done
}
known host > known_hosts
known other > known_wrong
{
  printf 'Host there\n  HostName %s\n' $ADDR_B
  ssh_settings $port
} > ssh_config
background sshd in_b "${SSHD[@]}" /usr/sbin/sshd -D -e -f "$DIR/sshd_config"
for i in $(seq 200); do in_b ss -Hltn "sport = :$port" | grep -q . && break; sleep 0.05; done

ssh_a="ssh -F $DIR/ssh_config"
far=$DIR/home-b/ftx-there
ftx_a() { in_a "$FTX" --ssh "${SSH:-$ssh_a}" --remote-ftx "${FAR:-$far}" "$@"; }
no_far_side() {
  local i
  for i in $(seq 200); do pgrep -f "^$far remote" >/dev/null || return 0; sleep 0.05; done
  echo "the far side still runs" >&2
  return 1
}
no_leftovers() { ! find home-b -name '*.ftx-*' | grep .; }
says() { grep -q -- "$1" last.err || { echo "'$1' is not said:" >&2; cat last.err >&2; return 1; }; }
fails() {  # CODE TEXT WHAT COMMAND
  expect_exit "$1" "$3" "${@:4}"
  says "$2"
  expect "$3: nothing runs there" no_far_side
}

head -c 8M /dev/urandom > big.bin
echo small > "with space.txt"
mkdir home-b/data

# What works.
expect "push to an alias" ftx_a big.bin there:
expect "push to an alias: equal" cmp big.bin home-b/big.bin
expect "push by address, a path with spaces, a file with spaces" ftx_a "with space.txt" "me@$ADDR_B:data/a name"
expect "spaces: equal" cmp "with space.txt" "home-b/data/a name"
expect "push into ~/data, two files" ftx_a big.bin "with space.txt" "there:~/data/"
expect "~/data: equal" cmp "with space.txt" "home-b/data/with space.txt"
expect "push over IPv6" ftx_a big.bin "[$ADDR6_B]:six.bin" -p $port
expect "IPv6: equal" cmp big.bin home-b/six.bin
expect "push to a link-local address" ftx_a --via udp big.bin "[$LINK_B%veth0]:link.bin" -p $port
expect "link-local: equal" cmp big.bin home-b/link.bin
mkdir in
expect "pull by pattern" ftx_a 'there:data/*' "there:~/six.bin" in
expect "pull: equal" cmp big.bin in/six.bin
expect "pull: equal, with spaces" cmp "with space.txt" "in/with space.txt"
expect "pull over IPv6" ftx_a "[$ADDR6_B]:six.bin" in/seven.bin
expect "pull over IPv6: equal" cmp big.bin in/seven.bin
expect "pull from a link-local address" ftx_a --via udp "[$LINK_B%veth0]:link.bin" in/link.bin
expect "link-local, pull: equal" cmp big.bin in/link.bin
expect "nothing runs there" no_far_side

# Standard input.
piped() { cat "$1" | ftx_a - "${@:2}"; }  # FILE DESTINATION OPTION...
for way in pipe udp; do
  expect "standard input, by $way" piped big.bin there:data/input --via $way
  expect "standard input, by $way: equal" cmp big.bin home-b/data/input
  fails 8 "needs the name of a file" "standard input into a directory, by $way" piped big.bin there:data --via $way
  rm home-b/data/input
done
expect "standard input: nothing is left" no_leftovers

# Trees.
make_tree tree
expect "push a tree" ftx_a -a tree there:
expect "tree: equal" same_tree tree home-b/tree
expect "push a tree over what is there" ftx_a -a tree there:
expect "tree, again: equal" same_tree tree home-b/tree
expect "push what lies in a tree into a new directory, in the pipe" ftx_a -a tree/ there:data/new --via pipe
expect "content: equal" same_tree tree home-b/data/new
expect "pull a tree" ftx_a -a there:tree in
expect "tree, pulled: equal" same_tree tree in/tree
expect "pull what lies in a tree, in the pipe" ftx_a -a there:tree/ in/content --via pipe
expect "content, pulled: equal" same_tree tree in/content
for way in pipe udp; do
  find home-b/data/new in/content -type f -exec touch -d 2002-03-04 {} +
  expect_exit 0 "push by content, by $way" ftx_a -a -c tree/ there:data/new --via $way --json
  expect "push by content, by $way: nothing is sent" grep -q '"done".*"bytes":0,' last.out
  expect "push by content, by $way: equal, times as well" same_tree tree home-b/data/new
  expect_exit 0 "pull by content, by $way" ftx_a -a -c there:tree/ in/content --via $way --json
  expect "pull by content, by $way: nothing is sent" grep -q '"done".*"bytes":0,' last.out
  expect "pull by content, by $way: equal, times as well" same_tree tree in/content
done

# What would change is told, and not done; and then told and done.
older_copy() {  # of the tree: DIRECTORY
  mkdir "$1" "$1/gone" && cp -a tree/sub "$1/" && echo old > "$1/sub/large" && touch "$1/gone/x" && chmod 600 "$1/sub/deeper/small 9"
}
tells() {  # WHAT LINE...
  local line
  for line in "${@:2}"; do expect "$1 says: $line" grep -qxF -- "$line" last.out; done
}
changes=("cd+++++++++ empty/" "cL+++++++++ dangling -> nowhere" "cd+++++++++ read only/" ".f...p..... sub/deeper/small 9" "*deleting   gone/x" "*deleting   gone/")
older_copy home-b/dry && older_copy in/dry
for way in pipe udp; do
  everything home-b/dry > dry.push && everything in/dry > dry.pull
  expect_exit 0 "dry run of a push, by $way" ftx_a -a -n -i --delete tree/ there:dry --via $way
  tells "dry run of a push, by $way" "<f.st...... sub/large" "<f+++++++++ nil" "${changes[@]}"
  expect "dry run of a push, by $way: it says what it was" grep -q ": a dry run, nothing was sent or changed$" last.out
  expect "dry run of a push, by $way: no line of what stays" test "$(grep -c small last.out)" = 1
  cp last.out pushed.$way
  expect_exit 0 "dry run of a pull, by $way" ftx_a -a -n -i --delete there:tree/ in/dry --via $way
  tells "dry run of a pull, by $way" ">f.st...... sub/large" ">f+++++++++ nil" "${changes[@]}"
  expect_exit 0 "dry run, names alone, by $way" ftx_a -a -n --delete tree/ there:dry --via $way
  tells "dry run, names alone, by $way" sub/large empty/ "dangling -> nowhere" "deleting gone/x"
  expect_exit 0 "dry run into what is not there, by $way" ftx_a -a -n -i tree/ there:never --via $way
  tells "dry run into what is not there, by $way" "cd+++++++++ ./" "<f+++++++++ sub/large"
  expect "dry runs by $way make nothing" test ! -e home-b/never
  expect "dry runs by $way change nothing there" diff dry.push <(everything home-b/dry)
  expect "dry runs by $way change nothing here" diff dry.pull <(everything in/dry)
done
expect_exit 0 "a push that says what it changes" ftx_a -a -i --delete tree/ there:dry
expect "it says what the dry run has said" diff <(sed '$d' pushed.udp) <(sed '$d' last.out)
expect "and does it" same_tree tree home-b/dry
expect_exit 0 "a pull that says what it changes" ftx_a -a -i --delete there:tree/ in/dry --via pipe
tells "a pull" ">f.st...... sub/large" "${changes[@]}"
expect "it does it, too" same_tree tree in/dry
expect_exit 0 "the same again" ftx_a -a -n -i --delete tree/ there:dry
expect "nothing would change" test "$(wc -l < last.out)" = 1
expect_exit 0 "without links" ftx_a -r tree there:data/plain
says "2 symbolic links"
expect "all but links" test "$(listing home-b/data/plain | grep -c .)" = "$(listing tree | grep -vc ' l ')"
fails 5 "-r" "a directory and no -r" ftx_a tree there:
fails 5 "-r" "a directory there and no -r" ftx_a there:tree in
mkdir outside home-b/held && ln -s "$DIR/outside" home-b/held/tree
fails 10 "'tree'" "a link in the place of a directory" ftx_a -a tree there:held
expect "nothing went through it" test -z "$(ls outside)"
expect "trees: nothing runs there" no_far_side
expect "trees: nothing is left there" no_leftovers

# The host name that ssh knows, resolved here, leads elsewhere: the address where ssh has arrived is tried next.
in_a ip address add 10.77.0.200/32 dev lo
cat > elsewhere_config <<CONFIG
Host there
  HostName 10.77.0.200
  ProxyCommand nc $ADDR_B $port
  HostKeyAlias [$ADDR_B]:$port
Include $DIR/ssh_config
CONFIG
SSH="ssh -F $DIR/elsewhere_config" expect "the second address comes through" ftx_a big.bin there:second.bin
expect "second address: equal" cmp big.bin home-b/second.bin
# A stack of ours that has IPv4 alone, and a host name that means IPv6.
stack_file v4.toml packet 11
sed -i 's/, "fd00.*"\]/]/' v4.toml
sed "s/10.77.0.200/$ADDR6_A/" elsewhere_config > six_config
SSH="ssh -F $DIR/six_config" expect "an address that the stack cannot reach is passed over" ftx_a --stack v4.toml big.bin there:third.bin
expect "over a stack of ours: equal" cmp big.bin home-b/third.bin

# What fails before the transfer.
SSH="$ssh_a -o UserKnownHostsFile=$DIR/known_wrong" fails 17 "host key" "a wrong host key" ftx_a big.bin there:x
fails 17 "refused" "no sshd there" ftx_a big.bin there:x -p 2223
FAR=$DIR/home-b/nothing fails 18 "remote-ftx" "no ftx there" ftx_a big.bin there:x
fails 21 "no such directory" "no such directory there" ftx_a big.bin there:nowhere/x
fails 21 "no such file" "no such file there" ftx_a 'there:*.nothing' in
SSH=$DIR/nothing fails 16 "ssh" "no ssh here" ftx_a big.bin there:x
cat > home-b/older <<'OLDER'
#!/bin/sh
printf '\367ftx-start\r\n\003\002\000\000\000\000'
OLDER
chmod +x home-b/older
FAR=$DIR/home-b/older fails 19 "version 3" "another version there" ftx_a big.bin there:x
cat > home-b/.profile <<'PROFILE'
echo "Welcome to this host"
PROFILE
FAR=". $DIR/home-b/.profile; $far" expect "a banner is no harm" ftx_a big.bin there:banner.bin
expect "banner: equal" cmp big.bin home-b/banner.bin

# What the doctor says, of a host that is well and of what is not.
doctor() { in_a "$FTX" doctor --ssh "$ssh_a" --remote-ftx "${FAR:-$far}" "$@"; }
touch before-doctor
expect_exit 0 "doctor: all is well" doctor there
for line in "^ok      ssh: logs in to there" "^ok      ftx there: .*, as here$" "^ok      UDP: both ways with $ADDR_B port [0-9]*$" "loss: .* datagrams repaired (.*), [0-9.]* MiB in" \
            "^ok      path MTU: packets of 1500 bytes\|^ok      path MTU: packets of 14[89][0-9] bytes" "^ok      round trip: [0-9.]* ms while data flows$" \
            "^ok      clock there: as here$" "socket buffers there: "; do
  expect "doctor says: $line" grep -q "$line" last.out
done
expect_exit 0 "doctor, in JSON" doctor --json there
expect "doctor, in JSON: no fault" bash -c '! grep -q "\"state\":\"fault\"" last.out'
expect "doctor: the host comes first" test "$(sed -n 1p last.out | cut -c1-15)" = '{"event":"host"'
expect "doctor: nothing runs there" no_far_side
expect_exit 27 "doctor: no sshd there" doctor there -p 2223
expect "doctor: it says so" grep -q '^fault   ssh: ssh to there failed' last.out
FAR=$DIR/home-b/nothing expect_exit 27 "doctor: no ftx there" doctor there
expect "doctor: how to mend that" grep -q 'fault   ssh: .*--remote-ftx' last.out
expect_exit 27 "doctor: no host" doctor 'a/b'
for side in a b; do in_$side ip link set veth0 mtu 1400; done
expect_exit 0 "doctor: a narrow path" doctor there
expect "doctor: how narrow" grep -q "^advice  path MTU: packets of 1[23][0-9][0-9] bytes .*look for a tunnel" last.out
for side in a b; do in_$side ip link set veth0 mtu 1500; done
expect "doctor leaves nothing there" test -z "$(find home-b -newer before-doctor -type f)"

# UDP does not come through: A has no way for what is not TCP.
in_a ip rule add ipproto udp to $ADDR_B blackhole priority 1
expect_exit 27 "doctor: UDP is blocked" doctor there
expect "doctor: ssh is well" grep -q '^ok      ssh' last.out
expect "doctor: UDP is not, and where" grep -q "^fault   UDP: ssh comes through to there, UDP does not, to port [0-9]* of $ADDR_B: let it through" last.out
expect_exit 27 "doctor -q" doctor -q there
expect "doctor -q: faults and advice alone" bash -c '! grep -q "^ok" last.out && grep -q "^fault   UDP" last.out'
fails 20 "port [0-9]* of $ADDR_B" "UDP is blocked" ftx_a --via udp big.bin there:blocked.bin
expect_exit 0 "UDP is blocked: a push goes on over ssh" ftx_a big.bin there:piped.bin
expect "push: it is said" says "^ftx: UDP to there port [0-9]* does not come through; going on over ssh, which is slower$"
expect "push: equal" cmp big.bin home-b/piped.bin
expect_exit 0 "UDP is blocked: a pull goes on over ssh" ftx_a there:piped.bin in/piped.bin
expect "pull: it is said" says "going on over ssh"
expect "pull: equal" cmp big.bin in/piped.bin
expect_exit 0 "UDP is blocked: a JSON event says so" ftx_a --json "with space.txt" there:json.txt
expect "JSON event: the reason" test "$(json_field last.out fallback reason)" = udp_blocked
in_a ip rule del priority 1
in_b ip rule add ipproto udp to $ADDR_A blackhole priority 1
fails 20 "UDP does not" "UDP is blocked for a pull" ftx_a --via udp there:big.bin in/blocked.bin
expect_exit 27 "doctor: UDP is blocked one way" doctor there
expect "doctor: one way is not enough" grep -q "^fault   UDP: ssh comes through to there, UDP does not" last.out
expect_exit 0 "UDP is blocked one way: a push goes on over ssh" ftx_a big.bin there:oneway.bin
expect "one way: it is said" says "going on over ssh"
expect "one way: equal" cmp big.bin home-b/oneway.bin
expect_exit 0 "UDP is blocked one way: standard input goes on over ssh" piped big.bin there:oneway.input
expect "one way, standard input: equal" cmp big.bin home-b/oneway.input
expect_exit 0 "UDP is blocked one way: a pull goes on over ssh" ftx_a there:oneway.bin in/oneway.bin
expect "one way: equal" cmp big.bin in/oneway.bin
in_b ip rule del priority 1
expect "blocked: nothing arrived" test ! -e home-b/blocked.bin

# The pipe where nobody asks whether it must be, and a port that a firewall lets through.
expect_exit 0 "--via pipe" ftx_a --via pipe big.bin "with space.txt" there:data
expect "--via pipe: it needs no word" test ! -s last.err
expect "--via pipe: equal" cmp big.bin home-b/data/big.bin
in_a ip rule add ipproto udp dport 40000-40001 to $ADDR_B lookup main priority 1
in_a ip rule add ipproto udp to $ADDR_B blackhole priority 2
expect_exit 0 "--remote-port" ftx_a --via udp --remote-port 40000-40001 big.bin there:port.bin
expect "--remote-port: equal" cmp big.bin home-b/port.bin
in_a ip rule del priority 2
in_a ip rule del priority 1
expect "--rate of a pull" ftx_a --rate 100 there:big.bin in/rate.bin
expect "nothing runs there" no_far_side

# What fails in the middle.
slow() {  # NAME [OPTION...]
  background "$1" in_a "$FTX" --ssh "$ssh_a" --remote-ftx "$far" --rate 2 "${@:2}" big.bin "there:$1.bin"
  local i
  for i in $(seq 200); do find home-b -name ".$1.bin.ftx-*" | grep -q . && return 0; sleep 0.05; done
  echo "$1: nothing arrives" >&2
  return 1
}
slow killed
kill -KILL "$(pgrep -f "^$far remote")"
expect_exit 22 "the far side is killed" finish killed
slow cut
kill -KILL "$(pgrep -P "${PID[cut]}" ssh)"
expect_exit 22 "ssh is killed" finish cut
expect "ssh is killed: the far side ends" no_far_side
slow gone
kill -KILL "${PID[gone]}"
expect_exit 137 "ftx here is killed" finish gone
expect "ftx here is killed: the far side ends" no_far_side
slow interrupted
expect_exit 130 "interrupted" stop interrupted
expect "interrupted: the far side ends" no_far_side
# The same, on the pipe.
slow killed-pipe --via pipe
kill -KILL "$(pgrep -f "^$far remote")"
expect_exit 22 "pipe: the far side is killed" finish killed-pipe
slow cut-pipe --via pipe
kill -KILL "$(pgrep -P "${PID[cut-pipe]}" ssh)"
expect_exit 22 "pipe: ssh is killed" finish cut-pipe
expect "pipe: ssh is killed: the far side ends" no_far_side
slow gone-pipe --via pipe
kill -KILL "${PID[gone-pipe]}"
expect_exit 137 "pipe: ftx here is killed" finish gone-pipe
expect "pipe: ftx here is killed: the far side ends" no_far_side
slow interrupted-pipe --via pipe
expect_exit 130 "pipe: interrupted" stop interrupted-pipe
expect "pipe: interrupted: the far side ends" no_far_side
rm -f home-b/.killed-pipe.bin.ftx-*
expect "no file is there by halves" test -z "$(ls home-b | grep -e -pipe.bin)"
rm -f home-b/.killed.bin.ftx-*  # kill -9 leaves it
expect "nothing is left" no_leftovers
expect "no file is there by halves" test ! -e home-b/killed.bin -a ! -e home-b/cut.bin -a ! -e home-b/interrupted.bin \
  -a ! -e home-b/gone.bin
