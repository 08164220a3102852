#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages say what the programs say: options, subcommands, exit codes, JSON events."""
import os
import pathlib
import re
import subprocess
import sys

from json_tables import tables

root = pathlib.Path(__file__).resolve().parents[2]
programs = pathlib.Path(os.environ["SLUICE_BIN"])
GENERAL = {"-h", "--help", "--version"}
problems = []


def compare(what, documented, real):
    for missing in sorted(set(real) - set(documented), key=str):
        problems.append(f"{what}: {missing} is not in the man page")
    for surplus in sorted(set(documented) - set(real), key=str):
        problems.append(f"{what}: {surplus} is in the man page only")


def help_of(*command):
    return subprocess.run([programs / command[0], *command[1:], "--help"], check=True, capture_output=True, text=True).stdout


def section(text, title):
    """The lines under a heading of --help, up to the next one."""
    return re.search(rf"^{title}:\n((?:  .*\n)*)", text, re.M).group(1)


def options_of(*command):
    names = re.findall(r"^  (-\S+)", section(help_of(*command), "Options"), re.M)
    return {flag for each in names for flag in each.split(",")}


def page_of(program):
    """A man page as its sections: title to lines."""
    sections, lines = {}, []
    for line in (root / "docs/man" / f"{program}.1").read_text().splitlines():
        if line.startswith(".Sh "):
            lines = sections.setdefault(line[4:], [])
        lines.append(line)
    return sections


def flags_in(line):
    return {"-" + name for name in re.findall(r"\bFl (\S+)", line)}


def synopsis_of(page):
    """Per command of the SYNOPSIS (None: the program itself) its flags."""
    commands, flags = {}, set()
    for before, line in zip(page["SYNOPSIS"], page["SYNOPSIS"][1:]):
        if line.startswith(".Cm ") or before == ".Nm":
            name = line[4:] if line.startswith(".Cm ") else None
            flags = commands.setdefault(name, set())
        flags |= flags_in(line)
    return commands


def described_in(page):
    return {flag for line in page["DESCRIPTION"] if line.startswith(".It Fl") for flag in flags_in(line)}


def items_of(page, title):
    """The tagged list of a section: [(tag line, the line below)]."""
    lines = page[title]
    return [(line[4:], lines[at + 1]) for at, line in enumerate(lines) if line.startswith(".It ")]


def exit_codes_of(page):
    rows = [(re.fullmatch(r"(\d+) Pq Li (\S+)", tag), text) for tag, text in items_of(page, "EXIT STATUS")]
    return {(int(row.group(1)), row.group(2), text) for row, text in rows}


def check_options(program, subcommands):
    page = page_of(program)
    synopsis = synopsis_of(page)
    compare(f"{program}, subcommands", {name for name in synopsis if name}, subcommands)
    everything = set(GENERAL)
    for name in [None, *subcommands]:
        real = options_of(program, *([name] if name else []))
        compare(f"{program} {name or ''}, SYNOPSIS", synopsis[name] - GENERAL, real - GENERAL)
        everything |= real
    compare(f"{program}, DESCRIPTION", described_in(page), everything)


def check_ftx_exit_codes():
    source = (root / "apps/ftx/protocol/exit_code.h").read_text()
    numbers = dict(re.findall(r"^  (\w+) = (\d+),$", source, re.M))
    rows = re.findall(r'\{ExitCode::(\w+), "(\w+)",\s*"([^"]*)"\}', source)
    compare("ftx, number of exit codes", {len(numbers)}, {len(rows)})
    compare("ftx, EXIT STATUS", exit_codes_of(page_of("ftx")), {(int(numbers[key]), name, text) for key, name, text in rows})


def check_sluice_exit_codes():
    source = (root / "apps/sluice/exit_code.h").read_text()
    documented = {(code, name) for code, name, _ in exit_codes_of(page_of("sluice"))}
    compare("sluice, EXIT STATUS", documented,
            {(int(code), name) for name, code in re.findall(r"^  exit_(\w+) = (\d+),", source, re.M)})


def check_events():
    sources = [(root / "apps/ftx" / name).read_text() for name in ("session/event.cc", "cli/findings.cc")]
    bodies = [body for source in sources for body in re.findall(r'\{\s*\{"event", "\w+"\}.*?\}\s*\}', source, re.S)]
    keys = [re.findall(r'\{"(\w+)"(?:, "(\w+)")?', body) for body in bodies]
    real = {(found[0][1], tuple(key for key, _ in found[1:])) for found in keys}
    tags = [tag.split() for tag, _ in items_of(page_of("ftx"), "EVENTS")]
    compare("ftx, EVENTS", {(tag[1], tuple(tag[3:])) for tag in tags}, real)
    compare("docs/formats/ftx-json.md, beside the source", {(name, tuple(members)) for name, members in tables().items() if name}, real)


def check_message_calls():
    page = (root / "docs/man/sluice_msg.3").read_text()
    synopsis = page[page.index(".Sh SYNOPSIS"):page.index(".Sh DESCRIPTION")]
    documented = {(name, tuple(re.findall(r'"([^"]+)"', rest)))
                  for name, rest in re.findall(r"^\.Fn (\w+) (.*)$", synopsis, re.M)}
    header = re.sub(r"/\*.*?\*/", "", (root / "apps/msg/msg.h").read_text(), flags=re.S)
    # A pointer's star stands at its type there, and at its name here.
    real = {(name, tuple(re.sub(r"(\*+) (\w+)$", r" \1\2", " ".join(each.split())) for each in arguments.split(",")
                         if each.strip() != "void"))
            for name, arguments in re.findall(r"SLUICE_MSG_API [\w ]+\*? ?(sluice_msg_\w+)\(([^)]*)\)", header)}
    compare("sluice_msg, SYNOPSIS", documented, real)


check_options("ftx", {"serve", "key", "doctor"})
check_options("sluice", set(re.findall(r"^  (\w+)", section(help_of("sluice"), "Subcommands"), re.M)))
check_ftx_exit_codes()
check_sluice_exit_codes()
check_events()
check_message_calls()
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
