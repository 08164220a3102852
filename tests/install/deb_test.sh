#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages, in a Debian that has nothing else: they install, the programs run, a file goes from one directory
# to another, and programs build on the library (tests/install/try_packages.sh, which runs in there).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$(dirname "${SLUICE_BIN:?the build directory\'s bin}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/packages"
chmod 755 "$work" "$work/packages"  # apt in there reads them as another user

cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/cpack.log" || { cat "$work/cpack.log" >&2; exit 1; }
mv "$work"/cpack/*.deb "$work/packages"
version=$("$SLUICE_BIN/ftx" --version)
for package in ftx libftx0 libftx-dev sluice libsluice-dev libsluice-msg0 libsluice-msg-dev; do
  [ "$(dpkg-deb -f "$work/packages/${package}_"*.deb Version)" = "$version" ] ||
    { echo "deb_test: no package $package of version $version" >&2; ls -l "$work/packages" >&2; exit 1; }
done

# Nothing is left of this Debian when mmdebstrap ends, so that nothing need wait for the disk. It is of the same release as
# this machine, which built the programs, and comes from where this machine's packages come from.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
if ! timeout 800 mmdebstrap --quiet --variant=apt --format=null --skip=check/empty --dpkgopt=force-unsafe-io \
    --customize-hook="copy-in '$work/packages' '$here/try_packages.sh' '$here/try_libftx.sh' '$here/try_libmsg.sh' '$here/consumer' '$source/examples/programs' '$source/examples/ftx' '$source/examples/msg' '$source/bindings' /root" \
    --customize-hook="chroot \"\$1\" /root/try_packages.sh '$version'" \
    "$release" /dev/null >"$work/try.log" 2>&1; then
  tail -n 60 "$work/try.log" >&2
  echo "deb_test: the packages do not work in a bare Debian" >&2
  exit 1
fi
grep -qx 'try_packages: all of it worked' "$work/try.log"
