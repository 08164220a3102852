#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A capture of what `sluice serve` carries: each connection and each datagram socket is a stream of its own, and all of
# them write to the one file that the stack file names, which stays whole while they come and go.
source "$(dirname "$0")/common.sh"
two_hosts
source "$TOP/tests/e2e/served_sockets.sh"

serve_on b 12
serve_on a 11 '' trace.pcapng
over() { in_a "$SLUICE" exec --socket "$DIR/sockets-a" timeout 60 "$@"; }

background listener in_b "$SLUICE" exec --socket "$DIR/sockets-b" python3 -c '
import socket
listener = socket.create_server(("10.77.0.12", 7000))
print("listening", flush=True)
for _ in range(3):
    connection, _ = listener.accept()
    while part := connection.recv(65536):
        connection.sendall(part)
    connection.close()
'
wait_for listener.out listening
for turn in 1 2 3; do
  over python3 -c '
import socket, sys
connection = socket.create_connection(("10.77.0.12", 7000))
connection.sendall(sys.argv[1].encode() * 1000)
connection.shutdown(socket.SHUT_WR)
received = b""
while part := connection.recv(65536):
    received += part
assert received == sys.argv[1].encode() * 1000
' "turn-$turn"
done
finish listener
sleep 1.5  # it gathers for a second at most
seen() { tshark -r trace.pcapng -T fields -e tcp.stream "$@" | sort -u | wc -l; }
expect "while it serves, the file has all three connections" [ "$(seen -Y 'tcp.flags.syn == 1 && tcp.flags.ack == 1')" = 3 ]
expect "with what they carried" [ "$(tshark -r trace.pcapng -Y 'ip.src == 10.77.0.11 && tcp.len > 0' -T fields -e tcp.len |
  awk '{ sum += $1 } END { print sum }')" = 18000 ]
expect "and tshark finds nothing wrong" [ -z "$(tshark -r trace.pcapng -o tcp.check_checksum:TRUE -Y \
  'tcp.checksum.status == "Bad" || tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment || _ws.malformed')" ]
stop server-a
expect "it is whole when the server has ended" capinfos -c trace.pcapng
