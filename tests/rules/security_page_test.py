#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test that docs/security.md names exists."""
import pathlib
import re
import sys

top = pathlib.Path(__file__).resolve().parents[2]
tests = set()
for source in (top / "tests").rglob("*_test.cc"):
    for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", source.read_text(), re.M):
        tests.add(f"{suite}.{name}")
for source in (top / "tests" / "apps" / "ftx").rglob("*_test.py"):
    tests |= {f"{source.stem}.{name}" for name in re.findall(r"^def (\w+)\(at\)", source.read_text(), re.M)}

page = (top / "docs" / "security.md").read_text()
rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| threat")]
wrong = []
for row in rows:
    named = re.findall(r"`(\w+\.\w+)`", row.split("|")[3])
    if not named:
        wrong.append(f"no test: {row}")
    wrong += [f"no such test: {name}" for name in named if name not in tests]
if len(rows) < 20:
    wrong.append(f"only {len(rows)} rows")
print("\n".join(wrong) or f"{len(rows)} rows, all their tests exist")
sys.exit(1 if wrong else 0)
