# SPDX-License-Identifier: Apache-2.0
"""ftx as tests run it on loopback: a folder `top` with what is served, a secret, and configuration of its own; a server
of that folder, and a program that stands for ssh, behind which it is home."""
import os
import pathlib
import shlex
import subprocess

FTX = pathlib.Path(os.environ["SLUICE_BIN"]) / "ftx"
SECONDS_MAX = 60
failed = []


def expect(what, holds, more=""):
    print(f"{'ok' if holds else 'FAILED'}: {what}{'' if holds else f': {more}'}", flush=True)
    if not holds:
        failed.append(what)


def prepare(top):
    for name in ("served", "config", "home", "here"):
        (top / name).mkdir()
    (top / "secret").write_text(os.urandom(32).hex())
    (top / "secret").chmod(0o600)


def environment(top):
    return {**os.environ, "XDG_CONFIG_HOME": str(top / "config"), "HOME": str(top / "home")}


def ftx(top, *arguments, **more):
    return subprocess.run([FTX, *map(str, arguments)], capture_output=True, timeout=SECONDS_MAX, env=environment(top), **more)


def serve(top, *options):
    """A server, and its URL."""
    server = subprocess.Popen([FTX, "serve", top / "served", "--listen", "127.0.0.1", "--port", "0", "--secret-file", top / "secret",
                               *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(top))
    line = server.stdout.readline()
    return server, f"ftx://{line.split('on ', 1)[1].split(',')[0].strip()}/"


def stop(server):
    server.terminate()
    server.wait(SECONDS_MAX)
    server.stdout.close()


def fake_ssh(top):
    script = top / "ssh"
    script.write_text(f"""#!/bin/sh
for argument; do [ "$argument" = -G ] && {{ echo "hostname 127.0.0.1"; exit 0; }}; done
export HOME={shlex.quote(str(top / "served"))} SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
exec {shlex.quote(str(FTX))} remote
""")
    script.chmod(0o700)
    return script
