#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/report on the lines of scripts/peers: tables have the medians, quartiles and ratios of the lines, machines stand side by
side, targets follow the numbers, bad input is refused, and what a tool printed cannot become a part of the page."""
import json
import unittest
import xml.etree.ElementTree as ElementTree

from report_case import ROOT, ReportCase, run

MIB = 1 << 20
MACHINE = {"cpu": "a CPU", "kind": "some kind", "kernel": "6.1", "commit": "abc"}
TRANSFER = {"suite": "lan", "link": "veth", "peer": "ftx", "run": 0, "seconds": 2.0, "data_seconds": 1.0, "cpu_seconds": 0.5,
            "bytes": 512 * MIB, "resent": 0, "ok": True, "error": None, "tcp": "cubic", "load": 1.5, "machine": MACHINE}
FLOW = {"suite": "fairness", "link": "rate=100 rtt=40", "case": "ftx-cubic", "peer": "ftx", "run": 0, "seconds": 30.0,
        "bytes": 187500000, "share": 0.5, "of_equal": 1.0, "late_of_equal": 1.1, "ok": True, "error": None, "load": 1.5,
        "machine": MACHINE}
NOTHING = {"seconds": None, "data_seconds": None, "cpu_seconds": None, "resent": None, "ok": False}
CLAIMS = """
[peers.lan]
title = "a <title>"
claim = "what <somebody> asks"
targets = [{ peer = "ftx", value = "data_seconds", of = "cp", at_most = 1.25 }]
"""
FAIR = """
[peers.fairness]
targets = [{ peer = "ftx", case = "ftx-cubic", value = "of_equal", at_least = 0.7, at_most = 1.5 }]
"""


def transfer(peer="ftx", **changes):
    return json.dumps(TRANSFER | {"peer": peer} | changes)


def failed(peer, error, **changes):
    return transfer(peer, **NOTHING | {"error": error} | changes)


def flow(**changes):
    return json.dumps(FLOW | changes)


def rounds(peer, *seconds, **changes):
    """A line a round; its data take half of the time."""
    return [transfer(peer, run=run, seconds=each, data_seconds=each / 2, **changes) for run, each in enumerate(seconds)]


class ReportPeers(ReportCase):
    def report(self, *files, claims=CLAIMS, arguments=()):
        """Runs it on files of these lines: in0.jsonl, in1.jsonl, ..."""
        paths = [self.folder / f"in{number}.jsonl" for number in range(len(files))]
        for path, lines in zip(paths, files):
            path.write_text("".join(line + "\n" for line in lines))
        return self.run_report(claims, *arguments, *paths)

    def sections(self, *files, **options):
        """{id: section element}: the page must be well-formed for that."""
        result = self.report(*files, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.tree = ElementTree.fromstring((self.folder / "r.html").read_text(encoding="utf-8").partition("\n")[2])
        return {each.get("id"): each for each in self.tree.iter("section")}

    def tables(self, section):
        """[[row of texts]] of each table, its heads first."""
        return [[[cell.text or "" for cell in row] for row in table.iter("tr")] for table in section.iter("table")]

    def texts(self, element):
        return "\n".join(element.itertext())

    def test_a_table_has_medians_quartiles_and_ratios_within_rounds(self):
        lines = rounds("cp", 1, 2, 4) + rounds("ftx", 2, 2, 2) + rounds("scp", 3, 4, 10, cpu_seconds=1.5, resent=7)
        lines += rounds("ssh-login", 1, 1, 1, bytes=0)
        section = self.sections(lines)["peers.lan"]
        self.assertEqual(self.tables(section), [[
            ["peer", "ok", "whole, s", "× ftx", "× cp", "data, s", "× ftx", "× cp", "CPU s per GiB", "× ftx", "× cp", "resent"],
            # scp is 3, 2 and 2.5 times cp in the rounds; the ratio of the medians would be 2.
            ["cp", "3/3", "2.00 (1.50–3.00)", "1.00", "1.00", "1.00 (0.75–1.50)", "1.00", "1.00", "1.00 (1.00–1.00)", "1.00", "1.00", "0"],
            ["ftx", "3/3", "2.00 (2.00–2.00)", "1.00", "1.00", "1.00 (1.00–1.00)", "1.00", "1.00", "1.00 (1.00–1.00)", "1.00", "1.00", "0"],
            ["scp", "3/3", "4.00 (3.50–7.00)", "2.00", "2.50", "2.00 (1.75–3.50)", "2.00", "2.50", "3.00 (3.00–3.00)", "3.00", "3.00", "7"],
            ["ssh-login", "3/3", "1.00 (1.00–1.00)", "–", "–", "0.50 (0.50–0.50)", "–", "–", "–", "–", "–", "0"],
        ]])
        self.assertIn("a CPU; some kind; Linux 6.1; commit: abc; load 1.50 (1.50–1.50) when", self.texts(self.tree))
        self.assertNotIn("trial run", self.texts(self.tree))

    def test_links_and_sizes_have_tables_of_their_own(self):
        lines = [transfer(suite="wan", link=link, bytes=size * MIB) for link in ("slow", "lossy") for size in (1, 256)]
        lines += [transfer("ssh-login", suite="wan", link="slow", bytes=0)]
        section = self.sections(lines)["peers.wan"]
        self.assertEqual([head.text for head in section.iter("h3")], ["slow, 1 MiB", "slow, 256 MiB", "lossy, 1 MiB", "lossy, 256 MiB"])
        self.assertEqual([[row[0] for row in table[1:]] for table in self.tables(section)],
                         [["ftx", "ssh-login"], ["ftx", "ssh-login"], ["ftx"], ["ftx"]])
        self.assertIn("A trial run of scripts/peers", self.texts(self.tree))

    def test_log_ins_come_again_with_another_size(self):
        files = [[transfer("ssh-login", bytes=0, seconds=login), transfer(bytes=size * MIB)] for login, size in ((1, 1), (3, 256))]
        section = self.sections(*files)["peers.lan"]
        self.assertEqual([[row[:3] for row in table[1:]] for table in self.tables(section)],
                         [[["ssh-login", "2/2", "2.00 (1.50–2.50)"], ["ftx", "1/1", "2.00"]]] * 2)
        self.assertTrue(all("of 1 rounds" in self.texts(each) for each in section.iter("figcaption")))

    def test_flows_have_their_shares(self):
        lines = [flow(), flow(peer="tcp-cubic", bytes=112500000, share=0.375, of_equal=0.75, late_of_equal=0.5)]
        section = self.sections(lines, claims=FAIR)["peers.fairness"]
        self.assertEqual(self.tables(section), [[
            ["case", "flow", "ok", "Mbit/s", "share", "of equal", "of equal, 2nd half"],
            ["ftx-cubic", "ftx", "1/1", "50.00", "0.50", "1.00", "1.10"],
            ["ftx-cubic", "tcp-cubic", "1/1", "30.00", "0.38", "0.75", "0.50"],
        ]])

    def test_machines_are_side_by_side_and_judged_apart(self):
        here = rounds("cp", 2) + rounds("ftx", 2)
        there = [line.replace("a CPU", "another CPU") for line in rounds("cp", 1) + rounds("ftx", 2)]
        section = self.sections(here, there)["peers.lan"]
        side_by_side = next(each for each in section.iter("div") if each.get("class") == "runs")
        self.assertEqual([each.tag for each in side_by_side], ["figure", "figure"])
        self.assertEqual([self.texts(each).split(":")[0] for each in side_by_side.iter("figcaption")], ["a CPU", "another CPU"])
        said = self.texts(section)
        self.assertIn("The target holds on a CPU; ftx: data, s as a multiple of cp is 1.00, at most 1.25 asked.", said)
        self.assertIn("The target does not hold on another CPU; ftx: data, s as a multiple of cp is 2.00, at most 1.25 asked.", said)
        entry = self.texts(next(self.tree.iter("nav")))
        self.assertIn("1 of 1 targets hold on a CPU", entry)
        self.assertIn("0 of 1 targets hold on another CPU", entry)
        self.assertIn("what <somebody> asks", said)

    def test_machines_with_the_same_cpu_are_told_apart(self):
        other = [line.replace("6.1", "6.2") for line in rounds("ftx", 1)]
        section = self.sections(rounds("ftx", 2), other)["peers.lan"]
        captions = [self.texts(each).split(":")[0] for each in section.iter("figcaption")]
        self.assertEqual(captions, ["a CPU (some kind; Linux 6.1; abc)", "a CPU (some kind; Linux 6.2; abc)"])

    def test_check_follows_the_targets(self):
        for ftx, code, said in ((2.5, 0, "all 1 limits are met"), (2.6, 1, "multiple of cp is 1.30, at most 1.25 asked (on a CPU)")):
            result = self.report(rounds("cp", 2) + rounds("ftx", ftx), arguments=["--check"])
            self.assertEqual(result.returncode, code, result.stdout)
            self.assertIn(said, result.stdout)
        for share, code in ((0.69, 1), (0.7, 0), (1.5, 0), (1.51, 1)):
            result = self.report([flow(of_equal=share)], claims=FAIR, arguments=["--check"])
            self.assertEqual(result.returncode, code, result.stdout)
        result = self.report(rounds("ftx", 2), arguments=["--check"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("not measured", result.stdout)
        # One that fails is no fast one.
        result = self.report(rounds("cp", 2, 2) + rounds("ftx", 1) + [failed("ftx", "lost", run=1)], arguments=["--check"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 of 2 failed", result.stdout)

    def test_targets_keep_to_their_link_size_and_peers(self):
        claims = '[peers.lan]\ntargets = [{ peer = "*", value = "seconds", of = "ftx", mib = 512, at_least = 1.3 }]'
        lines = rounds("cp", 1) + rounds("ftx", 2) + rounds("ftx-insecure", 1) + rounds("scp", 3) + rounds("nc", 1)
        lines += rounds("nc", 1, bytes=MIB) + rounds("ftx", 5, bytes=MIB) + rounds("ssh-login", 1, bytes=0)
        result = self.report(lines, claims=claims, arguments=["--check"])
        self.assertEqual(result.stdout, "missed: peers.lan: nc at 512 MiB: whole, s as a multiple of ftx is 0.50, at least 1.3 asked (on a CPU)\n")
        claims = '[peers.lan]\ntargets = [{ peer = "ftx", value = "seconds", link = "other", at_most = 9 }]'
        result = self.report(lines, claims=claims, arguments=["--check"])
        self.assertIn("ftx in other: whole, s: not measured, at most 9 asked", result.stdout)

    def test_what_failed_has_no_time_and_says_why(self):
        error = 'scp: <script>alert("1")</script>\x00\x1b[31m'
        section = self.sections(rounds("ftx", 2) + [failed("scp", error)])["peers.lan"]
        row = self.tables(section)[0][2]
        self.assertEqual(row, ["scp", "0/1", *["–"] * 7])
        self.assertIn('failed: scp, run 1: scp: <script>alert("1")</script>??[31m', self.texts(section))
        self.assertEqual(list(self.tree.iter("script")), [])

    def test_left_out_cases_are_said(self):
        nothing = {"seconds": None, "bytes": None, "share": None, "of_equal": None, "late_of_equal": None, "ok": False}
        lines = [flow(case="ftx-bbr", peer=peer, **nothing, error="left out: this kernel has no TCP BBR") for peer in ("ftx", "tcp-bbr")]
        section = self.sections(lines)["peers.fairness"]
        self.assertIn("failed: ftx-bbr, tcp-bbr, run 1: left out: this kernel has no TCP BBR", self.texts(section))

    def test_text_of_the_lines_is_text_on_the_page(self):
        attack = '"><img src=x onerror=alert(1)>'
        lines = [transfer(attack, suite=attack, link=attack, tcp=attack, machine={key: attack for key in MACHINE})]
        lines += [flow(case=attack, peer=attack, suite=attack + "2", link=attack)]
        sections = self.sections(lines)
        self.assertEqual(list(sections), [f"peers.{attack}", f"peers.{attack}2"])
        self.assertEqual(list(self.tree.iter("img")), [])

    def test_experiments_and_peers_share_a_page(self):
        experiment = json.dumps({"suite": "s", "figure": "f", "arm": "fused", "size_bytes": 64, "unit": "GB/s", "median": 2.0, "min": 1.0,
                                 "max": 3.0, "repetitions": 7, "machine": "a machine", "cpu": "a CPU", "commit": "abc"})
        sections = self.sections([experiment], rounds("ftx", 2), [flow()])
        self.assertEqual(list(sections), ["s.f", "peers.lan", "peers.fairness"])

    def test_lines_from_before_there_was_a_load_can_be_read(self):
        line = {key: value for key, value in TRANSFER.items() if key != "load"}
        self.assertIn("load unknown", self.texts(self.sections([json.dumps(line)])["peers.lan"]))

    def test_bad_lines_are_refused_with_file_and_line(self):
        missing = {key: value for key, value in TRANSFER.items() if key != "tcp"}
        for bad, complaint in (
            (json.dumps(missing), "no tcp"), (transfer(run=1, extra=1), "unknown extra"), (transfer(run=1, case="c"), "unknown cpu_seconds"),
            (transfer(run=1, seconds="2"), "seconds is not a number"), (transfer(run=1, seconds=True), "seconds is not a number"),
            (transfer(run=1, seconds=0), "not above 0"), (transfer(run=1, seconds=float("nan")), "NaN"),
            (transfer(run=1, seconds=None), "seconds is not a number"), (transfer(run=1, cpu_seconds=-1), "cpu_seconds is not a number"),
            (transfer(run=1, cpu_seconds=None), "cpu_seconds is not a number"), (transfer(run=1, bytes=1.5), "bytes is not a count"),
            (transfer(run=1, resent=0.5), "resent is not a count"), (transfer(run=-1), "run is not a count"),
            (transfer(run=1, load=-1), "load is not a number"), (transfer(run=1, ok=1), "neither true nor false"),
            (transfer(run=1, error="x"), "an error although"), (failed("ftx", None, run=1), "no error although"),
            (failed("ftx", "x", run=1, seconds=1), "seconds of a transfer that failed"), (transfer("", run=1), "peer is not printable"),
            (transfer(run=1, link="a\nb"), "link is not printable"), (transfer(run=1, machine="m"), "machine: not a JSON object"),
            (transfer(run=1, machine={}), "machine: keys: no commit"), (transfer(run=1, machine=MACHINE | {"cpu": 5}), "machine: cpu is not"),
            (flow(share=1.01), "share is not a number from 0 to 1"), (flow(of_equal=2.1), "of_equal"), (flow(case=""), "case is not printable"),
            (flow(late_of_equal=None), "late_of_equal"), (flow(bytes=None), "bytes is not a count"), (transfer(), "there before"),
        ):
            with self.subTest(bad=bad[:80], complaint=complaint):
                self.refused([transfer(), bad], "in0.jsonl:2: ", complaint)
        many = [transfer(machine=MACHINE | {"cpu": f"CPU {number}"}) for number in range(9)]
        self.refused(many, "in0.jsonl:9: more than 8 runs")

    def test_bad_targets_are_refused(self):
        for target, complaint in (
            ('{ peer = "ftx", value = "seconds" }', "at_least, at_most or both"), ('{ value = "seconds", at_most = 1 }', "has a peer"),
            ('{ peer = "ftx", value = "second", at_most = 1 }', "value is one of"), ('{ peer = "ftx", value = "seconds", most = 1 }', "unknown most"),
            ('{ peer = "ftx", value = "seconds", at_most = "1" }', "at_most is not a number"),
        ):
            with self.subTest(target=target):
                self.refused([transfer()], complaint, claims=f"[peers.lan]\ntargets = [{target}]")
        self.refused([transfer()], "unknown limits", claims="[peers.lan]\nlimits = []")

    def test_own_targets_can_be_read(self):
        (self.folder / "in.jsonl").write_text(transfer() + "\n")
        result = run(ROOT / "tools/report", "--out", self.folder / "r.html", self.folder / "in.jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
