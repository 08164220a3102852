#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every #include of a project header obeys cmake/layers.txt, and each module stays a stranger to the others."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read_table():
    table = {}
    for line in (root / "cmake/layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, allowed = line.partition(":")
            table[folder] = set(allowed.split())
    return table


def module_of(stem):
    """The module that a file of stack/modules is part of: the one it is named after, or with whose name it starts."""
    modules = [header.stem for header in (root / "stack/modules").glob("*.h")
               if f"Entry {header.stem}_entry();" in header.read_text()]
    return next((module for module in modules if stem == module or stem.startswith(module + "_")), None)


def strangers(path, header):
    """Modules never include each other; each includes its own parts and what belongs to none (primitive.h)."""
    included = module_of(pathlib.Path(header).stem)
    return path.stem != "register" and included is not None and included != module_of(path.stem)


def check_file(path, folder, table):
    problems = []
    name = path.relative_to(root)
    for header in INCLUDE.findall(path.read_text()):
        target = next((layer for layer in sorted(table, key=len, reverse=True) if header.startswith(layer + "/")), None)
        if ".." in header or target is None:
            problems.append(f'{name}: "{header}" is not a path from the project root')
        elif target != folder and target not in table[folder]:
            problems.append(f'{name}: "{header}": {folder} may not include {target} (cmake/layers.txt)')
        elif folder == target == "stack/modules" and strangers(path, header):
            problems.append(f'{name}: "{header}": modules never include each other')
    return problems


def main():
    table = read_table()
    problems, files = [], 0
    for folder in table:
        for path in sorted((root / folder).glob("*")):
            # Headers whose name ends in -inl.h are included by Highway once a target, under a macro.
            if path.suffix in (".h", ".cc") and path.name != "main.cc":
                files += 1
                problems += check_file(path, folder, table)
    print("\n".join(problems) or f"{files} files obey cmake/layers.txt")
    return 1 if problems or files == 0 else 0


sys.exit(main())
