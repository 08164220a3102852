# SPDX-License-Identifier: Apache-2.0
"""A small terminal: what ftx writes to one, as rows of a screen that remember whether they were broken."""
import re
import unicodedata


def columns(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Terminal:
    """Lines as they were written; a line longer than the width takes several rows, as in a terminal that breaks lines
    anew when it is resized. Whatever ftx has no business to write is an error."""

    KNOWN = re.compile(r"\x1b\[(J|K)|\r|\n|[^\x00-\x1f\x7f-\x9f]")

    def __init__(self, width):
        self.width = width
        self.lines = [[]]  # of characters
        self.column = 0    # of the cursor, in characters of the last line
        self.wrapped = []  # lines that took more than a row when they were written
        self.drawn = []    # what the cursor's line held, each time when it was complete

    def feed(self, text):
        at = 0
        while at < len(text):
            found = self.KNOWN.match(text, at)
            if not found:
                raise AssertionError(f"not for a terminal: {text[at:at + 20]!r}")
            self.put(found.group())
            at = found.end()

    def put(self, code):
        line = self.lines[-1]
        if code == "\r":
            if self.column:
                self.drawn.append("".join(line))
            self.column = 0
        elif code == "\n":
            self.lines.append([])
            self.column = 0
        elif code.startswith("\x1b"):
            del line[self.column:]
        else:
            line[self.column:self.column + 1] = [code]
            self.column += 1
            if sum(map(columns, line[:self.column])) >= self.width:
                self.wrapped.append("".join(line))

    def resize(self, width):
        self.width = width

    def screen(self):
        return ["".join(line) for line in self.lines if line]
