#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/instructions.py, with a stand-in for valgrind: what it subtracts, and which counts it refuses."""
import importlib.util
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "bench/instructions.py"
SPEC = importlib.util.spec_from_file_location("instructions", TOOL)
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)
# Says that a run took for each datagram what is in the file ARM_PATH beside it.
VALGRIND = """#!/bin/sh
each=$(cat "$(dirname "$0")/$6_$7") || exit 1
echo "==1== Collected : $(($9 * each))" >&2
"""


class Instructions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        valgrind = self.folder / "valgrind"
        valgrind.write_text(VALGRIND)
        valgrind.chmod(0o755)

    def run_with(self, share, *arguments):
        """Runs the tool where every datagram takes `share` of its ceiling."""
        for (arm, path), (ceiling, _) in MODULE.CEILINGS.items():
            (self.folder / f"{arm}_{path}").write_text(str(round(share * ceiling)))
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run([TOOL, "a_program", *arguments], capture_output=True, text=True, timeout=60,
                              env=environment)

    def test_counts_just_below_their_ceilings_pass(self):
        for share in (0.91, 1.0):
            result = self.run_with(share)
            self.assertEqual(result.returncode, 0, result.stderr)
            for ceiling, goal in MODULE.CEILINGS.values():
                self.assertIn(f"{round(share * ceiling)} instructions a datagram of 64 bytes; ceiling {ceiling}, "
                              f"goal {goal}", result.stdout)

    def test_count_above_its_ceiling_fails_and_says_how_to_look(self):
        result = self.run_with(1.01)
        self.assertEqual(result.returncode, 1)
        for arm, path in MODULE.CEILINGS:
            self.assertIn(f"{arm}, {path}: ", result.stderr)
            self.assertIn("valgrind --tool=callgrind --callgrind-out-file=callgrind.out --collect-atstart=no "
                          f"--toggle-collect=datagram_cost_counted a_program {arm} {path} 64",
                          result.stderr)
        self.assertIn("callgrind_annotate", result.stderr)

    def test_ceiling_far_above_the_count_is_to_be_lowered(self):
        result = self.run_with(0.8)
        self.assertEqual(result.returncode, 1)
        self.assertIn("more than 10% below the ceiling", result.stderr)
        self.assertIn("lower it", result.stderr)

    def test_prints_what_one_datagram_takes(self):
        result = self.run_with(2, "--bytes", "64", "1400", "--datagrams", "32")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines(),
                         [f"{arm} {path} {size} {2 * ceiling:.1f}"
                          for (arm, path), (ceiling, _) in MODULE.CEILINGS.items() for size in (64, 1400)])

    def test_nothing_counted_is_no_count(self):
        (self.folder / "valgrind").write_text("#!/bin/sh\necho 'no such program' >&2\nexit 1\n")
        result = self.run_with(1.0)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no such program", result.stderr)


if __name__ == "__main__":
    unittest.main()
