#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs on our stack, through `sluice serve` and `sluice exec`: netcat, curl, python's http.server, nginx,
# redis and iperf3, against the kernel's stack and against each other, on a link between two namespaces; IPv4 and IPv6; over
# a bad link; and what is left of them when a program, or the server, is killed.
source "$(dirname "$0")/common.sh"
two_hosts

source "$TOP/tests/e2e/served_sockets.sh"

# Programs on a host of ours.
on_a() { ip netns exec $NS_A "$SLUICE" exec --socket "$DIR/sockets-a" "$@"; }
on_b() { ip netns exec $NS_B "$SLUICE" exec --socket "$DIR/sockets-b" "$@"; }
background_on() {  # a|b NAME COMMAND...
  local host=$1 name=$2
  shift 2
  background "$name" "in_$host" "$SLUICE" exec --socket "$DIR/sockets-$host" "$@"
}
answers() {  # HOST PORT: somebody takes connections there
  local i
  for i in $(seq 600); do
    in_a python3 -c "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)" "$1" "$2" 2> /dev/null && return 0
    sleep 0.05
  done
  echo "nobody answers at port $2 of $1" >&2
  return 1
}

OURS=10.77.0.12 OURS6=fd00:77::12
serve_on b 12
serve_on a 11
head -c 3000000 /dev/urandom > question
head -c 2000000 /dev/urandom > reply

# One direction at a time: a netcat that listens ends when its caller has ended, whatever it has still to send.
netcats() {  # FAMILY OUR-ADDRESS ITS-ADDRESS
  background "kernel$1" in_a timeout 60 nc "-$1" -l -p 5000
  kernel_listens 5000 tcp
  on_b timeout 60 nc -N "$3" 5000 < question || true
  finish "kernel$1" || true
  expect "IPv$1: netcat on our stack calls the kernel's, and what it sends is whole" cmp question "kernel$1.out"
  INPUT=reply background "kernel$1" in_a timeout 60 nc "-$1" -N -l -p 5000
  kernel_listens 5000 tcp
  on_b timeout 60 nc "$3" 5000 < /dev/null > "called$1" || true
  finish "kernel$1" || true
  expect "so is what comes" cmp reply "called$1"
  background_on b "ours$1" timeout 60 nc "-$1" -nv -l -p 4000
  wait_for "ours$1.err" Listening
  in_a timeout 60 nc -N "$2" 4000 < question || true
  finish "ours$1" || true
  expect "IPv$1: the kernel's calls ours, and what it sends is whole" cmp question "ours$1.out"
  INPUT=reply background_on b "ours$1" timeout 60 nc "-$1" -nv -N -l -p 4000
  wait_for "ours$1.err" Listening
  in_a timeout 60 nc "$2" 4000 < /dev/null > "calling$1" || true
  finish "ours$1" || true
  expect "so is what comes" cmp reply "calling$1"
}
netcats 4 $OURS $ADDR_A
netcats 6 $OURS6 $ADDR6_A
echo "a datagram" > datagram
background_on b datagrams timeout 60 nc -nv -u -l -p 4001 -W 1
wait_for datagrams.err Bound
in_a nc -u -w 1 $OURS 4001 < datagram || true
expect "netcat is refused no option" bash -c "! grep -q \"Couldn't set\" ours?.err datagrams.err"
expect "netcat takes a datagram" arrived datagrams.out datagram
expect_exit 7 "a port where nobody listens" on_b curl -sS -m 5 http://$ADDR_A:9/
expect_exit 7 "one of ours, which the kernel calls" in_a timeout 5 curl -sS -m 4 http://$OURS:9/
expect "curl says so" grep -qi "refused\|couldn't connect" last.err

mkdir -p www
head -c 32M /dev/urandom > www/large
echo small > www/small
# Its workers are of the user that starts it; in a user namespace there is no other.
nginx_config() {
  cat <<CONFIG
user root;
worker_processes 2;
pid $DIR/nginx.pid;
daemon off;
error_log $DIR/nginx.log;
events { worker_connections 512; }
http {
  access_log off;
  sendfile on;
  client_body_temp_path $DIR/nginx; proxy_temp_path $DIR/nginx; fastcgi_temp_path $DIR/nginx;
  uwsgi_temp_path $DIR/nginx; scgi_temp_path $DIR/nginx;
  server { listen $OURS:8080; listen [$OURS6]:8080; root $DIR/www; }
  server { listen 8081; listen [::]:8081; root $DIR/www; }
}
CONFIG
}
mkdir -p nginx
nginx_config > nginx.conf
background_on b nginx "$TOP/build/nginx/usr/sbin/nginx" -p "$DIR/nginx" -c "$DIR/nginx.conf"
answers $OURS 8080
for from in in_a on_a; do
  "$from" curl -sS -m 60 -o got http://$OURS:8080/large
  expect "$from: curl gets a large file of nginx" cmp got www/large
  "$from" curl -sS -m 60 -o got "http://[$OURS6]:8080/large"
  expect "$from: over IPv6, too" cmp got www/large
  "$from" ab -q -n 1000 -c 50 http://$OURS:8080/small > ab.out 2> ab.err || cat ab.err >&2
  expect "$from: a thousand requests over fifty connections" grep -q '^Complete requests: *1000$' ab.out
  expect "$from: none of which failed" grep -q '^Failed requests: *0$' ab.out
  "$from" ab -q -k -n 2000 -c 50 http://$OURS:8080/small > ab.out 2> ab.err || cat ab.err >&2
  expect "$from: connections that are kept, too" grep -q '^Failed requests: *0$' ab.out
done

head -c 256M /dev/urandom > www/huge
expect "256 MiB from ours to ours: the digest is equal" \
  [ "$(on_a curl -sS -m 120 http://$OURS:8080/huge | sha256sum)" = "$(sha256sum < www/huge)" ]
rm www/huge

for host in $OURS "[$OURS6]"; do
  expect "nginx listens at every address of either family: $host" \
    [ "$(in_a curl -sS -m 10 "http://$host:8081/small")" = small ]
done

# RFC 3493 section 5.3: [::] is of both families, unless IPV6_V6ONLY says that it is not.
cat > families.py <<'PYTHON'
import errno, socket
from socket import AF_INET, AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY, SOCK_DGRAM, SOCK_STREAM

def bound(kind, family, v6_only, port=0):
    one = socket.socket(family, kind)
    if v6_only is not None:
        one.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, v6_only)
        assert one.getsockopt(IPPROTO_IPV6, IPV6_V6ONLY) == v6_only
    try:
        one.bind(("", port))
        if kind == SOCK_STREAM:
            one.listen()
    except OSError as error:
        one.close()
        return errno.errorcode[error.errno]
    return one

for kind in SOCK_STREAM, SOCK_DGRAM:
    for second, outcome in (0, "EADDRINUSE"), (1, None):
        first = bound(kind, AF_INET, None)
        beside = bound(kind, AF_INET6, second, first.getsockname()[1])
        assert beside == outcome or outcome is None and isinstance(beside, socket.socket), (kind, second, beside)
    both = bound(kind, AF_INET6, 0)
    assert bound(kind, AF_INET, None, both.getsockname()[1]) == "EADDRINUSE", kind
print("all as with the kernel's")
PYTHON
expect "0.0.0.0 and [::] of one port: either both, or [::] for itself" on_b python3 families.py
expect "which the kernel's sockets do likewise" python3 families.py

# What a program sets is the connection's, and what TCP_INFO tells is measured.
cat > options.py <<'PYTHON'
import socket, struct, sys
from socket import IPPROTO_TCP, SOL_SOCKET
one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
one.setsockopt(SOL_SOCKET, socket.SO_KEEPALIVE, 1)
one.setsockopt(IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
one.setsockopt(IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
one.setsockopt(IPPROTO_TCP, socket.TCP_NODELAY, 1)
one.setsockopt(SOL_SOCKET, socket.SO_RCVBUF, 65536)
one.connect((sys.argv[1], 8080))
one.sendall(b"GET /large HTTP/1.0\r\n\r\n")
got = 0
while piece := one.recv(1 << 20):
    got += len(piece)
    if got > 1 << 20:
        break
assert one.getsockopt(SOL_SOCKET, socket.SO_KEEPALIVE) == 1
assert one.getsockopt(IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
assert 500 < one.getsockopt(IPPROTO_TCP, socket.TCP_MAXSEG) <= 1000
info = one.getsockopt(IPPROTO_TCP, socket.TCP_INFO, 104)
state, options = info[0], info[5]
mss, rtt = struct.unpack_from("I", info, 16)[0], struct.unpack_from("I", info, 68)[0]
window = struct.unpack_from("I", info, 80)[0]
assert state == 1 and options & 7 == 7, (state, options)
assert 500 < mss <= 1000 and 0 < rtt < 10_000_000 and window >= 2, (mss, rtt, window)
print("mss", mss, "rtt", rtt, "us, window", window)
PYTHON
expect "options of a socket are its connection's, and TCP_INFO is true" on_a python3 options.py $OURS

# The library's table of descriptors follows whoever closes many at once, and is not a child's that shares the memory.
cat > descriptors.py <<'PYTHON'
import ctypes, os, socket, subprocess, sys, tempfile
c = ctypes.CDLL(None)

def listener():
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.bind((sys.argv[1], 0))
    one.listen()
    return one

def is_taken(one):
    other = socket.create_connection(one.getsockname(), 10)
    taken, _ = one.accept()
    other.sendall(b"through")
    assert taken.recv(100) == b"through"

# vfork(2): what the child closes, and copies to 0, is its own.
one = listener()
assert one.fileno() > 2 and subprocess._USE_VFORK
peer = socket.create_connection(one.getsockname(), 10)
assert subprocess.run(["cat"], stdin=open(sys.argv[0]), stdout=subprocess.PIPE, close_fds=True).stdout == open(sys.argv[0], "rb").read()
taken, _ = one.accept()
child = subprocess.Popen(["cat"], stdin=taken, stdout=subprocess.PIPE, close_fds=True)
taken.close()
peer.sendall(b"for the child")
peer.close()
assert child.communicate()[0] == b"for the child"
assert os.read(0, 100) == b"", "0 is /dev/null here"
is_taken(one)

# A number that was a socket's is a file's, by either call; datagrams would have a header in front.
def reused(close):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)] + [listener()]
    first, last = min(s.fileno() for s in sockets), max(s.fileno() for s in sockets)
    for one_of in sockets:
        one_of.detach()
    close(first, last)
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    taken = [os.dup2(b.fileno(), number) for number in range(first, last + 1) if number not in (a.fileno(), b.fileno())]
    for number in taken:
        os.write(a.fileno(), b"x" * 100)
        assert os.read(number, 1000) == b"x" * 100
    for number in (*taken, a.detach(), b.detach()):
        os.close(number)

reused(lambda first, last: c.close_range(first, last, 0))
reused(lambda first, last: c.closefrom(first))
is_taken(one)
assert c.close_range(one.fileno(), one.fileno(), 4) == 0, "CLOSE_RANGE_CLOEXEC closes nothing now"
is_taken(one)
print("right")
PYTHON
expect "descriptors that are closed in ranges, or by a child" [ "$(on_a python3 descriptors.py 10.77.0.11 < /dev/null)" = right ]

(cd www && background_on b http python3 -m http.server 8000 --bind $OURS && echo "${PID[http]}" > ../http.pid)
PID[http]=$(cat http.pid)
answers $OURS 8000
on_a curl -sS -m 60 -o got http://$OURS:8000/large
expect "curl gets a large file of python's server" cmp got www/large

ln -s "$(command -v redis-check-rdb)" redis-server
background_on b redis "$DIR/redis-server" --bind '*' '-::*' --port 6379 --protected-mode no --save '' --dir "$DIR"
answers $OURS 6379
on_a redis-benchmark -h $OURS -q -n 2000 -c 50 -t ping,set,get < /dev/null 2> redis.err | tr '\r' '\n' > redis.txt
expect "redis listens for IPv6, too" [ "$(on_a redis-cli -h $OURS6 ping < /dev/null)" = PONG ]
expect "redis-benchmark gets its answers" [ "$(grep -c 'requests per second' redis.txt)" -ge 4 ]
expect "a value is what was set" [ "$(on_a redis-cli -h $OURS set key value < /dev/null && on_a redis-cli -h $OURS get key < /dev/null)" = $'OK\nvalue' ]

# What the server tells of them: a line a socket where the output is no terminal, JSON, and a screen of any size.
in_b "$SLUICE" top --socket "$DIR/sockets-b" > top.txt
expect "top: a line for each socket" grep -Eq "^ *[0-9]+ +0 +tcp +listen +0\.0\.0\.0:6379 " top.txt
expect "top: and one for all" grep -q ' processes; requests ' top.txt
in_b "$SLUICE" top --json --socket "$DIR/sockets-b" > top.json
expect "top: JSON" python3 -c "
import json
events = [json.loads(line) for line in open('top.json')]
totals = events[-1]
sockets = [one for one in events if one['event'] == 'socket']
clients = [one for one in events if one['event'] == 'client']
assert totals['event'] == 'totals' and totals['sockets'] == len(sockets) and totals['clients'] == len(clients)
assert any(one['local'] == '0.0.0.0:8080' or one['local'] == '$OURS:8080' for one in sockets), sockets"
cat > screens.py <<'PYTHON'
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

def screen(width, height):
    """What stands on a terminal of that size when top has drawn twice, and how it leaves the terminal."""
    child, terminal = pty.fork()
    if child == 0:
        time.sleep(0.2)
        os.execv(sys.argv[1], [sys.argv[1], "top", "--socket", sys.argv[2]])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    text, deadline = "", time.monotonic() + 20
    while text.count("\x1b[J") < 2 and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536).decode()
    os.kill(child, signal.SIGTERM)
    try:
        while piece := os.read(terminal, 65536):
            text += piece.decode()
    except OSError:
        pass
    assert os.waitpid(child, 0)[1] == 0
    assert text.startswith("\x1b[?1049h\x1b[?25l") and text.endswith("\x1b[?25h\x1b[?1049l"), repr(text[-40:])
    return [line.rstrip("\r").removesuffix("\x1b[K") for line in re.split("\x1b\[H", text)[2].split("\x1b[J")[0].split("\r\n")]

for width, height in (120, 40), (80, 24), (33, 5), (7, 2), (1, 1):
    lines = screen(width, height)
    assert len(lines) <= height and all(len(line) <= width for line in lines), (width, height, lines)
    assert "sockets of"[:width - 3] in lines[0] or width < 15, lines
    assert height < 24 or any("listen" in line for line in lines), lines
PYTHON
expect "top: a screen is as large as the terminal" python3 screens.py "$SLUICE" "$DIR/sockets-b"
expect_exit 4 "top: no server" "$SLUICE" top --socket "$DIR/nowhere"

measure_with_iperf() {  # WHERE
  local protocol
  for protocol in "" -u; do
    background_on b "iperf$protocol" iperf3 -s -1 --forceflush -B $OURS
    wait_for "iperf$protocol.out" 'Server listening'
    on_a timeout 30 iperf3 $protocol -c $OURS -t 1 --json > "client$protocol.json" 2> "client$protocol.err" || true
    expect "$1iperf3 $protocol measures" python3 -c "
import json, sys
report = json.load(open('client$protocol.json'))
assert 'error' not in report, report['error']
assert report['end']['sum_received' if not '$protocol' else 'sum']['bytes'] > 0"
    finish "iperf$protocol" || true
  done
}
measure_with_iperf ""

# A program that is killed in the middle leaves the others whole. Its peer is one of ours: what the kernel takes of a shared
# device passes by our ring as well, and a server that a sanitizer makes slow has no room left for its own.
background_on a sink nc -nv -l -p 5001
wait_for sink.err Listening
on_b sh -c "exec nc 10.77.0.11 5001" < /dev/zero > /dev/null 2>&1 &
victim=$!
on_a curl -sS -m 60 --limit-rate 20M -o got http://$OURS:8080/large &
reader=$!
sleep 0.3
kill -KILL $victim 2> /dev/null || true
expect "a transfer beside a program that is killed is whole" wait $reader
expect "to the last byte" cmp got www/large
end sink

# What a killed server leaves: all its programs are told within a second, whatever they wait in, and new ones that there
# is none.
cat > holder.py <<'PYTHON'
import errno, select, socket, sys, time
kind, peer, local = sys.argv[1:]

def listening():
    one = socket.socket()
    one.bind((local, 0))
    one.listen()
    return one

connection = socket.create_connection((peer, 8080), 10) if kind in ("receives", "polls", "sends") else None
held = connection or (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if kind == "datagrams" else listening())
if kind == "datagrams":
    held.bind((local, 0))
held.settimeout(20)
print("waits", flush=True)
try:
    if kind in ("receives", "datagrams"):
        told = repr(held.recv(1))
    elif kind == "accepts":
        told = repr(held.accept())
    elif kind == "polls":
        poll = select.poll()
        poll.register(held, select.POLLIN)
        told = "hangup" if poll.poll(20_000)[0][1] & select.POLLHUP else "nothing"
    else:
        held.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        while True:
            held.sendall(bytes(65536))
except OSError as error:
    told = errno.errorcode.get(error.errno, str(error))
print(time.monotonic(), told, flush=True)
try:
    socket.socket()
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
PYTHON
kinds=(receives polls sends accepts datagrams)
for kind in "${kinds[@]}"; do
  background_on a "holder-$kind" python3 holder.py $kind $OURS 10.77.0.11
done
for kind in "${kinds[@]}"; do wait_for "holder-$kind.out" waits; done
sleep 0.3
killed=$(python3 -c 'import time; print(time.monotonic())')
kill -KILL "${PID[server-a]}"
finish server-a 2> /dev/null || true
for kind in "${kinds[@]}"; do
  finish "holder-$kind" || true
  expect "$kind: a server that is killed is told within a second" python3 -c "
import sys
lines = open('holder-$kind.out').read().split('\n')
at, told = lines[1].split(' ', 1)
assert 0 < float(at) - $killed < 1, (at, $killed)
assert told == ('hangup' if '$kind' == 'polls' else 'ECONNRESET'), told
assert lines[2] == 'ENETDOWN', lines"
done
expect_exit 4 "one server at a path" in_b "$SLUICE" serve sockets-b.toml --socket "$DIR/sockets-b"
expect "which is said" grep -q 'another server has' last.err
expect_exit 4 "and nothing else is overwritten" in_b "$SLUICE" serve sockets-a.toml --socket "$DIR/holder.py"
expect_exit 2 "a mode is a mode" in_b "$SLUICE" serve sockets-a.toml --socket "$DIR/x" --mode rw
expect_exit 127 "a program that is not there" on_b ./nothing
expect_exit 126 "or is none" on_b ./nginx.conf

# The link that a killed server leaves behind takes the next one; it is bad: 1 % is lost, 5 % come out of order.
serve_on a 11 'loss = 1, reorder = 5, reorder_ms = 2, seed = 5'
on_a curl -sS -m 120 -o got http://$OURS:8080/large
expect "over a bad link curl gets the file whole" cmp got www/large
# ab ends with the first connection that is reset; a port may be one that a connection of the killed server still has.
many_requests() { on_a ab -q -n 1000 -c 50 http://$OURS:8080/small > ab.out 2> ab.err || { cat ab.err >&2; return 1; }; }
many_requests || many_requests || true
expect "and a thousand requests over fifty connections are answered" grep -q '^Complete requests: *1000$' ab.out
expect "none of which failed" grep -q '^Failed requests: *0$' ab.out
on_a curl -sS -m 60 -o got http://$OURS:8000/small
expect "python's server gives its file" cmp got www/small
on_a curl -sS -m 60 -o got http://$OURS:8000/large
expect "a large one, too" cmp got www/large
on_a redis-benchmark -h $OURS -q -n 1000 -c 50 -t ping,set,get < /dev/null 2> redis.err | tr '\r' '\n' > redis.txt
expect "redis-benchmark gets its answers" [ "$(grep -c 'requests per second' redis.txt)" -ge 4 ]
expect "a value is what was set there" \
  [ "$(on_a redis-cli -h $OURS set bad link < /dev/null && on_a redis-cli -h $OURS get bad < /dev/null)" = $'OK\nlink' ]
background_on b lossy timeout 60 nc -nv -l -p 4002
wait_for lossy.err Listening
on_a timeout 60 nc -N $OURS 4002 < question || true
finish lossy || true
expect "what netcat sends is whole" cmp question lossy.out
INPUT=reply background_on b lossy timeout 60 nc -nv -N -l -p 4002
wait_for lossy.err Listening
on_a timeout 60 nc $OURS 4002 < /dev/null > lossy || true
finish lossy || true
expect "and what it gets" cmp reply lossy
measure_with_iperf "over a bad link "

expect "the kernel has none of these addresses' ports" bash -c "! ip netns exec $NS_B ss -Hltn | grep -q ."
end nginx
end http
end redis
all_gone() {  # what was closed over a bad link may linger for a minute (StreamSocket::orphan_time_max)
  local i
  for i in $(seq 1600); do
    kill -USR1 "${PID[server-b]}"
    sleep 0.05
    tail -1 server-b.out | grep -q '^sockets 0,' && return 0
  done
  tail -1 server-b.out >&2
  return 1
}
expect "no socket is left behind" all_gone
stop server-b
expect "nor the server's file" [ ! -e sockets-b ]
