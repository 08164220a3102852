# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests that throw cases: a link on which nobody speaks but the program under trial and the trial.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/common.sh"

two_namespaces
for side in $NS_A $NS_B; do
  ip netns exec "$side" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.veth0.disable_ipv6=1
done
ip -n $NS_B link set veth0 address 02:00:00:00:00:12
ip -n $NS_A link set veth0 up
ip -n $NS_B link set veth0 up

# hostile TARGET PROGRAM ARGUMENT...   throws all cases at it
hostile() { in_a python3 "$TOP/tests/hostile/hostile.py" "$1" veth0 $NS_B "${@:2}"; }

# A second link between the two, veth1.
two_links() {
  local side
  ip -n $NS_A link add veth1 type veth peer name veth1 netns $NS_B
  for side in $NS_A $NS_B; do
    ip netns exec "$side" ethtool -K veth1 tx off gso off tso off gro off >/dev/null 2>&1 || true
    ip netns exec "$side" sysctl -qw net.ipv6.conf.veth1.disable_ipv6=1
    ip -n "$side" link set veth1 up
  done
}
