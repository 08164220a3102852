#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tiny_run.py SUITE PROGRAMS: a tiny run of one experiment suite, from programs that are built, gives what it promises.

CTest runs it for each suite (bench/CMakeLists.txt), where the benchmarks are built; speed is not asked.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITE, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2])
KEYS = ["suite", "figure", "arm", "size_bytes", "unit", "median", "min", "max", "repetitions", "machine", "cpu",
        "commit"]
SVG = "{http://www.w3.org/2000/svg}svg"
ARMS = {("ilp", "throughput"): {"memcpy", "scalar", "layered", "blocked", "fused", "xdr_library", "sum", "swap_copy"},
        ("ilp", "throughput_ratio"): {"fused/memcpy", "fused/layered", "fused/blocked", "memcpy/layered", "slowest_part/memcpy",
                                       "slowest_part/layered"},
        ("stack", "wire"): {"layered", "fused", "planned", "kernel"},
        ("stack", "wire_ratio"): {"fused/layered", "fused/kernel", "kernel/layered", "fixed+kernel/layered", "planned/layered"},
        ("stack", "instructions"): {"batch_layered", "batch_fused", "apart_layered", "apart_fused", "single_layered",
                                    "single_fused"},
        ("stack", "wire_share"): {"layered", "fused"},
        ("dlpi_tli", "loss"): {"half", "nine_tenths"},
        ("dlpi_tli", "loss_control"): {"none", "credit", "window"},
        ("dlpi_tli", "wire_gain"): {"sender_layered", "sender_fused", "receiver_layered", "receiver_fused"},
        ("testbed", "checksum_gain"): {"layered", "fused"},
        ("testbed", "cipher_gain"): {"light", "aes_ctr", "chacha20"},
        ("testbed", "error_free"): {"xtp", "tcp", "kernel_tcp"},
        ("l3", "memory"): {"limit", "frames_layered", "frames_fused", "shared", "tcp", "t_server", "kernel_tcp"},
        ("l3", "memory_ratio"): {"frames_layered/kernel_tcp", "frames_fused/kernel_tcp", "shared/kernel_tcp", "tcp/kernel_tcp",
                                 "t_server/kernel_tcp"},
        ("layering", "order_stall"): {f"{arm} loss={loss}" for arm in ("ftx", "ftx_cubic", "in_order", "tcp") for loss in (0, 1)},
        ("layering", "order_wait"): {"in_order loss=0", "in_order loss=1"},
        ("rmpp", "overlap"): {"rmpp_progress", "rmpp", "utopia_progress", "utopia", "tcp", "udp"},
        ("rmpp", "bandwidth"): {"utopia", "rmpp", "selective", "udp", "tcp"},
        ("rmpp", "wait_bit_errors"): {"rmpp bit_errors=1e-9", "rmpp bit_errors=1e-6", "selective bit_errors=1e-9",
                                      "selective bit_errors=1e-6", "tcp bit_errors=1e-9", "tcp bit_errors=1e-6"}}


class TinyRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = pathlib.Path(folder.name)
        command = [ROOT / "scripts/experiments", "--tiny", "--only", SUITE, "--programs", PROGRAMS, "--out", cls.out]
        cls.result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        if cls.result.returncode != 0:
            raise AssertionError(cls.result.stdout)
        cls.lines = [json.loads(line) for line in (cls.out / f"{SUITE}.jsonl").read_text().splitlines()]

    def test_lines_have_exactly_the_keys_in_order(self):
        self.assertTrue(self.lines)
        for line in self.lines:
            self.assertEqual(list(line), KEYS)
            self.assertEqual(line["suite"], SUITE)
            self.assertLessEqual(line["min"], line["median"])
            self.assertLessEqual(line["median"], line["max"])
            self.assertGreater(line["repetitions"], 0)

    def test_figures_have_their_arms(self):
        arms = {}
        for line in self.lines:
            arms.setdefault((SUITE, line["figure"]), set()).add(line["arm"])
        for figure, expected in ARMS.items():
            if figure[0] == SUITE:
                self.assertEqual(arms[figure], expected)

    def test_every_figure_is_claimed_something_of_and_the_other_way_round(self):
        claims = tomllib.loads((ROOT / "tools/claims.toml").read_text())
        # The figures of a test that skips itself, for what this system lacks, have its name, alone or before a "_".
        skipped = tuple(re.findall(rf"\[  SKIPPED \] {SUITE}\.(\w+)", self.result.stdout))
        missing = {name for name in claims.get(SUITE, {}) if any(name == test or name.startswith(f"{test}_") for test in skipped)}
        self.assertEqual({line["figure"] for line in self.lines} | missing, set(claims.get(SUITE, {})))

    def test_report_has_a_plot_a_verdict_and_a_reason_for_every_figure(self):
        page = ElementTree.fromstring((self.out / "report.html").read_text(encoding="utf-8").partition("\n")[2])
        drawn = {section.get("id") for section in page.iter("section") if any(section.iter(SVG))}
        self.assertEqual(drawn, {f"{SUITE}.{line['figure']}" for line in self.lines})
        for section in page.iter("section"):
            if section.get("id") in drawn:
                texts = ["".join(paragraph.itertext()) for paragraph in section.iter("p")]
                self.assertTrue(any(text.startswith(("The claim ", "The limit ")) for text in texts), section.get("id"))
                self.assertTrue(any(paragraph.get("class") == "why" for paragraph in section.iter("p")), section.get("id"))

    def test_program_refuses_what_it_cannot_use(self):
        program = PROGRAMS / f"{SUITE}_experiments"
        for arguments, complaint in ((["--tiny"], "--out FILE is missing"), (["--out"], "cannot use '--out'"),
                                     (["--out", self.out / "x", "--fast"], "cannot use '--fast'"),
                                     (["--out", self.out / "no/such/folder"], "cannot write")):
            result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(complaint, result.stderr)


unittest.main(argv=sys.argv[:1])
