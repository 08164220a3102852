# SPDX-License-Identifier: Apache-2.0
"""What tests of tools/report have in common: a folder, runs of the tool that write r.html there, and what it refuses."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


class ReportCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_report(self, claims, *arguments):
        (self.folder / "claims.toml").write_text(claims)
        command = [ROOT / "tools/report", "--claims", self.folder / "claims.toml", "--out", self.folder / "r.html"]
        return run(*command, *arguments)

    def refused(self, lines, *texts, **options):
        """The derived class says how lines are reported."""
        result = self.report(lines, **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse((self.folder / "r.html").exists())
        for text in texts:
            self.assertIn(text, result.stderr)
