# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/formats/ftx-json.md as a schema."""
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/formats/ftx-json.md"
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
ROW = re.compile(r"^\| `(\w+)` \| (string|integer|number|boolean)(, optional)? \| (bytes|seconds|) ?\| .+ \|$")


def tables():
    """Per event its members: name to (type, optional). None: the members of every event."""
    found, members = {}, None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            members = found.setdefault(None if line == "## Every event" else line[3:].strip("`"), {})
        elif line.startswith("| `"):
            row = ROW.match(line)
            assert row, f"{PAGE.name}: not a row of a table: {line}"
            members[row.group(1)] = (row.group(2), bool(row.group(3)))
    return found


def violations(event, schema):
    """What is wrong with one event."""
    name = event.get("event")
    if name is None or name not in schema:
        return [f"{name!r} is no event"]
    members = {**schema[None], **schema[name]}
    wrong = [f"{name}: {key} is not in the table" for key in event if key not in members]
    for key, (kind, optional) in members.items():
        value = event.get(key)
        if key not in event:
            wrong += [] if optional else [f"{name}: {key} is missing"]
        elif not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
            wrong.append(f"{name}: {key} is {value!r}, no {kind}")
        elif kind in ("integer", "number") and value < 0:
            wrong.append(f"{name}: {key} is negative")
    return wrong
