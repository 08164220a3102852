#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian's ssh and sshd, unmodified, each on a stack of ours (`sluice serve`, `sluice exec`), on a link between two
# namespaces: a command, its exit code, 64 MiB each way, and a port that ssh forwards; over a bad link, too. Accounts, keys and configuration
# are the test's own.
source "$(dirname "$0")/common.sh"
for program in ssh ssh-keygen scp /usr/sbin/sshd; do
  command -v "$program" >/dev/null || { echo "$program is missing; scripts/test installs and builds what is needed" >&2; exit 1; }
done
two_hosts
unset SSH_AUTH_SOCK SSH_ASKPASS DISPLAY

# ssh and sshd take home directories from the user database, not from $HOME. Root here is `me` there.
mkdir -m 700 home-a home-b keys
printf 'root:x:0:0:root:%s:/bin/bash\nme:x:1000:1000:me:%s:/bin/sh\n' "$DIR/home-a" "$DIR/home-b" > passwd
printf 'root:x:0:\nme:x:1000:\n' > group
mount --bind passwd /etc/passwd
mount --bind group /etc/group
export HOME=$DIR/home-a
for key in host user; do ssh-keygen -q -t ed25519 -N "" -C "" -f keys/$key; done
cp keys/user.pub keys/authorized
OURS=10.77.0.12 OURS6=fd00:77::12
cat > sshd_config <<CONFIG
Port 2222
HostKey $DIR/keys/host
AuthorizedKeysFile $DIR/keys/authorized
PidFile $DIR/sshd.pid
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
CONFIG
for address in $OURS $OURS6; do echo "[$address]:2222 $(cat keys/host.pub)"; done > known_hosts
cat > ssh_config <<CONFIG
Host there
  HostName $OURS
Host there6
  HostName $OURS6
Host *
  User me
  Port 2222
  IdentityFile $DIR/keys/user
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking yes
  UserKnownHostsFile $DIR/known_hosts
  GlobalKnownHostsFile /dev/null
  LogLevel ERROR
CONFIG

serve_on() {  # a|b HOST-PART [FAULTS]
  local stack table="" push=""
  [ -z "${3:-}" ] || push='"fault", ' table="fault  = { $3 }"
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
serve_on b 12
serve_on a 11
over() { in_a "$SLUICE" exec --socket "$DIR/sockets-a" timeout 120 "$@"; }

# A user namespace of one user: sshd needs no privilege of it.
background sshd in_b unshare --user --map-user=1000 --map-group=1000 \
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
end() { kill "${PID[$1]}"; finish "$1" 2> /dev/null || true; }
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
