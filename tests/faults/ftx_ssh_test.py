#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ftx through a program that stands for ssh, either end, while the calls that start it and those on its pipe fail one by
one: it ends, says why, and what has its final name is whole."""
import os
import shlex
import subprocess
import sys
import tempfile

from faults import NAMES, Wrong, rest_of, try_all

FTX = os.path.join(os.environ["SLUICE_BIN"], "ftx")
SECONDS_MAX = 40
INTERNAL = 1
WITHIN = r"apps/ftx/remote/|pipe_transport|cli/carrier|ftx::(Child|StartPipe|RemoteStart|PipeTransport|PipeCarrier)"
SIZES = (300_000, 5, 0)


def fake_ssh(folder):
    path = os.path.join(folder, "ssh")
    with open(path, "w") as script:
        script.write(f"""#!/bin/sh
unset {" ".join(NAMES)}
for argument; do [ "$argument" = -G ] && {{ echo "hostname 127.0.0.1"; exit 0; }}; done
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
. "$FTX_TEST_SETTINGS"
exec {shlex.quote(FTX)} remote
""")
    os.chmod(path, 0o700)
    return path


def write_settings(path, settings):
    with open(path, "w") as file:
        for name in NAMES:
            if name in settings:
                file.write(f"export {name}={shlex.quote(settings[name])}\n")


def transfer(role, direction, settings, fault, folder, ssh):
    """Pushes or pulls; `settings` are those of the end that fails."""
    with tempfile.TemporaryDirectory(dir=folder) as top:
        source, destination = os.path.join(top, "source"), os.path.join(top, "destination")
        os.mkdir(source)
        os.mkdir(destination)
        for number, size in enumerate(SIZES):
            with open(os.path.join(source, f"file{number}"), "wb") as file:
                file.write(os.urandom(size))
        there = os.path.join(top, "settings")
        write_settings(there, settings if role == "far" else {})
        paths = [os.path.join(source, f"file{number}") for number in range(len(SIZES))]
        operands = [*paths, f"127.0.0.1:{destination}/"] if direction == "push" else [*(f"127.0.0.1:{path}" for path in paths), destination]
        environment = {**(settings if role == "near" else os.environ), "FTX_TEST_SETTINGS": there}
        command = [FTX, "--ssh", ssh, "--via", "pipe", "--connect-timeout", "3", "--idle-timeout", "2", *operands]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        text = rest_of(process, SECONDS_MAX)
        status = process.returncode
        if fault is None and status != 0:
            raise RuntimeError(f"it fails without a fault: {status}: {text}")
        if fault and (status < 0 or status == INTERNAL):
            raise Wrong(f"ended with {status}: {text}")
        if fault and status != 0 and fault.must_not_matter():
            raise Wrong(f"did not go on: {status}: {text}")
        if fault and status != 0 and "ftx:" not in text:
            raise Wrong(f"says nothing: {status}: {text}")
        for path in paths:
            final = os.path.join(destination, os.path.basename(path))
            if os.path.exists(final):
                with open(path, "rb") as one, open(final, "rb") as other:
                    if one.read() != other.read():
                        raise Wrong(f"{final} has its final name and is not what was sent")
            elif status == 0:
                raise Wrong(f"all is said to be well, and {final} is missing: {text}")


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        ssh = fake_ssh(folder)
        for role, direction in (("near", "push"), ("far", "pull"), ("far", "push")):
            def scenario(settings, fault):
                transfer(role, direction, settings, fault, folder, ssh)
            failed += try_all(f"{role}, {direction}", FTX, scenario, os.path.join(folder, role + direction), WITHIN)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
