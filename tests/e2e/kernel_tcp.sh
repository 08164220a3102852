# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of our own TCP against the kernel's, after common.sh and two_hosts: `sluice nc` over tcp in
# namespace B, kernel_peer.py in A.
#
#   our_stack PART [FAULTS]    a stack of ours that is host .PART, over a link with those faults
#   between NAME we|it FAMILY PART STEP...   begins a connection of that stack's, which we or it call; our input is
#                        $INPUT, if set, the peer's steps are those of kernel_peer.py
#   exchange NAME we|it FAMILY PART [STEP...]   `question` comes to us and `reply` leaves at the same time
#   exchanged NAME       both ends end well, and what came is what was sent
#   fails NAME TEXT      our end ends with 1 and says TEXT
#   check_segments PART...   tshark finds no error in the segments of those hosts since capture began

PEER=$TOP/tests/e2e/kernel_peer.py

our_stack() {
  stack_file "our-$1.toml" packet "$1" "${2:+\"fault\", }\"ip\", \"tcp\", \"timod\"" "${2:+fault = { $2 \}}"
}

ours() {  # NAME PART ARGUMENT...
  background "ours-$1" in_b "$SLUICE" nc --stack "our-$2.toml" -v "${@:3}"
}

between() {
  local name=$1 caller=$2 part=$4 its=$ADDR_A our=10.77.0.$4 port=$((5000 + $4))
  [ "$3" = 4 ] || its=$ADDR6_A our=fd00:77::$4
  shift 4
  if [ "$caller" = we ]; then
    INPUT='' background "peer-$name" in_a python3 "$PEER" listen "$its" $port "$@"
    kernel_listens $port tcp
    ours "$name" "$part" "$its" $port
  else
    ours "$name" "$part" -l -p $port
    wait_for "ours-$name.err" listening
    INPUT='' background "peer-$name" in_a python3 "$PEER" connect "$our" $port "$@"
  fi
}

exchange() { INPUT=reply between "${@:1:4}" "${@:5}" sending=question receive; }

ends_well() {
  finish "$1" || { echo "$1 ended with $?" >&2; cat "$1.err" >&2; return 1; }
}

exchanged() {
  expect "$1: the kernel's end ends well" ends_well "peer-$1"
  expect "$1: ours ends well" ends_well "ours-$1"
  expect "$1: what the kernel sent is whole" cmp question "ours-$1.out"
  expect "$1: what we sent is whole" cmp reply "peer-$1.out"
}

fails() {
  local status=0
  finish "ours-$1" || status=$?
  expect "$1: ours ends with 1" [ $status = 1 ]
  expect "$1: and says '$2'" grep -q "$2" "ours-$1.err"
}

begin_capture() {
  background capture in_a dumpcap -q -B 64 -i veth0 -f tcp -w segments.pcap
  wait_for capture.err "File: "
}

check_segments() {
  local part hosts=
  sleep 0.3  # what dumpcap has yet to write
  stop capture || true
  for part in "$@"; do
    hosts="${hosts:+$hosts or }ip.addr == 10.77.0.$part or ipv6.addr == fd00:77::$part"
  done
  expect "tshark finds no error in the segments" have_no_errors "$hosts"
}
have_no_errors() {
  tshark -r segments.pcap -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE -d tcp.port==5000-5100,data \
    -z "expert,error,$1" -q > expert.out 2> expert.err || { cat expert.err >&2; return 1; }
  ! grep -q Errors expert.out || { cat expert.out >&2; return 1; }
}
