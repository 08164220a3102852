# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests that run ssh in A and sshd in B, after common.sh. Accounts, keys and configuration are the test's
# own; no agent is asked, and /etc stays as it is. Root here is `me` there, in home-b, whom keys/user lets in.
#
#   needs PROGRAM...     fails where one is missing
#   sshd_settings PORT   sshd_config, but for what a test adds
#   ssh_settings PORT    what of ssh_config is for every host
#   SSHD                 command in front of sshd's: a user namespace of one user, of which it needs no privilege

needs() {
  local program
  for program in "$@"; do
    command -v "$program" > /dev/null || { echo "$program is missing; scripts/test installs and builds what is needed" >&2; exit 1; }
  done
}
needs ssh ssh-keygen /usr/sbin/sshd
unset SSH_AUTH_SOCK SSH_ASKPASS DISPLAY

# ssh and sshd take home directories from the user database, not from $HOME.
mkdir -m 700 home-a home-b keys
printf 'root:x:0:0:root:%s:/bin/bash\nme:x:1000:1000:me:%s:/bin/sh\n' "$DIR/home-a" "$DIR/home-b" > passwd
printf 'root:x:0:\nme:x:1000:\n' > group
mount --bind passwd /etc/passwd
mount --bind group /etc/group
export HOME=$DIR/home-a
for key in host other user; do ssh-keygen -q -t ed25519 -N "" -C "" -f keys/$key; done
cp keys/user.pub keys/authorized

sshd_settings() {
  cat <<CONFIG
Port $1
HostKey $DIR/keys/host
AuthorizedKeysFile $DIR/keys/authorized
PidFile $DIR/sshd.pid
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
CONFIG
}
ssh_settings() {
  cat <<CONFIG
Host *
  User me
  Port $1
  IdentityFile $DIR/keys/user
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking yes
  UserKnownHostsFile $DIR/known_hosts
  GlobalKnownHostsFile /dev/null
  LogLevel ERROR
CONFIG
}
SSHD=(unshare --user --map-user=1000 --map-group=1000)
