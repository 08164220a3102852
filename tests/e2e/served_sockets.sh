# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of programs on stacks of ours, after common.sh and two_hosts.
#
#   serve_on a|b HOST-PART [FAULTS [CAPTURE]]   a host of ours, in namespace A or B: its server, `server-a` or
#                        `server-b`, whose socket is $DIR/sockets-a or -b; what its link carries goes to the file CAPTURE
#   end NAME             ends a program in the background, however that ends

serve_on() {
  local stack table="" push=""
  [ -z "${3:-}" ] || push='"fault", ' table="fault  = { $3 }"$'\n'
  [ -z "${4:-}" ] || push+='"capture", ' table+="capture = { file = \"$4\" }"
  : > "sockets-$1.toml"
  for stack in tcp udp; do
    cat >> "sockets-$1.toml" <<TOML
[stack.$stack]
driver = { kind = "packet", device = "veth0" }
push   = [$push"ip", "$stack", "timod"]
ip     = { address = ["10.77.0.$2/24", "fd00:77::$2/64"] }
$table
TOML
  done
  background "server-$1" "in_$1" "$SLUICE" serve "sockets-$1.toml" --socket "$DIR/sockets-$1"
  wait_for "server-$1.out" 'serving sockets'
}
end() { kill "${PID[$1]}"; finish "$1" 2> /dev/null || true; }
