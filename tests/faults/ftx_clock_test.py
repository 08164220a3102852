#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wall clock of both ends jumps by years at each look (clock_jumps.cc), while files go to a standing server and come
back from it, sealed, with keys that are made and pinned meanwhile, and a transfer is cut off and continued: no timer, no
certificate and no file's time depends on that clock."""
import filecmp
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(os.environ["SLUICE_BIN"])
FTX = BIN / "ftx"
SECONDS_MAX = 60
BYTES = 8_000_000
problems = []


def expect(good, what):
    print(("ok: " if good else "FAILED: ") + what, flush=True)
    if not good:
        problems.append(what)


def environment(top):
    # AddressSanitizer wants to be the first library; this one passes its functions on.
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {**os.environ, "HOME": str(top), "XDG_CONFIG_HOME": str(top / "config"), "ASAN_OPTIONS": asan,
            "LD_PRELOAD": str(BIN.parent / "tests" / "libclock_jumps.so")}


def the_clock_jumps(top):
    """Else nothing here is a test."""
    looks = "import time; print(*(round(time.time()) for _ in range(4)))"
    seen = subprocess.run([sys.executable, "-c", looks], env=environment(top), stdout=subprocess.PIPE, check=True).stdout
    jumps = {round((int(look) - time.time()) / 86400) for look in seen.split()}
    expect(len(jumps) == 4, f"the clock of a program is off by {sorted(jumps)} days")


def run(top, what, *arguments):
    ran = subprocess.run([FTX, "--no-progress", *map(str, arguments)], env=environment(top), timeout=SECONDS_MAX,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(ran.returncode == 0, f"{what}: ends with {ran.returncode}: {ran.stdout.strip()}")
    return ran.stdout


def same(one, other):
    return filecmp.cmp(one, other, shallow=False) and one.stat().st_mtime_ns == other.stat().st_mtime_ns


def main():
    with tempfile.TemporaryDirectory(prefix="ftx-clock.") as directory:
        top = pathlib.Path(directory)
        the_clock_jumps(top)
        for name in ("served", "back"):
            (top / name).mkdir()
        source = top / "file"
        source.write_bytes(os.urandom(BYTES))
        server = subprocess.Popen([FTX, "serve", "--anyone", "--listen", "127.0.0.1", "--port", "0", top / "served"],
                                  env=environment(top), stdout=subprocess.PIPE, text=True)
        address, key = re.search(r"listening on (\S+), key (\S+)", server.stdout.readline()).groups()
        url = f"ftx://{address}/"
        begun = time.monotonic()
        run(top, "push", "--accept-key", key, source, url)
        expect(same(source, top / "served/file"), "what was pushed is there, with its time")
        run(top, "pull", url + "file", top / "back/")
        expect(same(source, top / "back/file"), "what was pulled is there, with its time")
        run(top, "push again", source, url)
        expect(time.monotonic() - begun < SECONDS_MAX, "no timer waited for the wall clock")

        os.utime(source)
        (top / "served/file").unlink()
        cut = subprocess.Popen([FTX, "--no-progress", "--rate", "20", source, url], env=environment(top))
        deadline = time.monotonic() + SECONDS_MAX
        journal = top / "served/.file.ftx-journal"
        while time.monotonic() < deadline and not (journal.exists() and journal.stat().st_size > 200):
            time.sleep(0.02)
        cut.kill()
        cut.wait()
        said = run(top, "the rest of one that was cut off", "--json", source, url)
        expect(same(source, top / "served/file"), "the whole file is there")
        skipped = json.loads(said.splitlines()[-1])["skipped_bytes"]
        expect(0 < skipped < BYTES, f"{skipped} bytes of it were there already")
        server.send_signal(signal.SIGINT)
        expect(server.wait(timeout=SECONDS_MAX) in (0, 130), "the server ends when it is asked to")
        expect(sorted(os.listdir(top / "served")) == ["file"], "nothing else is left")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
