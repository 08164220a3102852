#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of one datagram through two stacks over a memory wire, both ends together.

    bench/instructions.py PROGRAM                                   holds the counts to the ceilings below
    bench/instructions.py PROGRAM --bytes N... [--datagrams N]      prints "ARM PATH BYTES INSTRUCTIONS" lines

PROGRAM is a datagram_cost (bench/datagram_cost.cc says what its arms do). The count of one datagram is the difference
of two runs under callgrind, divided by the difference of how many datagrams they move: set-up and checks fall out.

Instructions are counted, not timed. Counts of one program were seen to differ between runs by up to 4 % either way, from a
cause not found yet; the ceilings leave room for that. Valgrind presents one CPU of its own, with AVX2 and without AVX-512, to the kernels and to the C
library: the same code is counted on every x86-64 CPU that has AVX2, with AVX-512 or without. Another compiler has other
counts; the ceilings are those of g++ 12 and the release preset.

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

# Of a datagram of 64 bytes. Whoever makes it cheaper lowers the ceiling to about 3 % above the most of several counts.
#   arm       path        ceiling  goal
CEILINGS = {
    ("batch", "layered"):  (4390, 2500),
    ("batch", "fused"):    (4390, 2500),
    ("single", "layered"): (5390, 3500),
    ("single", "fused"):   (5390, 3500),
}
CEILING_BYTES = 64
SLACK_MAX = 0.15  # counts differ by 8 % between runs; how far below its ceiling a count may be
DATAGRAMS = 1280
DATAGRAMS_FEW = 320  # of the run that is subtracted
COLLECTED = re.compile(r"^==\d+== Collected : (\d+)$", re.MULTILINE)


class NoCount(Exception):
    """Why nothing can be counted."""


def callgrind(out, program, arm, path, size, datagrams):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), arm, path, str(size),
            str(datagrams)]


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
    more = collected(program, arm, path, size, DATAGRAMS_FEW + datagrams)
    return (more - collected(program, arm, path, size, DATAGRAMS_FEW)) / datagrams


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
