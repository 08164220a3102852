#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a temporary prefix; then programs outside of the project build against what lies there, the examples by
# find_package(sluice), another by pkg-config alone, and run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "${SLUICE_BIN:?the build directory\'s bin}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
expected='hello, 1 message through the meter'

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(cached CMAKE_CXX_COMPILER)
sanitize=$(cached SLUICE_SANITIZE)
flags=()
[ -z "$sanitize" ] || flags=("-fsanitize=$sanitize")

must_be() {
  [ "$2" = "$3" ] || { echo "install_test: $1: expected '$2', got '$3'" >&2; exit 1; }
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
for file in bin/ftx bin/sluice include/sluice/stack/head/stream.h include/sluice/stack/core/message.h \
            share/man/man1/ftx.1 share/man/man1/sluice.1 share/sluice/wireshark/sluice.lua share/bash-completion/completions/ftx \
            share/zsh/site-functions/_ftx share/fish/vendor_completions.d/ftx.fish; do
  [ -f "$prefix/$file" ] || { echo "install_test: $file is not installed" >&2; exit 1; }
done
[ -f "$prefix/include/sluice/msg.h" ] && [ -f "$prefix/share/man/man3/sluice_msg.3" ] || { echo "install_test: no sluice/msg.h or its manual" >&2; exit 1; }
[ -f "$prefix/include/ftx.h" ] && [ -f "$prefix/include/ftx.hpp" ] || { echo "install_test: no ftx.h or ftx.hpp" >&2; exit 1; }
if find "$prefix/include" -path '*apps*' | grep -q . || grep -rlF "$(cd "$here/../.." && pwd)" "$prefix"/lib/*/cmake "$prefix"/lib/*/pkgconfig; then
  echo "install_test: what is installed leads back into the source tree" >&2
  exit 1
fi
must_be "ftx --version" "$("$SLUICE_BIN/ftx" --version)" "$("$prefix/bin/ftx" --version)"

# As a distribution would move it.
mv "$prefix" "$work/moved"
prefix=$work/moved

cmake -G Ninja -S "$here/../../examples/programs" -B "$work/by_cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
      -DCMAKE_CXX_FLAGS="${flags[*]}" >"$work/configure.log" || { cat "$work/configure.log" >&2; exit 1; }
cmake --build "$work/by_cmake" >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
for program in tli_echo own_module own_manipulation all_to_all; do
  timeout 60 "$work/by_cmake/$program" >"$work/$program.log" || { cat "$work/$program.log" >&2; exit 1; }
done
must_be "what explain calls the stage" 2 "$(grep -c 'chacha20: chacha20 deferred' "$work/own_manipulation.log")"

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sluice.pc)")
read -ra compile < <(pkg-config --cflags sluice)
read -ra link < <(pkg-config --libs sluice)
"$compiler" -std=c++23 "${flags[@]}" "${compile[@]}" "$here/consumer/main.cc" -o "$work/by_pkgconfig" "${link[@]}"
must_be "built by pkg-config" "$expected" "$("$work/by_pkgconfig")"
must_be "version" "$("$SLUICE_BIN/ftx" --version)" "$(pkg-config --modversion sluice)"

# libftx: C and C++ programs, and Python, that know nothing but what is installed. It shows its functions alone.
must_be "version of libftx" "$("$SLUICE_BIN/ftx" --version)" "$(pkg-config --modversion ftx)"
library=$(find "$prefix" -name 'libftx.so.0')
must_be "what libftx shows" "$(grep -o 'ftx_[a-z_]*(' "$prefix/include/ftx.h" | grep -v 'ftx_event_handler' | sort -u | tr -d '(')" \
        "$(nm --dynamic --defined-only "$library" | sed -n 's/^[^ ]* T \([^@]*\).*/\1/p' | sort -u)"
# Nobody links a program, or Python, with a library that brings a sanitizer of its own.
[ -n "$sanitize" ] || PREFIX_LIBRARIES=$(dirname "$library") CXX=$compiler "$here/try_libftx.sh" "$here/../../examples/ftx" "$here/../../bindings/python" "$work"

# libsluice-msg likewise: a program in C that knows its header alone.
must_be "version of libsluice-msg" "$("$SLUICE_BIN/ftx" --version)" "$(pkg-config --modversion sluice-msg)"
library=$(find "$prefix" -name 'libsluice-msg.so.0')
must_be "what libsluice-msg shows" "$(grep -o 'SLUICE_MSG_API.* \**sluice_msg_[a-z_]*(' "$prefix/include/sluice/msg.h" | grep -o 'sluice_msg_[a-z_]*(' | sort -u | tr -d '(')" \
        "$(nm --dynamic --defined-only "$library" | sed -n 's/^[^ ]* T \([^@]*\).*/\1/p' | sort -u)"
[ -n "$sanitize" ] || PREFIX_LIBRARIES=$(dirname "$library") "$here/try_libmsg.sh" "$here/../../examples/msg" "$work"
