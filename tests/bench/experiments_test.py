#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/experiments itself, with stand-ins for the suites' programs: arguments, failures, what is left behind."""
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITES = sorted(path.name.removesuffix("_experiments.cc") for path in (ROOT / "bench").glob("*_experiments.cc"))
LINE = {"suite": "ilp", "figure": "f", "arm": "a", "size_bytes": 64, "unit": "ns", "median": 1, "min": 1, "max": 1,
        "repetitions": 7, "machine": "m", "cpu": "c", "commit": "COMMIT"}


class Experiments(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def experiments(self, *arguments):
        return subprocess.run([ROOT / "scripts/experiments", *arguments], capture_output=True, text=True, timeout=60,
                              cwd=self.folder)

    def program(self, suite, body):
        """A stand-in that writes what `body` prints to the file behind --out."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        path = programs / f"{suite}_experiments"
        path.write_text('#!/bin/sh\narguments="$*"\nwhile [ "$1" != --out ]; do shift; done\nexec > "$2"\n' + body)
        path.chmod(0o755)

    def run_suite(self, body, *arguments):
        self.program("ilp", body)
        return self.experiments("--only", "ilp", "--programs", "programs", "--out", "out", *arguments)

    def test_wrong_arguments_are_named(self):
        for arguments, complaint in ((["--only", "no-such"], "no suite 'no-such'; there are: " + " ".join(SUITES)),
                                     (["--only"], "--only wants a value"), (["--only", "*"], "no suite '*'"),
                                     (["--fast"], "unknown argument '--fast'")):
            result = self.experiments(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(complaint, result.stderr)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_lines_and_report_are_where_they_were_asked_for(self):
        result = self.run_suite("echo '" + json.dumps(LINE) + "' | sed s/COMMIT/$SLUICE_COMMIT/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["ilp.jsonl", "report.html"])
        commit = json.loads((self.folder / "out/ilp.jsonl").read_text())["commit"]
        self.assertRegex(commit, r"^[\w.-]+$")
        self.assertIn(f"commit: {commit}", (self.folder / "out/report.html").read_text())

    def test_tiny_reaches_the_program(self):
        self.run_suite("echo \"$arguments\"", "--tiny")
        self.assertTrue((self.folder / "out/ilp.jsonl").read_text().startswith("--tiny --out "))

    def test_failed_suite_fails_the_run_and_leaves_nothing_old(self):
        self.assertEqual(self.run_suite("echo '" + json.dumps(LINE) + "'").returncode, 0)
        result = self.run_suite("exit 3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("failed: ilp", result.stderr)
        self.assertEqual((self.folder / "out/ilp.jsonl").read_text(), "")

    def test_bad_lines_fail_the_run(self):
        result = self.run_suite("echo nonsense")
        self.assertEqual(result.returncode, 2)
        self.assertIn("ilp.jsonl:1: ", result.stderr)

    def test_missing_program_fails_the_run(self):
        result = self.experiments("--only", "ilp", "--programs", "nowhere", "--out", "out")
        self.assertEqual(result.returncode, 1)
        self.assertIn("failed: ilp", result.stderr)


if __name__ == "__main__":
    unittest.main()
