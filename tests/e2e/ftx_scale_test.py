#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A million files, and a file of 100 GiB that is all holes but for a little: both arrive, and neither end takes more
than 200 MiB of memory. SLUICE_SCALE_FILES says how many files (a million if absent), SLUICE_SCALE_NAME_BYTES how long
their names are (24); SLUICE_MEMORY=any leaves the bound away, for programs
that are instrumented."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

FTX = pathlib.Path(os.environ["SLUICE_BIN"]) / "ftx"
SECONDS_MAX = 400
FILES = int(os.environ.get("SLUICE_SCALE_FILES", 1_000_000))
NAME_BYTES = int(os.environ.get("SLUICE_SCALE_NAME_BYTES", 24))
FILES_OF_A_DIRECTORY = 1000
MEMORY_MAX_KIB = None if os.environ.get("SLUICE_MEMORY") == "any" else 200 * 1024
SPARSE_BYTES = 100 << 30
EXTENT_BYTES = 8 << 20
problems = []


def expect(good, what):
    print(("ok: " if good else "FAILED: ") + what, flush=True)
    if not good:
        problems.append(what)


def place():
    """Where a million files are quickly made: in memory, where there is room for them."""
    shared = pathlib.Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        return None
    room = os.statvfs(shared)
    enough = room.f_bavail * room.f_frsize > 12 * 1024 * FILES and room.f_favail > 2.1 * FILES
    return str(shared) if enough else None


def make_files(top, files):
    """Of a few bytes each, a thousand to a directory."""
    for first in range(0, files, FILES_OF_A_DIRECTORY):
        directory = top / f"directory-{first:07d}"
        directory.mkdir(parents=True)
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        for number in range(first, min(first + FILES_OF_A_DIRECTORY, files)):
            file = os.open(name_of(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=held)
            if number % 10 == 0:
                os.write(file, str(number).encode())
            os.close(file)
        os.close(held)


def name_of(number):
    return f"file-{number:07d}.c".rjust(NAME_BYTES, "a")


def extents(size):
    """Where the data of the sparse file lies: at both ends, and across the 64 GiB."""
    return [0, (64 << 30) - EXTENT_BYTES // 2, size - EXTENT_BYTES]


def make_sparse(path, size):
    with open(path, "wb") as file:
        for number, at in enumerate(extents(size)):
            file.seek(at)
            file.write(bytes([number + 1]) * EXTENT_BYTES)


def transfer(top, what, source, *options):
    """Through a server with keys, so sealed as by default; answers where it went."""
    there = top / "there"
    there.mkdir()
    environment = {**os.environ, "HOME": str(top), "XDG_CONFIG_HOME": str(top / "config")}
    server = subprocess.Popen([FTX, "serve", "--anyone", "--listen", "127.0.0.1", "--port", "0", there],
                              stdout=subprocess.PIPE, text=True, env=environment)
    address, key = re.search(r"listening on (\S+), key (\S+)", server.stdout.readline()).groups()
    near = subprocess.Popen([FTX, "--no-progress", "--accept-key", key, *options, source, f"ftx://{address}/"],
                            env=environment)
    _, status, usage = os.wait4(near.pid, 0)
    near.returncode = os.waitstatus_to_exitcode(status)
    far_kib = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{server.pid}/status").read_text()).group(1))
    server.send_signal(signal.SIGINT)
    server.wait(timeout=SECONDS_MAX)
    expect(near.returncode == 0, f"{what}: ftx ends with {near.returncode}")
    for side, kib in (("near", usage.ru_maxrss), ("far", far_kib)):
        expect(MEMORY_MAX_KIB is None or kib <= MEMORY_MAX_KIB, f"{what}: the {side} side took {kib} KiB")
    return there


def a_million_files(top):
    make_files(top / "from", FILES)
    there = transfer(top, f"{FILES} files", top / "from", "-a") / "from"
    found = sum(len(os.listdir(directory)) for directory in there.iterdir())
    expect(found == FILES, f"{found} of {FILES} files are there")
    wrong = 0
    for number in range(0, FILES, 997):
        directory = f"directory-{number - number % FILES_OF_A_DIRECTORY:07d}"
        expected = str(number) if number % 10 == 0 else ""
        wrong += (there / directory / name_of(number)).read_text() != expected
    expect(wrong == 0, f"{wrong} of those that were looked at differ")


def a_sparse_file(top):
    make_sparse(top / "sparse", SPARSE_BYTES)
    there = transfer(top, "100 GiB of holes", top / "sparse") / "sparse"
    status = there.stat()
    expect(status.st_size == SPARSE_BYTES, f"it has {status.st_size} bytes")
    expect(status.st_blocks * 512 < 4 * EXTENT_BYTES, f"and {status.st_blocks * 512} of them on disk")
    with open(there, "rb") as file:
        for number, at in enumerate(extents(SPARSE_BYTES)):
            file.seek(max(at - 4096, 0))
            before = file.read(at - max(at - 4096, 0))
            data = file.read(EXTENT_BYTES)
            behind = file.read(4096)
            expect(not any(before) and data == bytes([number + 1]) * EXTENT_BYTES and not any(behind),
                   f"the data at {at} is there, and nothing beside it")


for case in (a_million_files, a_sparse_file):
    with tempfile.TemporaryDirectory(prefix="ftx-scale.", dir=place()) as directory:
        case(pathlib.Path(directory))
sys.exit(1 if problems else 0)
