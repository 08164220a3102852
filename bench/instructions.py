#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of one datagram through two stacks over a memory wire, both ends together.

    bench/instructions.py PROGRAM                                   holds the counts to the ceilings below
    bench/instructions.py PROGRAM --bytes N... [--datagrams N]      prints "ARM PATH BYTES INSTRUCTIONS" lines

PROGRAM is a datagram_cost (bench/datagram_cost.cc says what its arms do). Callgrind counts only while the datagrams
move: start-up, of which libhwy's measures the clock and so is never twice alike, set-up and checks are left out.

Instructions are counted, not timed: another run, a busy machine or another clock gives the same number, so ctest can
hold it to a ceiling. Valgrind presents one CPU of its own, with AVX2 and without AVX-512, to the kernels and to the C
library. Another compiler has other counts; the ceilings are those of g++ 12 and the release preset.

Exit status: 0; 1 when a count is above its ceiling, or so far below that the ceiling says nothing any more; 2 when
nothing can be counted.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys

# Of a datagram of 64 bytes. A ceiling is lowered with each gain: to about 3 % above the new count, or to the goal.
#   arm       path        ceiling  goal
CEILINGS = {
    ("batch", "layered"):  (705, 2500),
    ("batch", "fused"):    (705, 2500),
    ("apart", "layered"):  (2420, 2500),
    ("apart", "fused"):    (2420, 2500),
    ("single", "layered"): (3500, 3500),
    ("single", "fused"):   (3500, 3500),
}
CEILING_BYTES = 64
SLACK_MAX = 0.10  # how far below its ceiling a count may be
DATAGRAMS = 1280
COUNTED = "datagram_cost_counted"  # the function of PROGRAM that moves them; all else is left out
COLLECTED = re.compile(r"^==\d+== Collected : (\d+)$", re.MULTILINE)


class NoCount(Exception):
    """Why nothing can be counted."""


def callgrind(out, program, arm, path, size, datagrams):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
            f"--toggle-collect={COUNTED}", str(program), arm, path, str(size), str(datagrams)]


def collected(*run):
    command = callgrind("/dev/null", *run)
    # The length of the environment moves the stack, and with it what is aligned by chance.
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NoCount(f"{shlex.join(command)}: {problem}") from None
    found = COLLECTED.search(result.stderr)
    if result.returncode != 0 or not found:
        raise NoCount(f"{shlex.join(command)}: exit status {result.returncode}\n{result.stderr}")
    return int(found[1])


def instructions(program, arm, path, size, datagrams=DATAGRAMS):
    return collected(program, arm, path, size, datagrams) / datagrams


def check(program):
    bad = []
    for (arm, path), (ceiling, goal) in CEILINGS.items():
        count = instructions(program, arm, path, CEILING_BYTES)
        text = f"{arm}, {path}: {count:.0f} instructions a datagram of {CEILING_BYTES} bytes"
        print(f"{text}; ceiling {ceiling}, goal {goal}", flush=True)
        if count > ceiling:
            run = callgrind("callgrind.out", program, arm, path, CEILING_BYTES, 20000 // 32 * 32)
            bad.append(f"{text} exceed the ceiling of {ceiling}. Where they go:\n    {shlex.join(run)}\n"
                       "    callgrind_annotate --auto=no callgrind.out")
        elif count < (1 - SLACK_MAX) * ceiling:
            bad.append(f"{text} are more than {SLACK_MAX:.0%} below the ceiling of {ceiling}: lower it, in "
                       f"bench/{pathlib.Path(__file__).name}, to {count * 1.03:.0f}")
    print("\n".join(bad), file=sys.stderr)
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, metavar="PROGRAM", help="a datagram_cost")
    parser.add_argument("--bytes", type=int, nargs="+", help="print the counts at these sizes; hold them to nothing")
    parser.add_argument("--datagrams", type=int, default=DATAGRAMS,
                        help=f"of one count, a multiple of 32 ({DATAGRAMS})")
    arguments = parser.parse_args()
    try:
        if arguments.bytes is None:
            return check(arguments.program)
        for arm, path in CEILINGS:
            for size in arguments.bytes:
                count = instructions(arguments.program, arm, path, size, arguments.datagrams)
                print(f"{arm} {path} {size} {count:.1f}", flush=True)
    except NoCount as problem:
        print(f"instructions.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
