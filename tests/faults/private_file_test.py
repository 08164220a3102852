#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Private files (keys, known hosts) while the calls that read and write them fail one by one: a reader sees the file as
it was or all of the new one, no secret is left in a temporary file, and a failure is said."""
import os
import subprocess
import sys
import tempfile

from faults import Wrong, try_all

STEPS = os.path.join(os.environ["SLUICE_BIN"], "..", "tests", "private_file_steps")
SECONDS_MAX = 20
OLD, NEW = "the old secret " * 300, "the new secret " * 400
WITHIN = r"private_file\.cc|private_file\(|ftx::\(anonymous namespace\)::File"


def step(what, settings, fault):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "key")
        if what != "create":
            with open(path, "w") as file:
                file.write(OLD)
            os.chmod(path, 0o600)
        ended = subprocess.run([STEPS, what, path, *([NEW] if what != "read" else [])], env=settings, capture_output=True,
                               text=True, timeout=SECONDS_MAX)
        if ended.returncode not in (0, 2):
            raise Wrong(f"ended with {ended.returncode}: {ended.stderr}")
        if fault is None and ended.returncode != 0:
            raise RuntimeError(f"{what} fails without a fault: {ended.stdout}")
        if fault and fault.must_not_matter() and ended.returncode != 0:
            raise Wrong(f"did not go on: {ended.stdout}")
        if ended.returncode == 2 and "key" not in ended.stdout and folder not in ended.stdout:
            raise Wrong(f"does not say which file: {ended.stdout}")
        if what == "read":
            if ended.returncode == 0 and ended.stdout != OLD + "\n":
                raise Wrong("what it read is not what is there")
            return
        there = open(path).read() if os.path.exists(path) else None
        before = None if what == "create" else OLD
        if there not in (before, NEW):
            raise Wrong(f"half a file: {len(there)} bytes")
        if ended.returncode == 0 and there != NEW:
            raise Wrong("it is said to be written, and is not")
        if there == NEW and os.stat(path).st_mode & 0o777 != 0o600:
            raise Wrong("others may read it")
        left = set(os.listdir(folder)) - {"key"}
        if left and not (fault and fault.function == "unlink"):
            raise Wrong(f"a temporary file is left: {left}")


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for what in ("create", "replace", "read"):
            def scenario(settings, fault):
                step(what, settings, fault)
            failed += try_all(what, STEPS, scenario, os.path.join(folder, what), WITHIN)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
