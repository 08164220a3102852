#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sluice.py host|listener DEVICE NAMESPACE PROGRAM ARGUMENT...
sluice.py bridge DEVICE,OTHER-DEVICE NAMESPACE PROGRAM ARGUMENT...

`sluice run` or `sluice nc` on a link, or `sluice bridge` between two, while its calls to the operating system fail one by one: it goes on and works, or
ends and says why."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "hostile"))

import trial
from faults import NAMES, Wrong, try_all

TARGETS = {"host": trial.Host, "listener": trial.Listener, "bridge": trial.Bridge}
FENCES, TRIES = 3, 3


def works(target):
    """Frames may be lost to a fault; not all of them."""
    for _ in range(FENCES):
        for attempt in range(TRIES):
            try:
                target.begin()
                break
            except RuntimeError:
                if attempt == TRIES - 1 or target.program.process.poll() is not None:
                    raise


def scenario(make, wire, arguments, namespace, settings, fault):
    chosen = ["env"] + [f"{name}={settings[name]}" for name in NAMES if name in settings]
    try:
        target = make(wire, chosen + arguments, namespace)
    except RuntimeError as error:
        if "ended" in str(error) and "sluice: " in str(error) and not fault.must_not_matter():
            return
        raise Wrong(f"it does not start: {error}")
    problem = None
    try:
        works(target)
    except RuntimeError as error:
        problem = error
    status = target.program.end()
    text = (target.said + target.program.text).decode(errors="replace")
    if status < 0:
        raise Wrong(f"it ended with {status}: {problem}: {text}")
    if status != target.INTERRUPTED and (fault.must_not_matter() or "sluice: " not in f"{problem} {text}"):
        raise Wrong(f"it ended with {status} and says: {problem}: {text}")
    if status == target.INTERRUPTED and problem:
        raise Wrong(f"it does not go on, and does not say so: {problem}")


def main():
    what, device, namespace, *arguments = sys.argv[1:]
    wires = [trial.Wire(name) for name in device.split(",")]
    wire = wires if len(wires) > 1 else wires[0]
    with tempfile.TemporaryDirectory() as folder:
        def run(settings, fault):
            trial.SECONDS_MAX = 2 if fault else 10
            scenario(TARGETS[what], wire, arguments, namespace, settings, fault)
        return try_all(what, arguments[0], run, os.path.join(folder, "log")) != 0


if __name__ == "__main__":
    sys.exit(main())
