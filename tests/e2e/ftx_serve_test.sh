#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A standing server and its clients between two namespaces: keys, secrets, files sent and fetched, whom each end refuses
# and with which exit code and words, quotas, several addresses, and several clients at once.
source "$(dirname "$0")/common.sh"
two_hosts

head -c 8M /dev/urandom > big.bin
echo small > small.txt

# Whose configuration directory: $ME, by default the client's.
ftx_as() { env XDG_CONFIG_HOME="$DIR/$1" "$FTX" "${@:2}"; }
in_a_as() { in_a env XDG_CONFIG_HOME="$DIR/$1" "$FTX" "${@:2}"; }
push() { in_a_as "${ME:-client}" "$@" < /dev/null; }
key_of() { ftx_as "$1" key | cut -d' ' -f1; }
says() { grep -q -- "$1" last.err || { echo "'$1' is not said:" >&2; cat last.err >&2; exit 1; }; }
fails() {  # CODE TEXT WHAT COMMAND
  expect_exit "$1" "$3" "${@:4}"
  says "$2"
}
serve() {  # NAME OPTIONS
  mkdir -p "in-$1"
  background "serve-$1" in_b env XDG_CONFIG_HOME="$DIR/server" "$FTX" serve "in-$1" --json "${@:2}"
  wait_for "serve-$1.out" listening
}

# Keys are made when they are first needed, and stay.
key=$(key_of server)
expect "a key is made once" test "$(key_of server)" = "$key"
expect "nobody else reads it" test "$(stat -c %a server/ftx/key) $(stat -c %a server/ftx)" = "600 700"
ftx_as client key > server/ftx/allowed_keys
serve main --port 7070 --quota 40M --transfer-max 10M
expect "the server tells its key" grep -q "\"key\":\"$key\"" serve-main.out

# First use.
fails 24 "--accept-key $key" "a server that is not known" push big.bin "ftx://$ADDR_B/"
fails 25 "not ftx-key:AAAA" "not the key that was expected" push big.bin "ftx://$ADDR_B/" --accept-key "ftx-key:$(printf 'A%.0s' $(seq 43))"
expect "nothing has arrived" test -z "$(ls in-main)"
expect "first use" push big.bin "ftx://$ADDR_B/" --accept-key "$key"
expect "first use: equal" cmp big.bin in-main/big.bin
expect "known from then on" push big.bin "ftx://$ADDR_B/again" --json
expect "known: equal" cmp big.bin in-main/again
expect "the server knows who sent it" grep -q "\"done\".*\"client\":\"$(key_of client)\"" serve-main.out
expect "over IPv6, another name of the server" push small.txt "ftx://[$ADDR6_B]/" --accept-key "$key"
expect "IPv6: equal" cmp small.txt in-main/small.txt
# On a terminal the question is asked.
on_terminal() {  # ANSWER COMMAND: the answer, once the question stands there
  python3 - "$@" <<'PYTHON'
import os, pty, sys
answer, command = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
seen = b""
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        break
    if not more:
        break
    seen += more
    if b"(yes/no)" in seen and answer:
        os.write(terminal, answer.encode().decode("unicode_escape").encode())
        answer = ""
sys.stderr.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PYTHON
}
asked() { on_terminal "$1" ip netns exec $NS_A env XDG_CONFIG_HOME="$DIR/client" "$FTX" small.txt "ftx://localname:7070/asked"; }
echo "$ADDR_B localname" > hosts && mount --bind hosts /etc/hosts
expect_exit 24 "asked, no" asked 'no\n'
says "$key"
expect_exit 130 "asked, interrupted" asked '\x03'
expect "asked, not answered: nothing has arrived" test ! -e in-main/asked
expect_exit 0 "asked, yes" asked 'yes\n'
expect "asked, yes: equal" cmp small.txt in-main/asked
expect "not asked again" push small.txt ftx://localname/again
expect_exit 0 "doctor: a server that takes this client" in_a_as client doctor "ftx://$ADDR_B"
expect "doctor: it says so" grep -q "^ok      server: its key is known, and it takes this client" last.out

# Whom the server refuses.
expect_exit 27 "doctor: a server that refuses this client" in_a_as stranger doctor "ftx://$ADDR_B" --accept-key "$key"
expect "doctor: what to do about it" grep -q "^fault   server: .*must stand in the list of allowed keys" last.out
expect_exit 27 "doctor: nobody there" in_a_as client doctor "ftx://$ADDR_B:7099"
expect "doctor: nobody listens" grep -q "^fault   server: .*connection refused: .*; check that .ftx serve. runs there" last.out
ME=stranger fails 26 "$(key_of stranger)" "a client that is not allowed" push big.bin "ftx://$ADDR_B/stranger" --accept-key "$key"
expect "the server says which key" wait_for serve-main.out "rejected.*$(key_of stranger)"
ftx_as stranger key >> server/ftx/allowed_keys
ME=stranger expect "who is added to the list may come at once" push small.txt "ftx://$ADDR_B/stranger" --accept-key "$key"
ftx_as client key > server/ftx/allowed_keys
ME=stranger fails 26 "does not allow" "who is removed from it may not" push small.txt "ftx://$ADDR_B/stranger"
fails 26 "handshake" "who would not encrypt" push small.txt "ftx://$ADDR_B/plain" --insecure
expect "nothing of his is there" test ! -e in-main/plain

# What it takes.
head -c 11M /dev/zero > larger.bin
fails 8 "larger than a transfer" "a transfer that is too large" push larger.bin "ftx://$ADDR_B/"
mkdir many && seq -f many/%.0f 2560 | xargs touch  # and the directory
fails 8 "2561 entries of 2560" "a transfer of too many entries" push -r many "ftx://$ADDR_B/"
expect "too many entries: nothing of it is there" test ! -e in-main/many
rm many/1 && expect "as many as --transfer-max allows" push -r many "ftx://$ADDR_B/"
expect "40 MiB are not full yet" push big.bin "ftx://$ADDR_B/third"
expect "nor now" push big.bin "ftx://$ADDR_B/fourth"
fails 8 "quota" "a transfer beyond the quota" push big.bin "ftx://$ADDR_B/fifth"
expect "quota: nothing of it is there" test -z "$(find in-main -name '*fifth*')"
expect "what fits is still taken" push small.txt "ftx://$ADDR_B/fits"
expect_exit 130 "the server is interrupted" stop serve-main

# Fetching: what is served, and nothing else.
mkdir -p in-fetch/sub got
cp big.bin in-fetch/ && echo deep > in-fetch/sub/deep && echo star > 'in-fetch/a*' && echo plain > in-fetch/ab
ln -s ../small.txt in-fetch/link && mkfifo in-fetch/fifo && touch -d 2001-02-03 in-fetch/sub/deep && chmod 640 in-fetch/sub/deep
serve fetch --port 7070 --transfer-max 10M --quota 32M
expect_exit 0 "fetch" push "ftx://$ADDR_B/big.bin" "ftx://$ADDR_B/sub/deep" got/ --json
expect "fetch: equal" cmp big.bin got/big.bin
expect "fetch: time and mode" test "$(stat -c '%Y %a' got/deep)" = "$(stat -c '%Y %a' in-fetch/sub/deep)"
expect "the client says so" grep -q '"done".*"path":"got/"' last.out
expect "the server knows who fetched" grep -q "\"done\".*\"client\":\"$(key_of client)\",\"sent\":true" serve-fetch.out
expect "fetch under a new name" push "ftx://$ADDR_B/sub/deep" got/renamed
expect "renamed: equal" cmp in-fetch/sub/deep got/renamed
expect "no patterns: a star is a star" push "ftx://$ADDR_B/a*" got/
expect "star: that one alone" test "$(cat 'got/a*')" = star -a ! -e got/ab
fails 5 "cannot read 'nothing'" "what is not there" push "ftx://$ADDR_B/nothing" got/
fails 5 "cannot read 'link'" "a symbolic link" push "ftx://$ADDR_B/link" got/
fails 5 "cannot read 'fifo'" "a FIFO" push "ftx://$ADDR_B/fifo" got/
fails 5 "-r" "a directory" push "ftx://$ADDR_B/sub" got/
make_tree in-fetch/tree
expect "fetch a tree" push -a "ftx://$ADDR_B/tree" got/
expect "tree: equal" same_tree in-fetch/tree got/tree
find got/tree -type f -exec touch -d 2002-03-04 {} + && expect_exit 0 "fetch by content" push -a -c "ftx://$ADDR_B/tree" got/ --json
expect "fetch by content: nothing comes" grep -q '"done".*"bytes":0,' last.out
expect "fetch by content: times are those of the server" same_tree in-fetch/tree got/tree
touch got/tree/surplus && everything got/tree > fetched
expect_exit 0 "dry run of a fetch" push -a -n -i --delete "ftx://$ADDR_B/tree" got/
expect "dry run of a fetch: what it would remove" grep -qxF "*deleting   tree/surplus" last.out
expect "dry run of a fetch: nothing has changed" diff fetched <(everything got/tree)
rm got/tree/surplus
expect "fetch what lies in it" push -a "ftx://$ADDR_B/tree/" got/content
expect "content: equal" same_tree in-fetch/tree got/content
fails 5 "cannot read 'link'" "a link as a tree" push -r "ftx://$ADDR_B/link" got/
fails 2 "no '..'" "a path that leads out" push "ftx://$ADDR_B/../small.txt" got/
fails 2 "one server" "files of two servers" push "ftx://$ADDR_B/ab" "ftx://[$ADDR6_B]/ab" got/
fails 2 "sources are" "files of here and there" push "ftx://$ADDR_B/ab" small.txt got/
fails 2 "directory" "several files and no directory" push "ftx://$ADDR_B/ab" "ftx://$ADDR_B/sub/deep" got/none
fails 10 "no such directory" "nowhere to put it" push "ftx://$ADDR_B/ab" nowhere/
fails 2 "encrypted" "not without encryption" push "ftx://$ADDR_B/ab" got/ --insecure
head -c 11M /dev/zero > in-fetch/larger.bin
fails 8 "larger than a transfer" "more than a transfer may be" push "ftx://$ADDR_B/larger.bin" got/
expect "a fixed rate goes along" push -I "ftx://$ADDR_B/big.bin" got/ --rate 2000 --datagram-bytes 1400
expect "the quota is nearly used" push "ftx://$ADDR_B/big.bin" got/again --background
fails 8 "quota" "more than the quota" push "ftx://$ADDR_B/big.bin" got/beyond
expect "nothing of it is there" test -z "$(find got -name '*beyond*' -o -name '*.ftx-*' -o -name larger.bin -o -name nothing)"
expect_exit 130 "the fetching server is interrupted" stop serve-fetch

# One direction alone, of the server or of one client.
serve reads --port 7070 --read-only
cp small.txt in-reads/
expect "read-only: fetch" push "ftx://$ADDR_B/small.txt" got/
fails 26 "not send any" "read-only: send" push big.bin "ftx://$ADDR_B/big.bin"
expect "read-only: nothing is there" test "$(ls in-reads)" = small.txt
expect_exit 130 "it is interrupted" stop serve-reads
serve writes --port 7070 --write-only
make_tree tree
fails 8 "takes none" "links that the server does not take" push -a tree "ftx://$ADDR_B/"
expect "send a tree" push -r tree "ftx://$ADDR_B/plain"
expect "tree without links" test "$(listing in-writes/plain | grep -c .)" = "$(listing tree | grep -vc ' l ')"
fails 8 "who may not fetch" "write-only: what is there is told to nobody" push -n -r tree "ftx://$ADDR_B/plain"
expect "write-only: send" push small.txt "ftx://$ADDR_B/"
fails 26 "not fetch any" "write-only: fetch" push "ftx://$ADDR_B/small.txt" got/none
expect_exit 130 "it is interrupted, too" stop serve-writes
serve each --port 7070
expect "both, by default" push small.txt "ftx://$ADDR_B/"

# The same again: the list of files travels, and what has changed.
done_of() { python3 -c 'import json, sys; done = json.loads(open("last.out").readlines()[-1]); print(*(done[key] for key in sys.argv[1:]))' "$@"; }
inodes() { (cd "$1" && find . -printf '%P %i %C@\n' | LC_ALL=C sort); }
sent_by_a() { in_a cat /sys/class/net/veth0/statistics/tx_bytes; }
received_by_a() { in_a cat /sys/class/net/veth0/statistics/rx_bytes; }
files=$(find tree -type f | wc -l) bytes=$(find tree -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
expect_exit 0 "a tree, to be sent again" push -r tree/ "ftx://$ADDR_B/again" --json
expect "all of it is sent" test "$(done_of bytes skipped_files skipped_bytes)" = "$bytes 0 0"
inodes in-each/again > inodes-before
everything in-each > dry-before
expect_exit 0 "dry run of a push" push -n -i -I -r tree/ "ftx://$ADDR_B/again"
expect "dry run of a push: each file would be sent" test "$(grep -c '^<f\.' last.out)" = "$files"
fails 8 "removed" "dry run: the server allows no removal" push -n -r --delete tree/ "ftx://$ADDR_B/again"
fails 2 "encrypted" "dry run: not without encryption" push -n --insecure tree/nil "ftx://$ADDR_B/again"
expect "dry runs change nothing there" diff dry-before <(everything in-each)
before=$(sent_by_a)
expect_exit 0 "the same again" push -r tree/ "ftx://$ADDR_B/again" --json
expect "nothing of it is sent" test "$(done_of bytes skipped_files skipped_bytes)" = "0 $files $bytes"
expect "the list is little" test $(($(sent_by_a) - before)) -lt 200000
inodes in-each/again > inodes-after
expect "nothing there is touched" diff inodes-before inodes-after
touch "tree/sub/deeper/small 9"
before=$(sent_by_a)
expect_exit 0 "with one that was touched" push -r tree/ "ftx://$ADDR_B/again" --json
expect "that one is sent" test "$(done_of bytes skipped_files)" = "2 $((files - 1))"
expect "and little else" test $(($(sent_by_a) - before)) -lt 200000
inodes in-each/again > inodes-after
expect "and replaced, in its directory" test "$(diff inodes-before inodes-after | grep -c '^>')" = 2
expect_exit 0 "as a whole if that is wanted" push -r -I tree/ "ftx://$ADDR_B/again" --json
expect "all is sent" test "$(done_of bytes skipped_files)" = "$bytes 0"
expect_exit 0 "the tree is fetched" push -r "ftx://$ADDR_B/again/" got/unchanged --json
before=$(received_by_a)
expect_exit 0 "fetched again" push -r "ftx://$ADDR_B/again/" got/unchanged --json
expect "nothing of it comes" test "$(done_of bytes skipped_files skipped_bytes)" = "0 $files $bytes"
expect "the list is little there, too" test $(($(received_by_a) - before)) -lt 200000
sed -i 's/^/read-only /' server/ftx/allowed_keys
fails 26 "not send any" "a client that may only fetch" push small.txt "ftx://$ADDR_B/other"
expect "it may fetch" push "ftx://$ADDR_B/small.txt" got/
sed -i 's/^read-only/write-only/' server/ftx/allowed_keys
fails 26 "not fetch any" "a client that may only send" push "ftx://$ADDR_B/small.txt" got/
expect "it may send" push small.txt "ftx://$ADDR_B/other"
ftx_as client key > server/ftx/allowed_keys

# A name with several addresses, of which one is silent, refuses, or serves.
printf '%s manyname\n%s manyname\n' "${ADDR_B%.*}.77" "$ADDR_B" > hosts
expect "a silent address before the good one" push small.txt ftx://manyname/many --accept-key "$key"
expect "many: equal" cmp small.txt in-each/many
expect_exit 130 "the server for each is interrupted" stop serve-each
serve v4 --port 7070 --listen "$ADDR_B"
printf '%s manyname\n%s manyname\n' "$ADDR6_B" "$ADDR_B" > hosts
expect "IPv6 refuses, IPv4 serves" push small.txt ftx://manyname/many
expect "IPv6, IPv4: fetched" push ftx://manyname/many got/many
expect_exit 130 "the IPv4 server is interrupted" stop serve-v4
serve insecure --port 7070 --listen "$ADDR_B" --insecure
expect "insecure: IPv6 refuses, IPv4 serves" push small.txt ftx://manyname/plain --insecure
printf '%s manyname\n%s manyname\n' "${ADDR_B%.*}.77" "$ADDR_B" > hosts
expect "insecure: a silent address before the good one" push small.txt ftx://manyname/silent --insecure
expect "insecure: equal" cmp in-insecure/plain in-insecure/silent
expect_exit 130 "the insecure server is interrupted" stop serve-insecure

# Its key changes.
mv server/ftx/key server/key-before
serve changed --port 7070
fails 25 "remove its line" "a key that has changed" push small.txt "ftx://$ADDR_B/"
fails 25 "remove its line" "and --accept-key does not help" push small.txt "ftx://$ADDR_B/" --accept-key "$(key_of server)"
expect "changed: nothing has arrived" test -z "$(ls in-changed)"
sed -i "/^$ADDR_B:/d" client/ftx/known_hosts
expect "the line removed, as a new server" push small.txt "ftx://$ADDR_B/" --accept-key "$(key_of server)"
expect_exit 130 "the second server is interrupted" stop serve-changed

# A shared secret, without any list.
(umask 077; openssl rand -hex 32 > secret; openssl rand -hex 32 > other)
rm server/ftx/allowed_keys
serve secret --port 7071 --secret-file secret
expect "with the secret" push big.bin "ftx://$ADDR_B:7071/" --secret-file secret
expect "secret: equal" cmp big.bin in-secret/big.bin
fails 25 "does not know the secret" "with another secret" push big.bin "ftx://$ADDR_B:7071/other" --secret-file other
fails 26 "does not allow" "with a key alone" push big.bin "ftx://$ADDR_B:7071/key" --accept-key "$(key_of server)"
expect "secret: nothing else is there" test "$(ls in-secret)" = big.bin

# Several at once, and a server that ends with the first transfer is not ended by those who may not send.
for i in 1 2 3 4 5; do
  ME=client$i
  background "send-$i" in_a env XDG_CONFIG_HOME="$DIR/client$i" "$FTX" big.bin "ftx://$ADDR_B:7071/$i" --secret-file secret
done
for i in 1 2 3 4 5; do
  expect "client $i of five at once" finish "send-$i"
  expect "client $i: equal" cmp big.bin "in-secret/$i"
done
ME=client
serve once --port 7072 --secret-file secret --once
fails 25 "secret" "not who may send" push small.txt "ftx://$ADDR_B:7072/" --secret-file other
expect "who may" push small.txt "ftx://$ADDR_B:7072/" --secret-file secret
expect "the server ends well" finish serve-once
for i in 1 2 3 4 5; do
  background "fetch-$i" in_a env XDG_CONFIG_HOME="$DIR/client$i" "$FTX" "ftx://$ADDR_B:7071/$i" "got/five-$i" --secret-file secret
done
for i in 1 2 3 4 5; do
  expect "client $i of five that fetch" finish "fetch-$i"
  expect "fetched $i: equal" cmp big.bin "got/five-$i"
done
mkdir -p in-once2 && cp small.txt in-once2/
serve once2 --port 7072 --secret-file secret --once
expect "a fetch ends it, too" push "ftx://$ADDR_B:7072/small.txt" got/once --secret-file secret
expect "and well" finish serve-once2

# Anyone; and over a stack of ours on both ends.
stack_file a.toml packet 11
stack_file b.toml packet 12
serve anyone --anyone --stack b.toml --listen 10.77.0.12
expect "anyone, over our stacks" push big.bin ftx://10.77.0.12/ --stack a.toml --accept-key "$(key_of server)"
expect "anyone: equal" cmp big.bin in-anyone/big.bin
expect "anyone fetches, over our stacks" push ftx://10.77.0.12/big.bin got/stacks --stack a.toml
expect "stacks: equal" cmp big.bin got/stacks

# A server that does not encrypt is not mistaken for one that does.
serve plain --insecure --port 7073
fails 26 "insecure" "a server with --insecure" push small.txt "ftx://$ADDR_B:7073/" --accept-key "$key"
expect "plain: nothing has arrived" test -z "$(ls in-plain)"

# Extended attributes and owners: where the server takes them. Owners where there are several to give files to.
attribute() { python3 -c 'import os, sys; print(os.setxattr(*sys.argv[1:3], sys.argv[3].encode()) if len(sys.argv) > 3 else os.getxattr(*sys.argv[1:]).decode())' "$@"; }
mkdir -p ours
echo x > ours/f
chown 1234:4321 ours/f 2>/dev/null || true
serve bare --port 7074 --secret-file secret
serve kept --port 7075 --secret-file secret --xattrs --owners
expect "owners are sent" push -a ours "ftx://$ADDR_B:7074/" --secret-file secret
expect "owners: another server passes over them" test "$(stat -c %u:%g in-bare/ours/f)" = "$(id -u):$(id -g)"
expect "owners are kept" push -a ours "ftx://$ADDR_B:7075/" --secret-file secret
expect "kept: owners" test "$(stat -c %u:%g in-kept/ours/f)" = "$(stat -c %u:%g ours/f)"
expect "owners are fetched" push -a "ftx://$ADDR_B:7075/ours" got/owned --secret-file secret
expect "fetched: owners" test "$(stat -c %u:%g got/owned/f)" = "$(stat -c %u:%g ours/f)"
cp -a ours/f in-bare/ours/f
expect "owners are asked for" push -a "ftx://$ADDR_B:7074/ours" got/unowned --secret-file secret
expect "and not told" test "$(stat -c %u:%g got/unowned/f)" = "$(id -u):$(id -g)"
if attribute ours/f user.k one > /dev/null 2>&1; then
  fails 8 "none are taken here" "attributes to a server that takes none" push -aX ours "ftx://$ADDR_B:7074/" --secret-file secret
  expect "attributes are sent" push -aX ours "ftx://$ADDR_B:7075/" --secret-file secret
  expect "kept: attributes" test "$(attribute in-kept/ours/f user.k)" = one
  attribute in-kept/ours/f user.k two > /dev/null
  expect "attributes are fetched" push -aX "ftx://$ADDR_B:7075/ours/" ours --secret-file secret
  expect "fetched: attributes of what is there" test "$(attribute ours/f user.k)" = two
else
  echo "left out: the file system of this test has no extended attributes"
fi
