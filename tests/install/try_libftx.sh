#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# try_libftx.sh EXAMPLES BINDINGS WORK: the examples in C and C++ build against the installed libftx by pkg-config alone
# and move a tree; a wheel of the Python bindings is built, installed and does the same. Python is the one whose packages
# Debian has, whichever comes first in PATH.
#
#   PREFIX_LIBRARIES  where libftx lies, if the loader does not look there by itself
#   CXX               the compiler for C++, if not g++
set -euo pipefail
examples=$1 bindings=$2 work=$3
[ -z "${PREFIX_LIBRARIES:-}" ] || export LD_LIBRARY_PATH="$PREFIX_LIBRARIES"

read -ra build < <(pkg-config --cflags --libs ftx)
cc -std=c11 -Wall -Wextra -Werror "$examples/transfer.c" -o "$work/transfer" "${build[@]}"
"${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror "$examples/serve.cpp" -o "$work/serve" "${build[@]}"

mkdir -p "$work/libftx/tree/deeper" "$work/libftx/there"
head -c 2000000 /dev/urandom >"$work/libftx/tree/deeper/data"
printf 'small\n' >"$work/libftx/tree/note"
(umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$work/libftx/secret")
"$work/serve" "$work/libftx/there" "$work/libftx/secret" >"$work/serve.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 200); do
  ! grep -q '^listening on ' "$work/serve.log" || break
  sleep 0.05
done
address=$(sed -n 's/^listening on //p' "$work/serve.log")
FTX_SECRET=$work/libftx/secret timeout 60 "$work/transfer" "$work/libftx/tree" "ftx://$address/" >"$work/transfer.log" ||
  { cat "$work/serve.log" >&2; exit 1; }
wait "$server"
trap - EXIT
grep -qx 'done: 2 files, 2000006 bytes' "$work/transfer.log"
must=$(cd "$work/libftx/tree" && sha256sum deeper/data note)
[ "$must" = "$(cd "$work/libftx/there/tree" && sha256sum deeper/data note)" ] || { echo "try_libftx: what arrived differs" >&2; exit 1; }

cp -r "$bindings" "$work/bindings"  # a build leaves files beside its sources
/usr/bin/python3 -m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir "$work/wheel" "$work/bindings"
/usr/bin/python3 -m pip install --quiet --root-user-action=ignore --no-deps --no-index --target "$work/packages_of_python" "$work"/wheel/ftx-*.whl
cd "$work"
PYTHONPATH=$work/packages_of_python timeout 60 /usr/bin/python3 "$work/bindings/try_ftx.py"
