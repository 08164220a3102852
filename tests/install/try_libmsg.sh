#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# try_libmsg.sh EXAMPLES WORK: the example in C builds against the installed libsluice-msg by pkg-config alone, and two
# of it send each other messages.
#
#   PREFIX_LIBRARIES  where libsluice-msg lies, if the loader does not look there by itself
set -euo pipefail
examples=$1 work=$2
[ -z "${PREFIX_LIBRARIES:-}" ] || export LD_LIBRARY_PATH="$PREFIX_LIBRARIES"

read -ra build < <(pkg-config --cflags --libs sluice-msg)
cc -std=gnu11 -Wall -Wextra -Werror "$examples/ping_pong.c" -o "$work/ping_pong" "${build[@]}" -pthread
timeout 60 "$work/ping_pong" >"$work/ping_pong.log" || { cat "$work/ping_pong.log" >&2; exit 1; }
grep -q '^1000000 bytes, answered by 1000000, 20 times' "$work/ping_pong.log"
