#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries the installed package: a tree to a server in this process and back, over loopback."""
import os
import queue
import tempfile
import threading

import ftx


def expect(what, holds):
    if not holds:
        raise SystemExit(f"try_ftx: {what}: no")


def serve(folder, secret, told):
    server = ftx.Job(ftx.JobKind.SERVE)
    server.set("listen", "127.0.0.1").set("port", 0).set("secret-file", secret).add(folder).on_event(told.put)
    thread = threading.Thread(target=lambda: run(server))
    thread.start()
    return server, thread


def run(server):
    try:
        server.run()
    except ftx.Error as error:
        expect("a stopped server says so", error.code == 130)


def refused(function, kind):
    try:
        function()
    except kind as error:
        return error
    raise SystemExit(f"try_ftx: no {kind.__name__} was raised")


def main():
    with tempfile.TemporaryDirectory() as top:
        source, served, back, secret = (os.path.join(top, name) for name in ("source", "served", "back", "secret"))
        for folder in (source, served, back):
            os.mkdir(folder)
        content = os.urandom(1_000_000)
        with open(os.path.join(source, "datä"), "wb") as file:
            file.write(content)
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(os.urandom(32).hex())
        told = queue.Queue()
        server, thread = serve(served, secret, told)
        try:
            listening = told.get(timeout=30)
            expect("it listens first", listening.kind is ftx.EventKind.LISTENING)
            url = f"ftx://{listening.path}/"
            events = []
            ftx.transfer(source, url, archive=True, secret_file=secret, on_event=events.append)
            expect("the last event", events[-1].kind is ftx.EventKind.DONE and events[-1].bytes == len(content))
            expect("its details", events[-1].details["event"] == "done")
            ftx.transfer([url + "source"], back + "/", archive=True, secret_file=secret, exclude=["*.no", "*.never"])
            with open(os.path.join(back, "source", "datä"), "rb") as file:
                expect("the content", file.read() == content)
            error = refused(lambda: ftx.transfer(os.path.join(top, "none"), url, secret_file=secret), ftx.Error)
            expect("the error", error.code == 5 and "none" in error.text)
            refused(lambda: ftx.Job().set("no-such"), ValueError)

            def raises(_event):
                raise KeyError("mine")
            refused(lambda: ftx.transfer(source, url, archive=True, secret_file=secret, ignore_times=True,
                                         on_event=raises), KeyError)
        finally:
            server.stop()
            thread.join()
    print(f"try_ftx: all of it worked, with libftx {ftx.version()}")


if __name__ == "__main__":
    main()
