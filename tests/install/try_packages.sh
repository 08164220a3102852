#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# try_packages.sh VERSION, in a Debian that has nothing but apt: installs the packages that lie beside it, and uses them.
set -euo pipefail
cd "$(dirname "$0")"
version=$1
trap 'echo "try_packages: line $LINENO: this failed: $BASH_COMMAND" >&2' ERR
export DEBIAN_FRONTEND=noninteractive
unset "${!CMAKE_@}" CC CFLAGS CXX CXXFLAGS LDFLAGS  # how the machine outside compiles does not matter here
install() { apt-get install --yes --quiet --no-install-recommends "$@"; }

must_be() {
  [ "$2" = "$3" ] || { echo "try_packages: $1: expected '$2', got '$3'" >&2; exit 1; }
}

# The programs, without what builds them.
install ./packages/ftx_*.deb ./packages/sluice_*.deb
must_be "ftx --version" "$version" "$(ftx --version)"
must_be "sluice --version" "$version" "$(sluice --version)"
must_be "pages of the manual" 2 "$(find /usr/share/man/man1 -name ftx.1 -o -name sluice.1 | wc -l)"
for completion in bash-completion/completions/ftx zsh/vendor-completions/_ftx fish/vendor_completions.d/ftx.fish; do
  must_be "completion" "$completion" "$(cd /usr/share && ls "$completion")"
done
sluice explain /usr/share/doc/sluice/stacks/packet.toml >explained
grep -q 'stack bulk' explained
must_be "the script for Wireshark" 1 "$(grep -c '^local rmpp = Proto' /usr/share/sluice/wireshark/sluice.lua)"

mkdir from to
head -c 3000000 /dev/urandom >from/data
printf 'small\n' >from/note
(umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >secret)
ftx serve to --listen 127.0.0.1 --port 0 --once --secret-file secret >serve.log 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  ! grep -q listening serve.log || break
  sleep 0.05
done
address=$(sed -n 's/^ftx: listening on \([^,]*\).*/\1/p' serve.log)
timeout 60 ftx --secret-file secret -r from/ "ftx://$address/" || { cat serve.log >&2; exit 1; }
wait "$server"
must_be "what arrived" "$(cd from && sha256sum -- *)" "$(cd to && sha256sum -- *)"

# The library.
install ./packages/libsluice-dev_*.deb g++ cmake ninja-build pkg-config libssl-dev
must_be "pkg-config's version" "$version" "$(pkg-config --modversion sluice)"
read -ra compile < <(pkg-config --cflags sluice)
read -ra link < <(pkg-config --libs sluice)
g++ -std=c++23 "${compile[@]}" consumer/main.cc -o by_pkgconfig "${link[@]}"
must_be "built by pkg-config" 'hello, 1 message through the meter' "$(./by_pkgconfig)"
cmake -G Ninja -S programs -B by_cmake
cmake --build by_cmake
for program in tli_echo own_module own_manipulation all_to_all; do
  timeout 60 "./by_cmake/$program"
done

# The message library for C, which needs none of that.
install ./packages/libsluice-msg0_*.deb ./packages/libsluice-msg-dev_*.deb gcc
mkdir msg_work
./try_libmsg.sh msg "$PWD/msg_work"

# libftx, which is no part of the others.
dpkg --purge ftx
install ./packages/libftx0_*.deb ./packages/libftx-dev_*.deb gcc g++ python3 python3-pip python3-setuptools python3-wheel
mkdir work
./try_libftx.sh ftx bindings/python "$PWD/work"

# They go as they came.
dpkg --purge libftx0 libftx-dev sluice libsluice-dev libsluice-msg0 libsluice-msg-dev
[ ! -e /usr/bin/ftx ] && [ ! -e /usr/include/sluice ] && [ ! -e /usr/include/ftx.h ]
echo 'try_packages: all of it worked'
