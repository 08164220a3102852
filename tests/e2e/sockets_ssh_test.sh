#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian's ssh and sshd, unmodified, each on a stack of ours (`sluice serve`, `sluice exec`), on a link between two
# namespaces: a command, its exit code, 64 MiB each way, and a port that ssh forwards; over a bad link, too. Accounts, keys and configuration
# are the test's own.
source "$(dirname "$0")/common.sh"
source "$TOP/tests/e2e/ssh_hosts.sh"
needs scp
two_hosts
source "$TOP/tests/e2e/served_sockets.sh"

OURS=10.77.0.12 OURS6=fd00:77::12
{
  sshd_settings 2222
  echo "Subsystem sftp internal-sftp"
} > sshd_config
for address in $OURS $OURS6; do echo "[$address]:2222 $(cat keys/host.pub)"; done > known_hosts
{
  printf 'Host there\n  HostName %s\nHost there6\n  HostName %s\n' $OURS $OURS6
  ssh_settings 2222
} > ssh_config

serve_on b 12
serve_on a 11
over() { in_a "$SLUICE" exec --socket "$DIR/sockets-a" timeout 120 "$@"; }

background sshd in_b "${SSHD[@]}" \
  "$SLUICE" exec --socket "$DIR/sockets-b" /usr/sbin/sshd -D -e -f "$DIR/sshd_config"
wait_for sshd.err 'Server listening on :: port 2222'
expect "sshd listens for IPv4 and, beside it, for IPv6" grep -q 'Server listening on 0.0.0.0 port 2222' sshd.err
expect "which the kernel knows nothing of" bash -c "! ip netns exec $NS_B ss -Hltn | grep -q ."

for host in there there6; do
  expect "$host: a command's output" [ "$(over ssh -F ssh_config $host 'echo "as $USER from ${SSH_CONNECTION%% *}"' < /dev/null)" = \
    "as me from $([ $host = there ] && echo 10.77.0.11 || echo fd00:77::11)" ]
  expect_exit 7 "$host: and its exit code" over ssh -F ssh_config $host 'exit 7' < /dev/null
done
head -c 64M /dev/urandom > large
digest=$(sha256sum < large)
expect "64 MiB to a command" [ "$(over ssh -F ssh_config there sha256sum < large)" = "$digest" ]
expect "64 MiB of one" [ "$(over ssh -F ssh_config there "cat $DIR/large" < /dev/null | sha256sum)" = "$digest" ]
over scp -q -F ssh_config large there:copied
expect "scp: a file" cmp large home-b/copied
# A port forwarded: the client listens on its stack, and what comes there goes to a port of the other host's.
background forward in_a "$SLUICE" exec --socket "$DIR/sockets-a" ssh -F ssh_config -N -L 10.77.0.11:4022:$OURS:2222 there
forwarded() {
  local i
  for i in $(seq 100); do
    in_b bash -c "exec 3<> /dev/tcp/10.77.0.11/4022 && head -c 7 <&3" 2> /dev/null && return 0
    sleep 0.1
  done
  return 1
}
expect "a forwarded port leads to sshd" [ "$(forwarded)" = SSH-2.0 ]
end forward

# 1 % is lost, 5 % come out of order.
stop server-a
serve_on a 11 'loss = 1, reorder = 5, reorder_ms = 2, seed = 7'
expect_exit 7 "over a bad link: a command's exit code" over ssh -F ssh_config there 'exit 7' < /dev/null
head -c 16M large > some
digest=$(sha256sum < some)
expect "16 MiB to a command" [ "$(over ssh -F ssh_config there sha256sum < some)" = "$digest" ]
expect "16 MiB of one" [ "$(over ssh -F ssh_config there "head -c 16M $DIR/large" < /dev/null | sha256sum)" = "$digest" ]
end sshd
stop server-b
