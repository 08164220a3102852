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
