#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/report: every figure is on the page, the page is well-formed and inert, verdicts follow the numbers, bad input
is refused."""
import json
import tomllib
import unittest
import xml.etree.ElementTree as ElementTree

from report_case import ROOT, ReportCase, run

SVG = "{http://www.w3.org/2000/svg}"
LINE = {"suite": "s", "figure": "f", "arm": "fused", "size_bytes": 64, "unit": "GB/s", "median": 2.0, "min": 1.0,
        "max": 3.0, "repetitions": 7, "machine": "a machine", "cpu": "a CPU", "commit": "abc"}
CLAIMS = """
[s.f]
title = "a title"
claim = "what <somebody> said"
limits = [{ arm = "fused", size_bytes = 64, at_least = 1.5 }]
[s.g]
expect = [{ arm = "fused", reference = "layered", at_least = 2 }]
"""


def line(**changes):
    return json.dumps(LINE | changes)


class Report(ReportCase):
    def report(self, lines, *arguments, claims=CLAIMS):
        """Runs it; `lines` are texts or, for one file as it is, bytes."""
        data = lines if isinstance(lines, bytes) else "".join(text + "\n" for text in lines).encode()
        (self.folder / "in.jsonl").write_bytes(data)
        return self.run_report(claims, *arguments, self.folder / "in.jsonl")

    def page(self, lines, **options):
        result = self.report(lines, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.folder / "r.html").read_text(encoding="utf-8")

    def sections(self, lines, **options):
        """{id: section element}: the page must be well-formed for that."""
        text = self.page(lines, **options).partition("\n")[2]
        return {each.get("id"): each for each in ElementTree.fromstring(text).iter("section")}

    def test_every_figure_has_a_plot_with_its_points_and_a_table(self):
        lines = [line(), line(size_bytes=1448, median=2.5), line(arm="layered", median=1.5)]
        lines += [line(figure="g", unit="ns", arm=f"{arm} stages={n}", median=1 + n / 10)
                  for arm in ("fused", "layered") for n in range(4)]
        sections = self.sections(lines)
        self.assertEqual(set(sections), {"s.f", "s.g"})
        for name, points, curves in (("s.f", 3, 2), ("s.g", 8, 2)):
            drawing = next(sections[name].iter(SVG + "svg"))
            self.assertEqual(len(list(drawing.iter(SVG + "circle"))), points)
            self.assertEqual(len(list(drawing.iter(SVG + "polyline"))), curves)
            self.assertEqual(len(list(drawing.iter(SVG + "polygon"))), curves)
            for circle in drawing.iter(SVG + "circle"):
                self.assertTrue(0 <= float(circle.get("cx")) <= 680 and 0 <= float(circle.get("cy")) <= 340)
        self.assertEqual([cell.text for cell in sections["s.g"].iter("th")], ["size", "stages", "fused", "layered"])

    def test_contents_lead_to_every_figure_and_say_how_it_stands(self):
        tree = ElementTree.fromstring(self.page([line(), line(figure="g")]).partition("\n")[2])
        entries = next(tree.iter("nav")).iter("li")
        entries = {entry.find("a").get("href"): "".join(entry.itertext()) for entry in entries}
        self.assertEqual(entries, {"#s.f": "s: a title the limit holds (1 of 1 sizes)",
                                   "#s.g": "s: g the claim was not measured"})
        self.assertLessEqual({href[1:] for href in entries}, {each.get("id") for each in tree.iter("section")})

    def test_larger_is_higher_and_further_right(self):
        drawing = next(self.sections([line(), line(size_bytes=128, median=2.5)])["s.f"].iter(SVG + "svg"))
        low, high = ((float(dot.get("cx")), float(dot.get("cy"))) for dot in drawing.iter(SVG + "circle"))
        self.assertGreater(high[0], low[0])
        self.assertLess(high[1], low[1])

    def test_one_point_zeros_and_log_scales_can_be_drawn(self):
        claims = '[s.f]\ny_scale = "log"\nx_scale = "log"\n'
        for changes in ({}, {"size_bytes": 0}, {"min": 0}, {"min": 0, "median": 0, "max": 0},
                        {"median": 1e15, "max": 1e15}):
            self.sections([line(**changes)], claims=claims)

    def test_verdict_follows_the_median(self):
        good = self.page([line()])
        self.assertIn("The limit holds (1 of 1 sizes) on a CPU; closest: fused at 64 B is 2.00 (1.00–3.00), at", good)
        bad = self.page([line(median=1.25)])
        self.assertIn("The limit does not hold (0 of 1 sizes) on a CPU; fused at 64 B is 1.25 (1.00–3.00), at least "
                      "1.50 asked.", bad)
        self.assertIn("what &lt;somebody&gt; said", bad)

    def test_reference_compares_arms_at_the_same_size_and_parameter(self):
        lines = [line(figure="g", arm="fused n=1"), line(figure="g", arm="layered n=1", median=1),
                 line(figure="g", arm="fused n=2"), line(figure="g", arm="layered n=2", median=1.6)]
        text = self.page(lines)
        self.assertIn("The claim holds in part (1 of 2 points) on a CPU; fused n=2 at 64 B is 1.25 of layered, at "
                      "least 2.00 asked.", text)

    def test_a_claim_holds_in_part_at_k_of_n_sizes(self):
        claims = '[s.f]\nlimits = [{ arm = "fused", at_least = 1.5 }, { arm = "fused", size_bytes = 8, at_least = 3 }]'
        text = self.page([line(size_bytes=size, median=median) for size, median in ((8, 2), (16, 1.75), (32, 1.25))],
                         claims=claims)
        # At 8 bytes one condition holds and the other does not.
        self.assertIn("The limit holds in part (1 of 3 sizes) on a CPU; fused at 8 B is 2.00 (1.00–3.00), at least "
                      "3.00 asked; fused at 32 B is 1.25", text)
        self.assertIn('class="part">the limit holds in part (1 of 3 sizes)<', text)

    def test_a_limit_beyond_a_bound_is_stated_against_the_bound(self):
        claims = '[s.f]\nlimits = [{ arm = "fused", at_least = 2, bound = "memcpy", of_bound = 0.9 }]'
        for bound, median, holds, said in (
            (2.0, 1.85, True, "at least 1.80 asked: 0.9 of memcpy, which is 2.00; 2.00 is beyond that bound"),
            (2.0, 1.75, False, "at least 1.80 asked: 0.9 of memcpy, which is 2.00; 2.00 is beyond that bound"),
            (3.0, 1.85, False, "at least 2.00 asked"), (None, 1.85, False, "at least 2.00 asked"),
        ):
            with self.subTest(bound=bound, median=median):
                lines = [line(median=median)] + ([line(arm="memcpy", median=bound)] if bound else [])
                result = self.report(lines, "--check", claims=claims)
                self.assertEqual(result.returncode, 0 if holds else 1, result.stdout)
                self.assertIn(said + ("." if holds else ""), self.page(lines, claims=claims))

    def test_runs_of_several_machines_are_side_by_side(self):
        lines = [line(), line(cpu="another CPU", median=1.25), line(figure="g", cpu="another CPU")]
        sections = self.sections(lines)
        captions = [each.text for each in sections["s.f"].iter("figcaption")]
        self.assertEqual(captions, ["a CPU", "another CPU"])
        self.assertEqual(len([each for each in sections["s.f"].iter("table")]), 2)
        sentences = ["".join(each.itertext()) for each in sections["s.f"].iter("p")]
        for start in ("The limit holds (1 of 1 sizes) on a CPU", "The limit does not hold (0 of 1 sizes) on another CPU"):
            self.assertTrue(any(text.startswith(start) for text in sentences), start)
        checked = self.report(lines, "--check")
        self.assertEqual(checked.stdout, "missed: s.f: fused at 64 B is 1.25 (1.00–3.00), at least 1.50 asked (on "
                                         "another CPU)\n")

    def test_the_same_cpu_twice_is_told_apart_by_machine_and_commit(self):
        text = self.page([line(), line(commit="def")])
        for commit in ("abc", "def"):
            self.assertIn(f"<figcaption>a CPU (a machine; {commit})</figcaption>", text)

    def test_lines_without_cpu_name_the_machine(self):
        old = {key: value for key, value in LINE.items() if key != "cpu"}
        self.assertIn("(1 of 1 sizes) on a machine;", self.page([json.dumps(old)]))

    def test_svg_stands_alone_with_a_panel_and_a_caption_for_each_run(self):
        arms = ("fused", "lay&ered", "memcpy")
        lines = [line(size_bytes=size, arm=arm, cpu=cpu) for size in (64, 128) for arm in arms
                 for cpu in ("a CPU", "<another>")]
        result = self.report(lines, "--svg", "s.f", "--arm", "fused", "--arm", "lay&ered")
        self.assertEqual(result.returncode, 0, result.stderr)
        drawing = ElementTree.fromstring((self.folder / "r.html").read_text(encoding="utf-8"))
        panels = drawing.findall(SVG + "g")
        self.assertEqual(len(panels), 2)
        for panel, cpu in zip(panels, ("a CPU", "<another>")):
            texts = [each.text for each in panel.iter(SVG + "text")]
            self.assertIn("GB/s", texts)
            self.assertIn("message size", texts)
            self.assertEqual([text for text in texts if text in ("fused", "lay&ered", "memcpy")], ["fused", "lay&ered"])
            self.assertTrue(texts[-1].startswith(cpu + "; medians of 7 rounds"), texts[-1])
            self.assertEqual(len([each for each in panel.iter(SVG + "circle")]), 4)
        self.assertIn("prefers-color-scheme: dark", drawing.find(SVG + "style").text)

    def test_svg_of_what_was_not_measured_is_refused(self):
        self.refused_with(["--svg", "s.none"], "s.none: not measured")
        self.refused_with(["--svg", "s.f", "--arm", "none"], "--arm none: not measured in s.f")

    def refused_with(self, arguments, text):
        result = self.report([line()], *arguments)
        self.assertEqual(result.returncode, 2)
        self.assertIn(text, result.stderr)
        self.assertFalse((self.folder / "r.html").exists())

    def test_check_fails_on_a_missed_limit_and_on_one_not_measured(self):
        met = self.report([line()], "--check")
        self.assertEqual((met.returncode, met.stdout), (0, "all 1 limits are met\n"))
        missed = self.report([line(median=1.25)], "--check")
        self.assertEqual(missed.returncode, 1)
        self.assertEqual(missed.stdout, "missed: s.f: fused at 64 B is 1.25 (1.00–3.00), at least 1.50 asked (on a "
                                        "CPU)\n")
        absent = self.report([line(size_bytes=128)], "--check")
        self.assertEqual(absent.returncode, 1)
        self.assertIn("fused at 64 B at least 1.5: not measured", absent.stdout)

    def test_the_worst_is_told_first(self):
        claims = '[s.f]\nlimits = [{ arm = "fused", at_least = 2.5 }]'
        lines = [line(size_bytes=size, median=median) for size, median in ((1, 2), (2, 1), (3, 3), (4, 1.5))]
        result = self.report(lines, "--check", claims=claims)
        self.assertEqual([text.split()[4] for text in result.stdout.splitlines()], ["2", "4", "1"])

    def test_what_was_claimed_and_not_measured_is_on_the_page(self):
        self.assertIn("Not measured.", "".join(self.sections([line()])["s.g"].itertext()))

    def test_trial_run_says_so(self):
        self.assertIn("A trial run", self.page([line(repetitions=2)]))
        self.assertNotIn("A trial run", self.page([line()]))
        counted = line(figure="counted", unit="instructions", repetitions=1)
        self.assertNotIn("A trial run", self.page([line(), counted]))

    def test_page_is_inert_whatever_the_names_say(self):
        attack = "\"'><script>alert(1)</script>&<svg onload=x>"
        # What follows a space in an arm is its parameter, so an arm has the attack without spaces.
        text = self.page([line(**dict.fromkeys(("suite", "figure", "unit", "machine", "cpu", "commit"), attack),
                               arm=attack.replace(" ", "/"))])
        tree = ElementTree.fromstring(text.partition("\n")[2])
        self.assertEqual([each for each in tree.iter() if each.tag.endswith("script")], [])
        self.assertEqual([each.tag for each in tree.iter() for key in each.keys() if key.startswith("on")], [])
        self.assertNotIn("<script", text)
        self.assertIn("default-src 'none'", text)

    def test_page_needs_no_network(self):
        tree = ElementTree.fromstring(self.page([line()]).partition("\n")[2])
        for each in tree.iter():
            self.assertNotIn(each.tag, ("link", "img", "script", "iframe"))
            self.assertIsNone(each.get("src"))
            self.assertTrue(each.get("href", "#").startswith("#"))

    def test_bad_lines_are_refused_with_file_and_line(self):
        missing = {key: value for key, value in LINE.items() if key != "unit"}
        for bad, complaint in (
            ("", "Expecting"), ("{", "Expecting"), ("[1]", "not a JSON object"), ("[" * 5000, "nested too deep"),
            (json.dumps(missing), "no unit"), (line(extra=1), "unknown extra"), (line(median="2"), "median"),
            (line(median=True), "median"), (line(median=1e30, max=1e30), "median"), (line(median=float("nan")), "NaN"),
            (line(max=float("inf")), "Infinity"), (line(median=9), "not between"), (line(size_bytes=1.5), "size_bytes"),
            (line(size_bytes=-1), "size_bytes"), ('{"median": 1' + "0" * 5000 + "}", "Exceeds the limit"),
            (line(repetitions=0), "no repetitions"), (line(arm=""), "arm"), (line(arm="a\nb"), "arm"),
            (line(arm="fused stages"), "parameter"), (line(arm="fused stages=nan"), "parameter"),
            (line(arm="fused =1"), "parameter"), (line(arm="fused stages=many"), "parameter"), (line(), "there before"),
            (line(arm="other", unit="ns"), "unit"), (line(arm="other n=3"), "one x axis"),
            (line(commit="x" * 20_000), "longer than"),
        ):
            with self.subTest(bad=bad[:60]):
                self.refused([line(), bad], "in.jsonl:2: ", complaint)

    def test_bad_files_are_refused(self):
        self.refused(b"", "no lines")
        self.refused(b"\xff\xfe\n", "in.jsonl:1: ")
        absent = run(ROOT / "tools/report", self.folder / "absent")
        self.assertEqual(absent.returncode, 2)
        self.assertIn("absent: No such file", absent.stderr)

    def test_bad_claims_are_refused(self):
        for claims, complaint in (("[s.f]\nlimit = 1", "unknown limit"), ("[s.f", "claims.toml"),
                                  ('[s.f]\nlimits = [{arm = "a"}]', "at_least or at_most"),
                                  ('[s.f]\nlimits = [{arm = "a", at_leats = 1}]', "unknown at_leats"),
                                  ('[s.f]\nlimits = [{arm = "a", at_least = 1, bound = "b"}]', "bound and of_bound"),
                                  ('[s.f]\nlimits = [{arm = "a", at_most = 1, bound = "b", of_bound = 1}]',
                                   "at_least")):
            self.refused([line()], complaint, claims=claims)

    def test_values_of_the_document_are_drawn_and_listed_beside_ours(self):
        claims = ('[s.f]\nwhy = "since <it> is so"\n'
                  'document = [{ arm = "fused", at = [[64, 2.5], [128, 900]] }, { arm = "layered", band = [1, 1.5], from = 64 }]\n')
        lines = [line(), line(size_bytes=4096), line(arm="layered", median=1.25), line(arm="layered", size_bytes=4096)]
        section = self.sections(lines, claims=claims)["s.f"]
        self.assertIn("since <it> is so", "".join(section.itertext()))
        table = next(each for each in section.iter("table") if each.get("class") == "document")
        rows = [[cell.text or "" for cell in row] for row in table.iter("tr")]
        self.assertEqual(rows[1:], [["fused", "64 B", "2.50", "2.00"], ["fused", "128 B", "900", "not measured"],
                                    ["layered", "from 64 B", "1.00–1.50", "1.25–2.00"]])
        marks = [each for each in section.iter() if (each.get("class") or "").startswith("said c")]
        self.assertEqual(len([each for each in marks if each.tag.endswith("polyline")]), 2, "both edges of the band")
        self.assertEqual(len([each for each in marks if each.tag.endswith("rect")]), 0, "900 would flatten ours")
        section = self.sections(lines, claims=claims.replace("900", "3"))["s.f"]
        heights = [float(each.get("y")) for each in section.iter(f"{SVG}rect") if each.get("class") == "said c0"]
        self.assertEqual(len(heights), 2)
        self.assertLess(heights[1], heights[0], "3 is above 2.5")

    def test_what_no_document_can_say_is_refused(self):
        for said in ("{ arm = 'a' }", "{ arm = 'a', at = [[1]] }", "{ arm = 'a', at = [[1, -2]] }", "{ at = [[1, 2]] }",
                     "{ arm = 'a', band = [1, 2], at = [[1, 2]] }", "{ arm = 'a', band = [1, 2], form = 1 }", "1"):
            self.refused([line()], "what a document says", claims=f"[s.f]\ndocument = [{said}]\n")

    def test_every_figure_of_the_suites_says_what_is_claimed_how_it_is_judged_and_why(self):
        claims = tomllib.loads((ROOT / "tools/claims.toml").read_text())
        suites = {path.name.removesuffix("_experiments.cc") for path in (ROOT / "bench").glob("*_experiments.cc")}
        self.assertEqual(set(claims) - {"peers"}, suites)
        for suite in suites:
            for name, claim in claims[suite].items():
                with self.subTest(figure=f"{suite}.{name}"):
                    for key in ("title", "claim", "why"):
                        self.assertTrue(claim.get(key, "").strip(), key)
                    for key in ("claim", "why"):
                        self.assertRegex(claim[key], r"[.)]$")
                    self.assertTrue(claim.get("limits") or claim.get("expect"), "nothing that could hold or not")

    def test_own_claims_can_be_read(self):
        (self.folder / "in.jsonl").write_text(line() + "\n")
        result = run(ROOT / "tools/report", "--check", self.folder / "in.jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
