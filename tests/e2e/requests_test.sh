#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/requests at a tiny size: every arm answers every request, lines and table agree, and nothing outlives it.
source "$(dirname "$0")/common.sh"
requests() { timeout 120 "$TOP/scripts/requests" "$@"; }

expect "it runs" requests --rounds 2 --requests 200 --clients 5 --pipeline 1,4 --json lines.jsonl > table.out
cat > check.py <<'PYTHON'
import json, statistics
lines = [json.loads(text) for text in open("lines.jsonl")]
keys = {"round", "arm", "pipeline", "clients", "requests", "seconds", "per_second", "cpu_us"}
assert all(set(line) == keys and line["per_second"] > 0 and line["seconds"] > 0 and line["cpu_us"] >= 0 for line in lines), lines
order = [(line["round"], line["pipeline"], line["arm"]) for line in lines]
assert order == [(turn, pipeline, arm) for turn, arms in enumerate((("ours", "loopback", "veth"), ("loopback", "veth", "ours")))
                 for pipeline in (1, 4) for arm in arms], order
assert all(line["requests"] == 200 * line["pipeline"] and line["clients"] == 5 for line in lines), lines
rows = [[cell.strip() for cell in text.split("|")] for text in open("table.out") if text.count("|") >= 3]
def of(pipeline, arm):
    return [line["per_second"] for line in lines if (line["pipeline"], line["arm"]) == (pipeline, arm)]
for pipeline, arm, told, _, ratio in rows[1:]:
    values = of(int(pipeline), arm)
    assert told == f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})", (told, values)
    if arm != "ours":
        ratios = [one / other for one, other in zip(of(int(pipeline), "ours"), values)]
        assert ratio.startswith(f"{statistics.median(ratios):.2f} "), (ratio, ratios)
assert len(rows) == 7, rows
PYTHON
expect "lines and table agree" python3 check.py
expect "one arm alone, by the block" requests --arms ours --ring block --rounds 1 --requests 100 --clients 2 --pipeline 1 --json one.jsonl > one.out
expect "which is one line" [ "$(wc -l < one.jsonl)" = 1 ]
expect_exit 2 "an arm that is not there" requests --arms theirs
expect_exit 2 "a number that is none" requests --rounds 0
SLUICE_BIN=$DIR expect_exit 1 "no programs" requests
for program in sluice redis-server redis-benchmark; do
  expect "no $program is left" bash -c "! pgrep -x $program"
done
